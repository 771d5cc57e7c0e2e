"""How types are stored in Parquet (Appendix A, Parquet): every row of the table, and the files that Java writes."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from floe.spec.codecs.parquet_types import LogicalAnnotation, ParquetType, parquet_type
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
)
from helpers.corpus import table_names

Logical = LogicalAnnotation

# The names are those of today's Parquet: what the spec calls `binary` is `byte_array`, `UTF8` is STRING, and
# `TIMESTAMP_MICROS` is TIMESTAMP with a unit.
APPENDIX_A: list[tuple[Type, ParquetType | None]] = [
    (UNKNOWN, None),
    (BOOLEAN, ParquetType("boolean")),
    (INT, ParquetType("int32")),
    (LONG, ParquetType("int64")),
    (FLOAT, ParquetType("float")),
    (DOUBLE, ParquetType("double")),
    (DecimalType(9, 2), ParquetType("int32", Logical("DECIMAL", precision=9, scale=2))),
    (DecimalType(18, 6), ParquetType("int64", Logical("DECIMAL", precision=18, scale=6))),
    (DecimalType(19, 0), ParquetType("fixed_len_byte_array", Logical("DECIMAL", precision=19, scale=0), 9)),
    (DecimalType(38, 10), ParquetType("fixed_len_byte_array", Logical("DECIMAL", precision=38, scale=10), 16)),
    (DATE, ParquetType("int32", Logical("DATE"))),
    (TIME, ParquetType("int64", Logical("TIME", unit="MICROS", adjusted_to_utc=False))),
    (TIMESTAMP, ParquetType("int64", Logical("TIMESTAMP", unit="MICROS", adjusted_to_utc=False))),
    (TIMESTAMPTZ, ParquetType("int64", Logical("TIMESTAMP", unit="MICROS", adjusted_to_utc=True))),
    (TIMESTAMP_NS, ParquetType("int64", Logical("TIMESTAMP", unit="NANOS", adjusted_to_utc=False))),
    (TIMESTAMPTZ_NS, ParquetType("int64", Logical("TIMESTAMP", unit="NANOS", adjusted_to_utc=True))),
    (STRING, ParquetType("byte_array", Logical("STRING"))),
    (UUID, ParquetType("fixed_len_byte_array", Logical("UUID"), 16)),
    (FixedType(5), ParquetType("fixed_len_byte_array", None, 5)),
    (BINARY, ParquetType("byte_array")),
    (StructType(), ParquetType("group")),
    (ListType(1, INT), ParquetType("group", Logical("LIST"))),
    (MapType(1, INT, 2, INT), ParquetType("group", Logical("MAP"))),
    (VARIANT, ParquetType("group", Logical("VARIANT", version=1), unnumbered_children=("metadata", "value"))),
    (GeometryType(), ParquetType("byte_array", Logical("GEOMETRY", crs="OGC:CRS84"))),
    (
        GeographyType("EPSG:4326", "karney"),
        ParquetType("byte_array", Logical("GEOGRAPHY", crs="EPSG:4326", algorithm="KARNEY")),
    ),
]


@pytest.mark.parametrize(("type_", "stored"), APPENDIX_A, ids=[str(t) for t, _ in APPENDIX_A])
def test_parquet_data_type_mappings(type_: Type, stored: ParquetType | None) -> None:
    assert parquet_type(type_) == stored


def test_parquet_unknown_is_omitted_from_data_files() -> None:
    assert parquet_type(UNKNOWN) is None


def test_parquet_variant_children_have_no_field_ids() -> None:
    stored = parquet_type(VARIANT)
    assert stored is not None
    assert stored.unnumbered_children == ("metadata", "value")


@pytest.mark.parametrize("precision", range(1, 39))
def test_parquet_decimal_is_int32_int64_or_minimal_fixed(precision: int) -> None:
    stored = parquet_type(DecimalType(precision, 0))
    assert stored is not None
    if precision <= 9:
        assert (stored.physical, stored.length) == ("int32", None)
    elif precision <= 18:
        assert (stored.physical, stored.length) == ("int64", None)
    else:
        assert stored.physical == "fixed_len_byte_array"
        assert stored.length is not None
        assert 2 ** (8 * stored.length - 1) > 10**precision - 1 >= 2 ** (8 * (stored.length - 1) - 1)


def test_annotation_text() -> None:
    assert str(Logical("UUID")) == "UUID"
    assert str(Logical("TIME", unit="MICROS", adjusted_to_utc=False)) == "TIME(unit=MICROS, adjusted_to_utc=False)"


# beside Java ----------------------------------------------------------------------------------------------------

UNITS = {"microseconds": "MICROS", "nanoseconds": "NANOS", "milliseconds": "MILLIS"}


def annotation(column: Any) -> LogicalAnnotation | None:
    """The logical type that pyarrow finds in a file."""
    found = json.loads(column.logical_type.to_json())
    name = found["Type"].upper()
    if name in ("NONE", "UNDEFINED"):
        return None
    unit = found.get("timeUnit")
    return Logical(
        name,
        precision=found.get("precision"),
        scale=found.get("scale"),
        unit=UNITS[unit] if unit else None,
        adjusted_to_utc=found.get("isAdjustedToUTC"),
    )


def leaves(schema: Schema) -> dict[int, Type]:
    """Every primitive at any depth by its id."""
    return {i: e.field.type for i, e in schema.by_id.items() if e.field.type.is_primitive}


def parquet_ids(path: Path) -> tuple[Any, list[int | None]]:
    """A file's columns, and the field id of each as its printed schema has it."""
    found = pq.ParquetFile(path)  # type: ignore[no-untyped-call]
    lines = [line.strip() for line in str(found.schema).splitlines()[1:]]
    primitive = [line for line in lines if line.endswith(";")]
    ids = [int(line.split("field_id=")[1].split(" ")[0]) for line in primitive]
    return found.schema, [i if i >= 0 else None for i in ids]


def test_columns_of_javas_parquet_files_are_stored_as_the_table_says(corpus_dir: Path) -> None:
    seen = set()
    for table in table_names("types_", "names_", "v2_", "evo_defaults", "part_identity_types"):
        expected = json.loads((corpus_dir / table / "expected.json").read_text())
        if not expected.get("schemas") or table.startswith("imp_"):
            continue
        types = leaves(
            schema_from_json(json.loads((corpus_dir / table / expected["metadata"]).read_bytes())["schemas"][-1])
        )
        for path in sorted((corpus_dir / table / "data").rglob("*.parquet")):
            schema, ids = parquet_ids(path)
            assert len(ids) == len(schema)
            for i, field_id in enumerate(ids):
                if field_id is None or field_id not in types:
                    continue  # a part of a variant, or a column of position deletes
                column, stored = schema.column(i), parquet_type(types[field_id])
                assert stored is not None, (path, field_id)
                assert column.physical_type.lower() == stored.physical, (path, field_id)
                assert annotation(column) == stored.logical, (path, field_id)
                assert (column.length or None) == stored.length, (path, field_id)
                seen.add(types[field_id].kind)
    assert seen >= {
        "boolean", "int", "long", "float", "double", "decimal", "date", "time", "timestamp", "timestamptz",
        "timestamp_ns", "timestamptz_ns", "string", "uuid", "fixed", "binary",
    }  # fmt: skip


def test_variants_of_javas_parquet_files_have_unnumbered_children(corpus_dir: Path) -> None:
    path = next((corpus_dir / "types_variant" / "data").glob("*.parquet"))
    text = str(pq.ParquetFile(path).schema)  # type: ignore[no-untyped-call]
    stored = parquet_type(VARIANT)
    assert stored is not None
    assert "v (Variant(1))" in text
    for child in stored.unnumbered_children:
        assert f"required binary field_id=-1 {child};" in text
