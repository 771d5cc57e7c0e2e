"""The registry, its builders, and a third party that brings a format and an object model of its own."""

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import pytest

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.model import FileAppender, FormatModel, ReadBuilder, ReadRequest, WriteRequest
from floe.formats.registry import ParquetAsArrow, Registry, default_registry
from floe.formats.rows import AsRows
from floe.spec.expressions.dsl import col
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.storage.memory import MemoryStorage
from floe.testing.format_bench import FormatBench
from floe.testing.formats import FormatConformance

SCHEMA = Schema((Field(1, "id", LONG), Field(2, "name", STRING)))


# a format of one's own: a line of JSON for each row -------------------------------------------------------------------


class JsonLines:
    """Rows as lines of JSON, by field id."""

    file_format = "jsonl"
    object_model = "rows"
    features: frozenset[Any] = frozenset()

    def read(self, request: ReadRequest) -> Iterator[dict[str, Any]]:
        passes = compile_row_filter(request.filter) if request.filter is not None else None
        for line in request.storage.read(request.location).decode().splitlines():
            stored = json.loads(line)
            row = {field.name: stored.get(str(field.id)) for field in request.schema.fields}
            if passes is None or passes(row):
                yield row

    def write(self, request: WriteRequest) -> "JsonAppender":
        return JsonAppender(request)


class JsonAppender:
    def __init__(self, request: WriteRequest) -> None:
        self.request = request
        self.stream = request.storage.open_write(request.location, overwrite=request.overwrite)
        self.record_count = 0
        self.done: DataFile | None = None

    @property
    def length(self) -> int:
        return self.stream.tell()

    def write(self, rows: list[dict[str, Any]], /) -> None:
        for row in rows:
            stored = {str(field.id): row.get(field.name) for field in self.request.schema.fields}
            self.stream.write(json.dumps(stored).encode() + b"\n")
            self.record_count += 1

    def close(self) -> DataFile:
        self.stream.close()
        size = self.stream.tell()
        return DataFile(FileContent.DATA, self.request.location, "jsonl", (), self.record_count, size)

    def abort(self) -> None:
        self.stream.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abort()


# an object model of one's own: columns as a dictionary of lists -------------------------------------------------------


class AsColumns:
    """Batches as dictionaries of lists, over any model of rows."""

    object_model = "columns"

    def __init__(self, rows: AsRows) -> None:
        self.rows = rows
        self.file_format = rows.file_format
        self.features = rows.features

    def read(self, request: ReadRequest) -> Iterator[dict[str, list[Any]]]:
        rows = list(self.rows.read(request))
        yield {"#": [None] * len(rows), **{f.name: [row[f.name] for row in rows] for f in request.schema.fields}}

    def write(self, request: WriteRequest) -> "ColumnsAppender":
        return ColumnsAppender(self.rows.write(request))


class ColumnsAppender:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def write(self, batch: dict[str, list[Any]], /) -> None:
        names = [name for name in batch if name != "#"]
        self.inner.write([dict(zip(names, row, strict=True)) for row in zip(*(batch[n] for n in names), strict=True)])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.inner.__exit__(*error)


def to_columns(schema: Schema, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {field.name: [row[field.name] for row in rows] for field in schema.fields}


def from_columns(schema: Schema, batches: Any) -> list[dict[str, Any]]:
    names = [field.name for field in schema.fields]
    return [
        dict(zip(names, row, strict=True)) if names else {}
        for batch in batches
        for row in (zip(*(batch[name] for name in names), strict=True) if names else batch["#"])
    ]


class TestParquetAsColumns(FormatConformance):
    """The third party's object model keeps all promises too."""

    @pytest.fixture
    def bench(self) -> FormatBench:
        model = AsColumns(AsRows(ParquetAsArrow()))
        return FormatBench(model, to_batch=to_columns, to_rows=from_columns)

    def test_reuse(self, bench: FormatBench) -> None:
        """Batches of this model are never used again."""


def test_a_third_party_registers_a_format_and_a_model() -> None:
    formats = Registry(default_registry())
    formats.register(JsonLines())
    formats.register(AsColumns(AsRows(ParquetAsArrow())))
    assert isinstance(formats.model("JSONL", "rows"), FormatModel)
    storage = MemoryStorage()
    for file_format, model, batch in (
        ("jsonl", "rows", [{"id": 1, "name": "a"}, {"id": 2, "name": None}]),
        ("parquet", "columns", {"id": [1, 2], "name": ["a", None]}),
    ):
        builder = formats.write_data(file_format, model, storage, f"memory:{model}.{file_format}").schema(SCHEMA)
        with builder.build() as file:
            assert isinstance(file, FileAppender)
            file.write(batch)
        assert file.close().record_count == 2
        reading = formats.read(file_format, model, storage, f"memory:{model}.{file_format}").project(SCHEMA)
        assert list(reading) in ([batch], batch, [{"#": [None, None], **batch}] if isinstance(batch, dict) else None)
    matching = list(formats.read("jsonl", "rows", storage, "memory:rows.jsonl").project(SCHEMA).filter(col("id") > 1))
    assert matching == [{"id": 2, "name": None}]


def test_registering_twice_is_an_error_unless_meant() -> None:
    formats = Registry([ParquetAsArrow()])
    with pytest.raises(InvalidInput, match="already"):
        formats.register(ParquetAsArrow())
    mine = ParquetAsArrow()
    formats.register(mine, replace=True)
    assert formats.model("parquet", "arrow") is mine
    assert len(formats) == 1


def test_unknown_models_are_told_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedFeature, match="parquet as arrow"):
        default_registry().model("lance", "arrow")
    with pytest.raises(UnsupportedFeature, match="known are none"):
        Registry().model("parquet", "arrow")


def test_there_is_one_default_registry_and_copies_are_apart() -> None:
    assert default_registry() is default_registry()
    count = len(default_registry())
    copy = Registry(default_registry())
    copy.register(JsonLines())
    assert (len(copy), len(default_registry())) == (count + 1, count)


def test_builders_are_values() -> None:
    """Each step gives a new builder, so that one can be the start of several."""
    formats, storage = default_registry(), MemoryStorage()
    writing = formats.write_data("parquet", "rows", storage, "memory:a").schema(SCHEMA)
    with writing.build() as file:
        file.write([{"id": n, "name": str(n)} for n in range(10)])
    reading: ReadBuilder[Any] = formats.read("parquet", "rows", storage, "memory:a").project(SCHEMA)
    few = reading.filter(col("id") < 2)
    assert len(list(reading)) == 10
    assert len(list(few)) == 2
    assert len(list(few)) == 2
    assert len(list(few.project(Schema((POS,))).filter(col("id") < 3, SCHEMA))) == 3


def test_a_projection_is_needed() -> None:
    with pytest.raises(InvalidInput, match="project"):
        list(default_registry().read("parquet", "rows", MemoryStorage(), "memory:a"))
