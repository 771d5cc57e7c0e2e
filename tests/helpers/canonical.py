"""Arrow tables in the corpus's canonical form, to compare them with the recorded answers (tests/corpus/README.md)."""

import hashlib
import json
import math
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from floe.spec.codecs.single_value import split_variant
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import DecimalType, Type
from floe.spec.values.civil_time import MICROS, NANOS, date_to_text, timestamp_to_text
from floe.spec.values.value_checks import map_items
from helpers.variants import canonical_variant


def canonical_rows(table: pa.Table, schema_json: dict[str, Any]) -> list[str]:
    """The rows as sorted texts; the columns must be those of the schema."""
    schema = schema_from_json(schema_json)
    assert table.column_names == [field.name for field in schema]
    columns = [_values(field.type, table.column(field.name)) for field in schema]
    return sorted(_text(list(row)) for row in zip(*columns, strict=True))


def canonical_values(rows: Iterable[dict[str, Any]], schema_json: dict[str, Any]) -> list[str]:
    """Plain rows, with values in the form of `floe.spec.values`, as sorted texts."""
    schema = schema_from_json(schema_json)
    names = [field.name for field in schema]
    found = []
    for row in rows:
        assert list(row) == names
        found.append(_text([_value(field.type, _as_arrow_has_it(field.type, row[field.name])) for field in schema]))
    return sorted(found)


def _as_arrow_has_it(type_: Type, value: Any) -> Any:
    """A value of `floe.spec.values` in the form that Arrow gives, which is another for some types."""
    if value is None:
        return None
    if type_.kind == "struct":
        return {child.name: _as_arrow_has_it(child.type, value[child.name]) for child in type_.fields}
    if type_.kind == "list":
        return [_as_arrow_has_it(type_.fields[0].type, item) for item in value]
    if type_.kind == "map":
        key, item = type_.fields
        return [(_as_arrow_has_it(key.type, k), _as_arrow_has_it(item.type, v)) for k, v in map_items(value)]
    if type_.kind == "uuid":
        return value.bytes
    if type_.kind == "variant":
        metadata, item = split_variant(value)
        return {"metadata": metadata, "value": item}
    return value


def digest(rows: list[str]) -> str:
    """The recorded digest of some rows."""
    return hashlib.sha256("".join(row + "\n" for row in rows).encode("ascii")).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)


def _values(type_: Type, column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(type_, chunk)]
    return [_value(type_, value) for value in _plain(type_, column).to_pylist()]


def _plain(type_: Type, array: pa.Array) -> pa.Array:
    """The array with moments as numbers, which Python's own types cannot all hold."""
    target = _numbers_for(array.type)
    return array if target == array.type else array.cast(target)


def _numbers_for(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_numbers_for(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_numbers_for(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(_numbers_for(type_.key_type), _numbers_for(type_.item_type))
    if pa.types.is_date32(type_):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(type_) or pa.types.is_time64(type_) else type_


def _value(type_: Type, value: Any) -> Any:
    if value is None or type_.kind in ("boolean", "string"):
        return value
    if type_.kind == "struct":
        assert list(value) == [child.name for child in type_.fields]
        return [_value(child.type, value[child.name]) for child in type_.fields]
    if type_.kind == "list":
        return [_value(type_.fields[0].type, item) for item in value]
    if type_.kind == "map":
        key, item = type_.fields
        return sorted(([_value(key.type, k), _value(item.type, v)] for k, v in value), key=_text)
    if isinstance(type_, DecimalType):
        return f"{value:.{type_.scale}f}"
    return _TEXTS[type_.kind](value)


def _moment(ticks: int, suffix: str) -> Any:
    def text(value: int) -> str:
        whole, rest = divmod(value, ticks)
        return f"{timestamp_to_text(whole, 1)}.{rest:0{len(str(ticks)) - 1}d}{suffix}"

    return text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


_TEXTS: dict[str, Any] = {
    "int": str,
    "long": str,
    "float": _number,
    "double": _number,
    "date": date_to_text,
    "time": lambda value: _moment(MICROS, "")(value).split("T")[1],
    "timestamp": _moment(MICROS, ""),
    "timestamptz": _moment(MICROS, "+00:00"),
    "timestamp_ns": _moment(NANOS, ""),
    "timestamptz_ns": _moment(NANOS, "+00:00"),
    "uuid": lambda value: str(uuid.UUID(bytes=value)),
    "fixed": bytes.hex,
    "binary": bytes.hex,
    "geometry": bytes.hex,
    "geography": bytes.hex,
    "variant": lambda value: canonical_variant(value["metadata"], value["value"]),
}
