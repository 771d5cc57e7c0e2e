"""Partitions as folders of a path: `ts_day=2017-11-16/id_bucket=3`; and partitions of Hive tables from their paths.

Iceberg never reads partitions from paths, but from manifests. Folders are for users, and for prefixes in object stores.
They are formatted as the reference implementation formats them, so that a partition has the same folder for all
writers. In Hive tables, the path is the only place where partition values are stored.

>>> from floe.spec.partitioning.transform_terms import build_spec
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, STRING, TIMESTAMP
>>> schema = Schema((Field(1, "who", STRING), Field(2, "ts", TIMESTAMP)))
>>> partition_path(build_spec(schema, ["day(ts)", "who"]), schema, (17486, "a/b c"))
'ts_day=2017-11-16/who=a%2Fb+c'
>>> parse_partition_path("region=north%20west/day=__HIVE_DEFAULT_PARTITION__")
{'region': 'north west', 'day': None}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote_plus, unquote, unquote_plus

from floe.errors import InvalidPartitionSpec, InvalidValue
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transforms import Identity
from floe.spec.schemas.schema import Schema
from floe.spec.types import UNKNOWN, FixedType, Type
from floe.spec.values import parse_text

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value of null in a folder of a Hive table."""


def partition_path(spec: PartitionSpec, schema: Schema, values: Sequence[Any], earlier: Iterable[Schema] = ()) -> str:
    """Return the path of a partition relative to the table's data folder; empty for a spec without fields.

    The types of source columns that `schema` does not have any more are looked up in the `earlier` schemas.

    >>> partition_path(PartitionSpec(), Schema(()), ())
    ''
    """
    if len(values) != len(spec.fields):
        raise InvalidValue(
            f"a partition of spec {spec.spec_id} has {len(spec.fields)} values, found {len(values)}",
        )
    schemas = (schema, *earlier)
    folders = []
    for field, value in zip(spec.fields, values, strict=True):
        source = next((column.type for s in schemas if (column := s.find(field.source_id))), UNKNOWN)
        folders.append(f"{escape(field.name)}={escape(field.transform.to_human(source, value))}")
    return "/".join(folders)


def escape(text: str) -> str:
    """Escape a name or value for a path as in HTML forms: a space becomes `+`, and `/` becomes `%2F`.

    >>> escape("a b/c~é*")
    'a+b%2Fc%7E%C3%A9*'
    """
    # HTML forms escape `~` but not `*`; quote_plus does the opposite by default
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


def parse_partition_path(path: str, *, hive: bool = True) -> dict[str, str | None]:
    """Parse the folders of a partition; returns their texts by name, in order.

    In paths of Hive tables `+` is a plus and `__HIVE_DEFAULT_PARTITION__` is null. With `hive=False` the path has the
    form of `partition_path`: `+` is a space and `null` is null (or the string `null`, which is written the same).

    >>> parse_partition_path("a=1+1/b=x%3Dy"), parse_partition_path("a=1+1/b=null", hive=False)
    ({'a': '1+1', 'b': 'x=y'}, {'a': '1 1', 'b': None})
    """
    decode, null = (unquote, HIVE_NULL) if hive else (unquote_plus, "null")
    values: dict[str, str | None] = {}
    for folder in path.strip("/").split("/") if path.strip("/") else ():
        name, equals, text = folder.partition("=")
        if not equals or not name:
            raise InvalidPartitionSpec(
                f"{folder[:80]!r} is not a partition folder in {path[:200]!r}", hint=_FOLDER_HINT
            )
        name, text = decode(name), decode(text)
        if name in values:
            raise InvalidPartitionSpec(f"there are two folders {name!r} in {path[:200]!r}")
        values[name] = None if text == null else text
    return values


_FOLDER_HINT = "partition folders are written as name=value"


def partition_from_path(spec: PartitionSpec, schema: Schema, path: str) -> tuple[Any, ...]:
    """Parse the partition tuple from the folders of a Hive table; all fields must have identity transforms.

    >>> from floe.spec.partitioning.transform_terms import build_spec
    >>> from floe.spec.types import DATE, Field, LONG
    >>> schema = Schema((Field(1, "day", DATE), Field(2, "n", LONG)))
    >>> spec = build_spec(schema, ["day", "n"])
    >>> partition_from_path(spec, schema, "day=2017-11-16/n=__HIVE_DEFAULT_PARTITION__")
    (17486, None)
    """
    texts = parse_partition_path(path)
    if set(texts) != {f.name for f in spec.fields}:
        raise InvalidPartitionSpec(
            f"the folders {list(texts)} are not the partition fields {[f.name for f in spec.fields]}",
            hint="folders of a Hive table and partition fields must have the same names",
        )
    values = []
    for field in spec.fields:
        if not isinstance(field.transform, Identity):
            raise InvalidPartitionSpec(
                f"the folder of partition field {field.name!r} does not have its value: it is a {field.transform}",
                hint="only identity fields can be read from a path",
            )
        text = texts[field.name]
        type_ = schema.entry(field.source_id).field.type
        values.append(None if text is None else _parse_folder_value(type_, text, field.name))
    return tuple(values)


def _parse_folder_value(type_: Type, text: str, name: str) -> Any:
    if type_.kind in ("binary", "fixed"):  # Hive writes the bytes as text, without an encoding
        data = text.encode(errors="surrogateescape")
        if isinstance(type_, FixedType) and len(data) != type_.length:
            raise InvalidValue(
                f"the folder {name}={text[:80]} has {len(data)} bytes; the column has type {type_}", column=name
            )
        return data
    try:
        return parse_text(type_, text)
    except InvalidValue as error:
        raise error.with_context(column=name) from None
