"""Making the partition spec of a new table from what a user writes.

>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, LONG, TIMESTAMP
>>> schema = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP)))
>>> print(build_spec(schema, ["day(ts)", "bucket(16, id)"]))
[1000: ts_day: day(2), 1001: id_bucket: bucket[16](1)]
"""

from __future__ import annotations

from collections.abc import Iterable

from floe.errors import InvalidPartitionSpec
from floe.spec.partitioning.partition_spec import (
    PARTITION_FIELD_ID_START,
    PartitionField,
    PartitionSpec,
    check_names,
    check_source,
)
from floe.spec.partitioning.transform_text import parse_partition_term
from floe.spec.partitioning.transforms import Bucket, Identity, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.spec.types import UNKNOWN

__all__ = ["build_spec", "check_new_field", "default_name"]


def build_spec(schema: Schema, terms: Iterable[str], *, spec_id: int = 0, case_sensitive: bool = True) -> PartitionSpec:
    """The spec of a new table from what a user writes, such as `["day(ts)", "bucket(16, id) as shard"]`.

    Fields are numbered from 1000. Without `as`, a field is named after its column and transform: `ts_day`, `id_bucket`,
    `name_trunc`, and after the column alone for identity.

    >>> from floe.spec.types import Field, LONG, TIMESTAMP
    >>> schema = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP)))
    >>> [f.name for f in build_spec(schema, ["hours(ts)", "truncate(id, 10)", "bucket(4, id) as shard"]).fields]
    ['ts_hour', 'id_trunc', 'shard']
    """
    fields: list[PartitionField] = []
    for text in terms:
        term = parse_partition_term(text)
        source = schema.resolve(term.column, case_sensitive=case_sensitive)
        new = PartitionField(
            (source.field.id,),
            PARTITION_FIELD_ID_START + len(fields),
            term.name or default_name(source.name, term.transform),
            term.transform,
        )
        check_new_field(new, schema)
        for other in fields:
            if other.redundancy_key == new.redundancy_key:
                raise InvalidPartitionSpec(
                    f"partition field {new.name!r} is redundant: {other.name!r} splits column {source.name!r} too",
                    hint="keep the finer one",
                    column=source.name,
                )
        fields.append(new)
    spec = PartitionSpec(tuple(fields), spec_id)
    check_names(spec)
    return spec


def default_name(column: str, transform: Transform) -> str:
    """The name of a field of a new table that was given none."""
    if isinstance(transform, Identity):
        return column
    suffix = {Bucket: "bucket", Truncate: "trunc", Void: "null"}.get(type(transform), str(transform))
    return f"{column}_{suffix}"


def check_new_field(new: PartitionField, schema: Schema) -> None:
    """Raise unless a field may be added to a table now: its own rules, and no transform that cannot be computed.

    Fields that tables have already are checked by `check_spec`, which is as lenient as other writers are.
    """
    if not new.transform.is_known:
        new.transform.bind(UNKNOWN)  # says why not
    check_source(new, schema)
    clash = schema.field(new.name) if schema.has(new.name) else None
    if clash is None or (clash.id == new.source_id and isinstance(new.transform, Identity | Void)):
        return
    raise InvalidPartitionSpec(
        f"partition field {new.name!r} would have the name of a column that it does not copy",
        hint="give the field another name",
        column=new.name,
    )
