"""How types are stored in ORC (Appendix A, ORC): every row of the table, what is read back, and Java's files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.codecs.orc_types import OrcType, field_attributes, orc_type, stored_type
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
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
)
from helpers.corpus import table_names

APPENDIX_A: list[tuple[Type, str | None, dict[str, str]]] = [
    (UNKNOWN, None, {}),
    (BOOLEAN, "boolean", {}),
    (INT, "int", {}),
    (LONG, "long", {}),
    (FLOAT, "float", {}),
    (DOUBLE, "double", {}),
    (DecimalType(9, 2), "decimal", {}),
    (DATE, "date", {}),
    (TIME, "long", {"iceberg.long-type": "TIME"}),
    (TIMESTAMP, "timestamp", {"iceberg.timestamp-unit": "MICROS"}),
    (TIMESTAMPTZ, "timestamp_instant", {"iceberg.timestamp-unit": "MICROS"}),
    (TIMESTAMP_NS, "timestamp", {"iceberg.timestamp-unit": "NANOS"}),
    (TIMESTAMPTZ_NS, "timestamp_instant", {"iceberg.timestamp-unit": "NANOS"}),
    (STRING, "string", {}),
    (UUID, "binary", {"iceberg.binary-type": "UUID"}),
    (FixedType(5), "binary", {"iceberg.binary-type": "FIXED", "iceberg.length": "5"}),
    (BINARY, "binary", {}),
    (StructType(), "struct", {}),
    (ListType(1, INT), "array", {}),
    (MapType(1, INT, 2, INT), "map", {}),
    (VARIANT, "struct", {"iceberg.struct-type": "VARIANT"}),
    (GeometryType(), "binary", {"iceberg.binary-type": "GEOMETRY"}),
    (GeographyType(), "binary", {"iceberg.binary-type": "GEOGRAPHY"}),
]


@pytest.mark.parametrize(("type_", "kind", "attributes"), APPENDIX_A, ids=[str(t) for t, _, _ in APPENDIX_A])
def test_orc_data_type_mappings(type_: Type, kind: str | None, attributes: dict[str, str]) -> None:
    stored = orc_type(type_)
    if kind is None:
        assert stored is None
    else:
        assert stored is not None
        assert (stored.kind, stored.attributes) == (kind, attributes)


def test_orc_decimal_keeps_precision_and_scale() -> None:
    assert orc_type(DecimalType(38, 10)) == OrcType("decimal", precision=38, scale=10)


def test_orc_variant_is_a_struct_whose_children_have_no_ids() -> None:
    stored = orc_type(VARIANT)
    assert stored is not None
    assert stored.unnumbered_children == ("metadata", "value")


def test_orc_ids_and_required_are_attributes() -> None:
    assert field_attributes(Field(7, "u", UUID, required=True)) == {
        "iceberg.id": "7",
        "iceberg.required": "true",
        "iceberg.binary-type": "UUID",
    }
    assert field_attributes(Field(8, "n", INT)) == {"iceberg.id": "8", "iceberg.required": "false"}


READABLE = [row for row in APPENDIX_A if row[0].is_primitive and row[1] is not None]


@pytest.mark.parametrize("type_", [*(t for t, _, _ in READABLE), VARIANT], ids=str)
def test_orc_types_come_back_as_they_were(type_: Type) -> None:
    stored = orc_type(type_)
    assert stored is not None
    assert stored_type(stored) == type_


@pytest.mark.parametrize(
    ("kind", "type_"),
    [("tinyint", INT), ("smallint", INT), ("varchar", STRING), ("char", STRING)],
)
def test_orc_smaller_integers_and_bounded_strings_are_read(kind: str, type_: Type) -> None:
    assert stored_type(OrcType(kind)) == type_


def test_orc_timestamp_unit_is_micros_when_absent() -> None:
    assert stored_type(OrcType("timestamp")) == TIMESTAMP
    assert stored_type(OrcType("timestamp_instant")) == TIMESTAMPTZ


def test_orc_long_and_binary_may_be_marked_as_such() -> None:
    """As Java marks them, which the spec does not ask for."""
    assert stored_type(OrcType("long", {"iceberg.long-type": "LONG"})) == LONG
    assert stored_type(OrcType("binary", {"iceberg.binary-type": "BINARY"})) == BINARY


@pytest.mark.parametrize(
    "stored",
    [
        OrcType("union"),
        OrcType("long", {"iceberg.long-type": "DURATION"}),
        OrcType("timestamp", {"iceberg.timestamp-unit": "PICOS"}),
        OrcType("struct"),
        OrcType("decimal"),
    ],
)
def test_orc_types_that_the_format_does_not_have(stored: OrcType) -> None:
    with pytest.raises(UnsupportedFeature):
        stored_type(stored)


@pytest.mark.parametrize("length", ["", "-1", "x", "99999999999", "٣", "2147483648"])
def test_orc_fixed_length_must_be_a_length(length: str) -> None:
    with pytest.raises(CorruptFile, match=r"iceberg\.length"):
        stored_type(OrcType("binary", {"iceberg.binary-type": "FIXED", "iceberg.length": length}))


def test_orc_decimal_that_cannot_be() -> None:
    with pytest.raises(CorruptFile, match="precision"):
        stored_type(OrcType("decimal", precision=77, scale=0))


# beside Java ----------------------------------------------------------------------------------------------------

# what Java adds to the attributes of the spec
JAVA_ALSO_WRITES = {"long": {"iceberg.long-type": "LONG"}, "binary": {"iceberg.binary-type": "BINARY"}}


def columns(field: pa.Field) -> list[pa.Field]:
    """A column of an ORC file and everything below it."""
    type_ = field.type
    children: list[pa.Field] = []
    if pa.types.is_struct(type_):
        children = [type_.field(i) for i in range(type_.num_fields)]
    elif pa.types.is_map(type_):
        children = [type_.key_field, type_.item_field]
    elif pa.types.is_list(type_):
        children = [type_.value_field]
    return [field, *(c for child in children for c in columns(child))]


def attributes(field: pa.Field) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}


def schema_of(corpus_dir: Path, table: str) -> Schema:
    expected: dict[str, Any] = json.loads((corpus_dir / table / "expected.json").read_text())
    metadata = json.loads((corpus_dir / table / expected["metadata"]).read_bytes())
    return schema_from_json(metadata["schemas"][-1])


def test_attributes_of_javas_orc_files_are_those_of_the_table(corpus_dir: Path) -> None:
    seen = set()
    for table in table_names("types_orc", "types_nested_orc", "types_nested_more_orc", "names_special"):
        schema = schema_of(corpus_dir, table)
        for path in sorted((corpus_dir / table / "data").rglob("*.orc")):
            file = orc.ORCFile(path)  # type: ignore[no-untyped-call]
            for column in [c for top in file.schema for c in columns(top)]:
                found = attributes(column)
                child = schema.by_id[int(found["iceberg.id"])].field
                wanted = field_attributes(child) | JAVA_ALSO_WRITES.get(child.type.kind, {})
                assert found == wanted, (path, column.name)
                seen.add(child.type.kind)
    assert seen >= {
        "boolean", "int", "long", "float", "double", "decimal", "date", "time", "timestamp", "timestamptz", "string",
        "uuid", "fixed", "binary", "struct", "list", "map",
    }  # fmt: skip
