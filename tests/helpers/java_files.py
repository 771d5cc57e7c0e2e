"""Single data files as Java Iceberg reads and writes them, with rows in the form of `floe.spec.values`."""

from __future__ import annotations

import json
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

from floe.spec.expressions.expression_json import expression_to_json
from floe.spec.expressions.nodes import Expression
from floe.spec.schemas.name_mapping import NameMapping, format_name_mapping
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

Rows = list[dict[str, Any]]


def wire(type_: Type, value: Any) -> Any:
    """A value as `FloeDataFiles.java` takes and gives it."""
    if value is None:
        return None
    match type_.kind:
        case "struct":
            return [wire(child.type, value.get(child.name)) for child in type_.fields]
        case "list":
            return [wire(type_.fields[0].type, item) for item in value]
        case "map":
            pairs = value.items() if isinstance(value, dict) else value
            return [[wire(t.type, v) for t, v in zip(type_.fields, pair, strict=True)] for pair in pairs]
        case "decimal":
            sign, digits, exponent = value.as_tuple()
            assert isinstance(type_, DecimalType)
            assert exponent == -type_.scale
            return str(int("".join(map(str, digits))) * (-1 if sign else 1))
        case "float":
            return struct.unpack("<i", struct.pack("<f", value))[0]
        case "double":
            return struct.unpack("<q", struct.pack("<d", value))[0]
        case "uuid":
            return str(value)
        case "fixed" | "binary" | "geometry" | "geography" | "variant":
            return value.hex()
    return value


def unwired(type_: Type, value: Any) -> Any:
    """A value as Floe has it, from that of Java."""
    if value is None:
        return None
    match type_.kind:
        case "struct":
            return {child.name: unwired(child.type, item) for child, item in zip(type_.fields, value, strict=True)}
        case "list":
            return [unwired(type_.fields[0].type, item) for item in value]
        case "map":
            pairs = [tuple(unwired(t.type, v) for t, v in zip(type_.fields, pair, strict=True)) for pair in value]
            return dict(pairs) if not type_.fields[0].type.is_nested else pairs
        case "decimal":
            assert isinstance(type_, DecimalType)
            return decimal_from_unscaled(int(value), type_.scale)
        case "float":
            return struct.unpack("<f", struct.pack("<i", value))[0]
        case "double":
            return struct.unpack("<d", struct.pack("<q", value))[0]
        case "uuid":
            return uuid.UUID(value)
        case "fixed" | "binary" | "geometry" | "geography" | "variant":
            return bytes.fromhex(value)
    return value


def comparable(value: Any) -> str:
    """A text that is the same for the same value: NaN is one, zeros differ, the order of a map does not count."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{comparable(k)}:{comparable(v)}" for k, v in value.items())) + "}"
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map whose keys are nested
        return "{" + ",".join(sorted(map(comparable, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(comparable, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)


class JavaFiles:
    """Java's file-format API."""

    def __init__(self, bridge: Any) -> None:
        self._bridge = bridge

    def read(
        self,
        file_format: str,
        location: str,
        schema: Schema,
        *,
        where: Expression | None = None,
        split: tuple[int, int] | None = None,
        mapping: NameMapping | None = None,
    ) -> Rows:
        """The rows of a file."""
        options: dict[str, Any] = {}
        if where is not None:
            options["filter"] = expression_to_json(where)
        if split is not None:
            options["split"] = split
        if mapping is not None:
            options["mapping"] = json.loads(format_name_mapping(mapping))
        schema_text = json.dumps(schema_to_json(schema))
        found = json.loads(self._bridge.read(file_format, location, schema_text, json.dumps(options)))
        return [unwired(schema.as_struct(), values) for values in found]

    def write(
        self, file_format: str, location: str, schema: Schema, rows: Rows, properties: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Writes a data file, and tells how Java describes it."""
        told = self._bridge.write(
            file_format,
            location,
            json.dumps(schema_to_json(schema)),
            json.dumps(properties or {}),
            json.dumps([wire(schema.as_struct(), row) for row in rows]),
        )
        return described(told)

    def write_equality_deletes(
        self, file_format: str, location: str, schema: Schema, ids: list[int], rows: Rows
    ) -> dict[str, Any]:
        """Writes a file of equality deletes."""
        rows_text = json.dumps([wire(schema.as_struct(), row) for row in rows])
        schema_text = json.dumps(schema_to_json(schema))
        return described(
            self._bridge.writeEqualityDeletes(file_format, location, schema_text, json.dumps(ids), rows_text)
        )

    def write_position_deletes(self, file_format: str, location: str, rows: list[tuple[str, int]]) -> dict[str, Any]:
        """Writes a file of position deletes."""
        return described(self._bridge.writePositionDeletes(file_format, location, json.dumps(rows)))


def described(told: str) -> dict[str, Any]:
    """What Java says of a file, with field ids as numbers and bounds as bytes."""
    found = json.loads(told)
    for name in ("values", "nulls", "nans", "sizes"):
        found[name] = {int(key): value for key, value in found.get(name, {}).items()}
    for name in ("lower", "upper"):
        found[name] = {int(key): bytes.fromhex(value) for key, value in found.get(name, {}).items()}
    return found
