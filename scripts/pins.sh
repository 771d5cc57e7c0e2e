#!/usr/bin/env bash
# Write the pinned requirements: names, versions and hashes only, so that any package registry will do.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() { # output, inputs…
  local out=$1
  shift
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links --output-file "$out" "$@"
}
compile requirements/dev.txt pyproject.toml requirements/dev.in
compile requirements/docs.txt requirements/docs.in --constraint requirements/dev.txt
compile requirements/interop.txt requirements/interop.in --constraint requirements/dev.txt
compile requirements/spark.txt requirements/spark.in --constraint requirements/dev.txt
compile requirements/spark-oldest.txt requirements/spark-oldest.in --constraint requirements/dev.txt
