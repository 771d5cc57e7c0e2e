"""The types of the Iceberg format, their text, and the format version that added each (spec: Schemas and Data Types).

Types are immutable, hashable and compared with `==`. `kind` is the bare name (`"decimal"` for `decimal(9,2)`), so that
rules can be written as tables over kinds. `extra` keeps JSON keys that this version does not know and is not compared.

>>> parse_type("decimal( 9 , 2 )")
DecimalType(precision=9, scale=2)
>>> str(parse_type("decimal( 9 , 2 )"))
'decimal(9, 2)'
>>> LONG.kind, LONG.is_primitive
('long', True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from floe.errors import InvalidSchema, InvalidType

MAX_FIXED_LENGTH = 2**31 - 1
MAX_DECIMAL_PRECISION = 38
DEFAULT_CRS = "OGC:CRS84"
EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")


class Type:
    """Any type: primitive, nested or variant."""

    __slots__ = ()

    is_nested: ClassVar[bool] = False
    """Whether the type is a struct, list or map."""

    @property
    def kind(self) -> str:
        """The bare name of the type, without parameters."""
        raise NotImplementedError

    @property
    def is_primitive(self) -> bool:
        """Whether the type is primitive; variant is neither primitive nor nested."""
        return not self.is_nested and self.kind != "variant"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The child fields: of a struct its fields, of a list `element`, of a map `key` and `value`."""
        return ()


@dataclass(frozen=True, slots=True)
class PrimitiveType(Type):
    """A primitive type without parameters, such as `LONG`; also `VARIANT`, which has no parameters either."""

    _kind: str

    @property
    def kind(self) -> str:
        """The bare name of the type."""
        return self._kind

    def __str__(self) -> str:
        return self._kind

    def __repr__(self) -> str:
        return self._kind.upper()


BOOLEAN = PrimitiveType("boolean")
INT = PrimitiveType("int")
LONG = PrimitiveType("long")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
DATE = PrimitiveType("date")
TIME = PrimitiveType("time")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMPTZ = PrimitiveType("timestamptz")
TIMESTAMP_NS = PrimitiveType("timestamp_ns")
TIMESTAMPTZ_NS = PrimitiveType("timestamptz_ns")
STRING = PrimitiveType("string")
UUID = PrimitiveType("uuid")
BINARY = PrimitiveType("binary")
UNKNOWN = PrimitiveType("unknown")
VARIANT = PrimitiveType("variant")


def _check_int(parameter: str, value: int) -> None:
    if type(value) is not int:
        raise InvalidType(f"the {parameter} of a type must be an integer, found {value!r:.80}")


@dataclass(frozen=True, slots=True)
class DecimalType(Type):
    """A fixed-point number with `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        _check_int("precision", self.precision)
        _check_int("scale", self.scale)
        if not 1 <= self.precision <= MAX_DECIMAL_PRECISION:
            raise InvalidType(f"decimal precision must be 1 to {MAX_DECIMAL_PRECISION}, found {self.precision}")
        if not 0 <= self.scale <= self.precision:
            raise InvalidType(f"decimal scale must be 0 to the precision {self.precision}, found {self.scale}")

    @property
    def kind(self) -> str:
        """The name of the type: `decimal`."""
        return "decimal"

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class FixedType(Type):
    """A byte array of exactly `length` bytes."""

    length: int

    def __post_init__(self) -> None:
        _check_int("length", self.length)
        if not 0 <= self.length <= MAX_FIXED_LENGTH:
            raise InvalidType(f"fixed length must be 0 to {MAX_FIXED_LENGTH}, found {self.length}")

    @property
    def kind(self) -> str:
        """The name of the type: `fixed`."""
        return "fixed"

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


def _check_crs(crs: str | None) -> None:
    if crs is None:
        return
    if not crs:
        raise InvalidType("a coordinate reference system must not be an empty string")
    if "{" in crs:  # spec, CRS: PROJJSON is referred to, never inlined
        raise InvalidType(
            "a coordinate reference system must not be inlined PROJJSON",
            hint="store it in a table property and write projjson:<property>",
        )
    if crs != crs.strip():
        raise InvalidType(f"a coordinate reference system must not start or end with spaces, found {crs!r:.80}")


@dataclass(frozen=True, slots=True, eq=False)
class GeometryType(Type):
    """Planar geospatial features; `crs` of None means the default, and is printed as plain `geometry`.

    Two geometry types are equal when their reference systems are, ignoring case.
    """

    crs: str | None = None

    def __post_init__(self) -> None:
        _check_crs(self.crs)

    @property
    def kind(self) -> str:
        """The name of the type: `geometry`."""
        return "geometry"

    @property
    def effective_crs(self) -> str:
        """The reference system; the default if none is set."""
        return self.crs or DEFAULT_CRS

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeometryType):
            return NotImplemented
        return self.effective_crs.upper() == other.effective_crs.upper()

    def __hash__(self) -> int:
        return hash((GeometryType, self.effective_crs.upper()))

    def __str__(self) -> str:
        return "geometry" if self.crs is None else f"geometry({self.crs})"


@dataclass(frozen=True, slots=True, eq=False)
class GeographyType(Type):
    """Geospatial features on a globe; edges follow `algorithm` (None: the default, spherical)."""

    crs: str | None = None
    algorithm: str | None = None

    def __post_init__(self) -> None:
        _check_crs(self.crs)
        if self.crs is not None and "," in self.crs:  # it would read as an algorithm
            raise InvalidType(
                f"the coordinate reference system of a geography must not contain a comma: {self.crs!r:.80}"
            )
        if self.algorithm is not None and self.algorithm not in EDGE_ALGORITHMS:
            raise InvalidType(
                f"unknown edge-interpolation algorithm {self.algorithm!r}",
                hint="use one of " + ", ".join(EDGE_ALGORITHMS),
            )

    @property
    def kind(self) -> str:
        """The name of the type: `geography`."""
        return "geography"

    @property
    def effective_crs(self) -> str:
        """The reference system; the default if none is set."""
        return self.crs or DEFAULT_CRS

    @property
    def effective_algorithm(self) -> str:
        """The edge-interpolation algorithm; the default if none is set."""
        return self.algorithm or EDGE_ALGORITHMS[0]

    def _identity(self) -> tuple[str, str]:
        return self.effective_crs.upper(), self.effective_algorithm

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeographyType):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((GeographyType, *self._identity()))

    def __str__(self) -> str:
        if self.crs is None and self.algorithm is None:
            return "geography"
        if self.algorithm is None:
            return f"geography({self.crs})"
        return f"geography({self.effective_crs}, {self.algorithm})"


@dataclass(frozen=True, slots=True)
class Field:
    """A named, typed member of a struct, or the element, key or value of a list or map.

    Defaults are Python values as `floe.spec.values` describes them; None means no default, which reads as null. `extra`
    keeps JSON keys that this version does not know.

    >>> print(Field(1, "id", LONG, required=True, doc="the key"))
    1: id: required long (the key)
    """

    id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Any = field(default=None, hash=False)
    write_default: Any = field(default=None, hash=False)
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def optional(self) -> bool:
        """Whether values may be null."""
        return not self.required

    def __str__(self) -> str:
        presence = "required" if self.required else "optional"
        text = f"{self.id}: {self.name}: {presence} {self.type}"
        return f"{text} ({self.doc})" if self.doc else text


@dataclass(frozen=True, slots=True)
class StructType(Type):
    """A tuple of named fields.

    >>> print(StructType((Field(1, "x", DOUBLE), Field(2, "y", DOUBLE))))
    struct<1: x: optional double, 2: y: optional double>
    """

    _fields: tuple[Field, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    is_nested: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self._fields) is not tuple:
            object.__setattr__(self, "_fields", tuple(self._fields))
        names: set[str] = set()
        for child in self._fields:
            if child.name in names:
                raise InvalidSchema(f"two fields of one struct are named {child.name!r}", column=child.name)
            names.add(child.name)

    @property
    def kind(self) -> str:
        """The name of the type: `struct`."""
        return "struct"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields in order."""
        return self._fields

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def field_named(self, name: str) -> Field | None:
        """Return the direct child with a name, or None."""
        return next((child for child in self._fields if child.name == name), None)

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self._fields))}>"


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A list of values of one type; the element has its own field id."""

    element_id: int
    element: Type
    element_required: bool = False
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    is_nested: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        """The name of the type: `list`."""
        return "list"

    @property
    def element_field(self) -> Field:
        """The element as a field named `element`."""
        return Field(self.element_id, "element", self.element, self.element_required)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The element, as the only child field."""
        return (self.element_field,)

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(Type):
    """A map; key and value each have a field id, and keys are always required."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool = False
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    is_nested: ClassVar[bool] = True
    KEY_REQUIRED: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        """The name of the type: `map`."""
        return "map"

    @property
    def key_field(self) -> Field:
        """The key as a required field named `key`."""
        return Field(self.key_id, "key", self.key, self.KEY_REQUIRED)

    @property
    def value_field(self) -> Field:
        """The value as a field named `value`."""
        return Field(self.value_id, "value", self.value, self.value_required)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The key and the value field."""
        return (self.key_field, self.value_field)

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


_BY_NAME: dict[str, Type] = {
    str(t): t
    for t in (
        BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS,
        STRING, UUID, BINARY, UNKNOWN, VARIANT, GeometryType(), GeographyType(),
    )
}  # fmt: skip

_DECIMAL = re.compile(r"decimal\s*\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s*\[\s*([0-9]{1,19})\s*\]", re.IGNORECASE)
_GEOMETRY = re.compile(r"geometry\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_GEOGRAPHY = re.compile(r"geography\s*\(([^,]*)(?:,([^,]*))?\)", re.IGNORECASE)


def parse_type(text: str) -> Type:
    """Parse the name of a primitive type or of variant; whitespace and case are ignored.

    Nested types have no text form: use `StructType`, `ListType` and `MapType`.

    >>> parse_type(" Fixed[ 16 ] ")
    FixedType(length=16)
    >>> parse_type("quux(3)")
    Traceback (most recent call last):
    floe.errors.InvalidType: unknown type 'quux(3)'; types are boolean, int, long, ...
    """
    if not isinstance(text, str):
        raise InvalidType(f"{text!r:.80} is not a type or the name of one")
    text = text.strip()
    named = _BY_NAME.get(text) or _BY_NAME.get(text.lower())
    if named is not None:
        return named
    if match := _DECIMAL.fullmatch(text):
        return DecimalType(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(text):
        return FixedType(int(match[1]))
    if match := _GEOMETRY.fullmatch(text):
        return GeometryType(match[1].strip())
    if match := _GEOGRAPHY.fullmatch(text):
        return GeographyType(match[1].strip(), match[2].strip().lower() if match[2] is not None else None)
    raise InvalidType(f"unknown type {text[:80]!r}", hint=_hint(text))


_ICEBERG_NAMES = {
    "bool": "boolean", "integer": "int", "smallint": "int", "tinyint": "int", "bigint": "long", "real": "float",
    "decimal": "decimal(9, 2)", "numeric": "decimal(9, 2)", "fixed": "fixed[16]", "bytes": "binary",
    "char": "string", "varchar": "string", "text": "string", "str": "string", "timestamp_ltz": "timestamptz",
    "timestamp_ntz": "timestamp", "geometry": "geometry(OGC:CRS84)", "geography": "geography(OGC:CRS84, spherical)",
    "struct": "a StructType", "list": "a ListType", "array": "a ListType", "map": "a MapType",
}  # fmt: skip
"""Iceberg's name for types that other systems call by another name, or write with other parameters."""


def _hint(text: str) -> str:
    (word,) = re.findall(r"\A\w*", text.lower())
    iceberg_name = _ICEBERG_NAMES.get(word)
    return (
        f"write it as {iceberg_name}" if iceberg_name else f"types are {', '.join(_BY_NAME)}, decimal(P, S), fixed[L]"
    )


_ADDED_IN_V3 = {"timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"}


def min_format_version(type_: Type) -> int:
    """Return the first format version that supports a type and its children.

    >>> min_format_version(ListType(1, TIMESTAMP_NS))
    3
    """
    added_in = 3 if type_.kind in _ADDED_IN_V3 else 1
    return max([added_in, *(min_format_version(child.type) for child in type_.fields)])
