# Every target works in a fresh clone, with nothing run before it: each creates what it needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
SPARKS := -n 2 --dist loadfile # two sessions of Spark, each with files of tests of its own
# What differs between versions of Spark: its interfaces, plans and grammar. What Floe does above them is tested on the newest.
VERSIONED := $(addprefix tests/spark/,dml extended_sql test_bridge.py test_catalog.py test_changes.py test_data_source.py \
  test_deletes.py test_epochs.py test_equality_joins.py test_extended_sql.py test_functions.py test_procedures.py \
  test_rules.py test_scans.py test_session.py test_streams.py test_views.py test_writes.py)

.PHONY: help setup demo test lint types unit slow sparks bench interop docs pins clean

help: ## what there is
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## create .venv with pinned requirements and Floe
	@scripts/setup.sh .venv requirements/dev.txt requirements/spark.txt

demo: setup ## make a table in a temporary folder, write, read back, travel in time
	@$(PY) examples/demo.py

test: lint types unit ## lint, types, unit tests, doctests
	@command -v javac >/dev/null || echo "not tested: Java Iceberg as oracle needs a Java 17 development kit (apt-get install openjdk-17-jdk-headless)"
	@command -v mvn >/dev/null || echo "not tested: Java Iceberg as oracle needs Maven (apt-get install maven)"
	@command -v java >/dev/null || echo "not tested: Spark needs Java 17 (apt-get install openjdk-17-jre-headless)"
	@echo "test: passed; make slow runs the slow tier, make interop compares with Java Iceberg"

lint: setup ## ruff: rules and format
	@echo "lint: ruff"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: setup ## mypy, strict on src/floe
	@echo "types: mypy --strict"
	@$(PY) -m mypy

unit: setup ## tests and doctests
	@scripts/s3_server.sh
	@echo "unit: tests and doctests"
	@$(PY) -m pytest -q -n auto -m "not interop and not slow" --ignore=tests/spark
	@echo "unit: Spark"
	@$(PY) -m pytest -q $(SPARKS) -m "not interop and not slow" tests/spark

slow: setup ## the slow tier: every fault, every pair, long property tests
	@scripts/s3_server.sh
	@echo "slow: long property tests, faults and big inputs"
	@$(PY) -m pytest -q -n auto -m "slow and not interop" --ignore=tests/spark
	@echo "slow: Spark"
	@$(PY) -m pytest -q $(SPARKS) -m "slow and not interop" tests/spark || [ $$? -eq 5 ] # without Java there are none

sparks: ## the Spark tests that differ by version, on the oldest Spark that Floe supports, and on the one that Java Iceberg supports
	@command -v java >/dev/null || { echo "missing: Java 17 (for example: apt-get install openjdk-17-jre-headless)"; exit 1; }
	@scripts/setup.sh .venv-spark-oldest requirements/dev.txt requirements/spark-oldest.txt
	@scripts/setup.sh .venv-interop requirements/dev.txt requirements/interop.txt
	@for venv in .venv-spark-oldest .venv-interop; do \
	  echo "sparks: $$($$venv/bin/python -c 'import pyspark; print(pyspark.__version__)')"; \
	  $$venv/bin/python -m pytest -q $(SPARKS) -m "not slow and not interop" $(VERSIONED) || exit 1; \
	done

bench: setup ## benchmarks beside a peer in the same run
	@for file in benchmarks/bench_*.py; do echo "bench: $$file"; $(PY) $$file || exit 1; done

interop: ## Java Iceberg reads what Floe wrote, and agrees on every rule asked
	@command -v javac >/dev/null || { echo "missing: a Java 17 development kit (for example: apt-get install openjdk-17-jdk-headless)"; exit 1; }
	@command -v mvn >/dev/null || { echo "missing: Maven, which brings Java Iceberg (for example: apt-get install maven)"; exit 1; }
	@scripts/setup.sh .venv-interop requirements/dev.txt requirements/interop.txt
	@echo "interop: Java Iceberg on Spark as oracle"
	@.venv-interop/bin/python -m pytest -q $(SPARKS) -m interop tests/interop

docs: ## the documentation site, into site/
	@scripts/setup.sh .venv-docs requirements/dev.txt requirements/docs.txt
	@.venv-docs/bin/zensical build --clean --strict
	@echo "docs: open site/index.html"

pins: ## resolve the pinned requirements again (needs uv)
	@scripts/pins.sh

clean: ## remove everything that the other targets made
	@rm -rf .venv .venv-* site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
