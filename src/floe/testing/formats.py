"""The promises of `FormatModel` as tests: whoever writes a format, or an object model, can run them on it.

Subclass it in a test module and give one pytest fixture, `bench`: the model, and where needed how its batches are made
from plain rows and back. What a format cannot do by its `features` is expected to be refused.

```python
class TestMine(FormatConformance):
    @pytest.fixture
    def bench(self):
        return FormatBench(MyModel(), to_batch=..., to_rows=...)
```

`feature_table` tries everything without pytest, and tells what each of some models can do. The models that Floe brings
are shown by `python -m floe.testing.formats`.
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
    """All promises of a format model, as test methods for pytest; see the module."""


_NEEDED: dict[str, Feature] = {
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
"""What a promise is about that not every format has to keep; where it has not, the promise is a clear refusal."""


def feature_table(make_benches: Iterable[Callable[[], FormatBench]]) -> str:
    """A table of features and models: `yes`, `no` and why where a model does not claim it, or what went wrong.

    >>> from floe.formats.arrow_models import ParquetAsArrow
    >>> print(feature_table([lambda: FormatBench(ParquetAsArrow())])[:44])  # doctest: +SKIP
    | feature | parquet as arrow |
    |---|---|
    """
    makers = list(make_benches)
    heads = [f"{bench.model.file_format} as {bench.model.object_model}" for bench in (make() for make in makers)]
    lines = [f"| feature | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in _promises():
        told = (getattr(FormatConformance, name).__doc__ or name).strip().split("\n")[0].removesuffix(".")
        lines.append(f"| {told} | {' | '.join(_outcome(name, make()) for make in makers)} |")
    return "\n".join(lines)


def _promises() -> list[str]:
    """The names of the tests, in the order in which they are written."""
    ordered: dict[str, Any] = {}
    for part in FormatConformance.__bases__:
        ordered.update((name, None) for name in vars(part) if name.startswith("test_"))
    return list(ordered)


def _outcome(name: str, bench: FormatBench) -> str:
    if name == "test_files_without_ids" and bench.write_without_ids is None:
        return "not tried"
    needed = _NEEDED.get(name)
    try:
        getattr(FormatConformance(), name)(bench)
    except UnsupportedFeature as error:
        return f"no: {error.message[:60]}"
    except Exception as error:  # whatever goes wrong is told in the table
        return f"FAILS: {type(error).__name__} {str(error)[:60]}"
    if needed is None or bench.supports(needed):
        return "yes"
    why = getattr(bench.model, "lacks", {}).get(needed)
    return "no" if why is None else f"no: {why}"


def _bench_of(model: FormatModel[Any]) -> Callable[[], FormatBench]:
    return lambda: FormatBench(model)


if __name__ == "__main__":
    sys.stdout.write(feature_table([_bench_of(model) for model in default_registry()]) + "\n")
