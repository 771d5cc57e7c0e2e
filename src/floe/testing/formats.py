"""Conformance tests for implementations of `FormatModel`: formats, and object models of formats.

Subclass `FormatConformance` in a test module, with a pytest fixture `bench`: the model, with the conversion of its
batches from plain rows and back. Features that are not among the model's `features` must raise `UnsupportedFeature`.

```python
class TestMine(FormatConformance):
    @pytest.fixture
    def bench(self):
        return FormatBench(MyModel(), to_batch=..., to_rows=...)
```

`feature_table` runs the tests without pytest, and returns a table of what each model supports;
`python -m floe.testing.formats` prints it for Floe's own models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from floe.errors import UnsupportedFeature
from floe.formats.model import Feature, FormatModel
from floe.formats.registry import default_registry
from floe.testing.format_bench import FormatBench
from floe.testing.format_reads import DeleteTests, EvolutionTests, ReadTests
from floe.testing.format_types import MetadataColumnTests, TypeTests
from floe.testing.format_writes import MetricsTests, WriteTests


class FormatConformance(
    TypeTests, EvolutionTests, MetadataColumnTests, ReadTests, DeleteTests, MetricsTests, WriteTests
):
    """The conformance tests of a format model, as test methods for pytest."""


_OPTIONAL: dict[str, Feature] = {
    "test_variant": Feature.VARIANT,
    "test_variants_in_lists_and_maps": Feature.VARIANT,
    "test_geometry_and_geography": Feature.GEOSPATIAL,
    "test_last_second": Feature.LAST_SECOND,
    "test_splits": Feature.SPLIT,
    "test_split_offsets": Feature.SPLIT_OFFSETS,
    "test_filters_skip": Feature.FILTER,
    "test_reuse": Feature.REUSE,
    "test_column_sizes": Feature.COLUMN_SIZES,
}
"""The tests of optional features; for a model without the feature they expect an error."""


def feature_table(make_benches: Iterable[Callable[[], FormatBench]]) -> str:
    """A Markdown table of features and models: `yes`, `no` with the reason, or the error of a test that fails.

    >>> from floe.formats.arrow_models import ParquetAsArrow
    >>> print(feature_table([lambda: FormatBench(ParquetAsArrow())])[:44])  # doctest: +SKIP
    | feature | parquet as arrow |
    |---|---|
    """
    makers = list(make_benches)
    heads = [f"{bench.model.file_format} as {bench.model.object_model}" for bench in (make() for make in makers)]
    lines = [f"| feature | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in _test_names():
        label = (getattr(FormatConformance, name).__doc__ or name).strip().split("\n")[0].removesuffix(".")
        lines.append(f"| {label} | {' | '.join(_outcome(name, make()) for make in makers)} |")
    return "\n".join(lines)


def _test_names() -> list[str]:
    """The names of the tests, in the order of the source."""
    ordered: dict[str, Any] = {}
    for base in FormatConformance.__bases__:
        ordered.update((name, None) for name in vars(base) if name.startswith("test_"))
    return list(ordered)


def _outcome(name: str, bench: FormatBench) -> str:
    if name == "test_files_without_ids" and bench.write_without_ids is None:
        return "not tried"
    feature = _OPTIONAL.get(name)
    try:
        getattr(FormatConformance(), name)(bench)
    except UnsupportedFeature as error:
        return f"no: {error.message[:60]}"
    except Exception as error:  # the table shows every error
        return f"FAILS: {type(error).__name__} {str(error)[:60]}"
    if feature is None or bench.supports(feature):
        return "yes"
    reason = getattr(bench.model, "lacks", {}).get(feature)
    return "no" if reason is None else f"no: {reason}"


def _bench_of(model: FormatModel[Any]) -> Callable[[], FormatBench]:
    return lambda: FormatBench(model)


if __name__ == "__main__":
    sys.stdout.write(feature_table([_bench_of(model) for model in default_registry()]) + "\n")
