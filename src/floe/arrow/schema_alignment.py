"""Alignment of input data with the schema of a table, and table schemas inferred from input data.

`SchemaAlignment` matches the columns of the data with those of the table by name, at any depth, and reports every
mismatch before a row is read. A column that is missing in the data gets its write default, or null; one that the table
does not have is an error, unless the schema is merged (`add_input_columns`). Types may differ where no value is lost:
narrower types are widened, and wider ones are accepted as long as the values fit (a `long` that is small enough for an
`int`, nanoseconds that are whole microseconds). Values are never rounded, truncated or guessed: text is not parsed as a
number, and a timestamp without a zone is not taken as one with a zone.

`infer_schema` derives the schema of a new table from data.

>>> from floe.spec.types import Field, INT, STRING
>>> table = Schema((Field(1, "id", INT, required=True), Field(2, "note", STRING)))
>>> SchemaAlignment(pa.schema({"id": pa.int64()}), table)(pa.record_batch({"id": [7]})).to_pylist()
[{'id': 7, 'note': None}]
>>> SchemaAlignment(pa.schema({"id": pa.string(), "nota": pa.string()}), table)
Traceback (most recent call last):
floe.errors.InvalidSchema: the data does not fit the table: column id has string, where the table has int;
column nota is not in the table; cast id; leave nota out, or pass merge_schema=True to add it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import FloeError, IncompatibleChange, InvalidSchema, InvalidType, InvalidValue
from floe.formats.columns.arrow_types import arrow_type, schema_from_arrow, type_from_arrow
from floe.formats.columns.conversion import Conformer, has_list_views, without_list_views
from floe.formats.columns.file_columns import child_fields, value_type
from floe.spec.schemas.promotion import can_promote
from floe.spec.schemas.schema import Schema, with_children, write_value
from floe.spec.schemas.schema_evolution import SchemaUpdate
from floe.spec.types import TIMESTAMP, TIMESTAMPTZ, DecimalType, Field, FixedType, Type

_LATEST_VERSION = 3
_MAX_PROBLEMS = 20
_INTEGERS = frozenset({"int", "long"})
_FLOATS = frozenset({"float", "double"})
_MICROSECOND_TYPES = {"timestamp_ns": TIMESTAMP, "timestamptz_ns": TIMESTAMPTZ}


@dataclass(frozen=True, slots=True)
class _Problem:
    """A mismatch between a column of the data and the table, and how to resolve it."""

    column: str
    description: str
    remedy: str | None = None
    """None for a column that is not in the table: all of these share one hint."""


class SchemaAlignment:
    """Converts batches of one Arrow schema to the schema of a table.

    The constructor raises `InvalidSchema` with all mismatches of columns and types. A value that does not fit its
    column raises `InvalidValue` when its batch is converted. Without `case_sensitive`, names that differ only in case
    match.
    """

    def __init__(self, input_schema: pa.Schema, schema: Schema, *, case_sensitive: bool = True) -> None:
        self.schema = schema
        self._conform = Conformer(schema)
        matcher = _ColumnMatcher(str if case_sensitive else str.lower)
        self._views = [index for index, field in enumerate(input_schema) if has_list_views(field.type)]
        fields = _fields_without_views(input_schema, self._views)
        matches, problems = matcher.match_names([field.name for field in fields], schema.fields, ())
        self._names = [matches.get(field.name, field).name for field in fields]
        self._casts: list[tuple[int, pa.DataType]] = []
        for index, field in enumerate(fields):
            table_field = matches.get(field.name)
            if table_field is not None:
                target_type, column_problems = matcher.column(field.type, table_field, (table_field.name,))
                problems += column_problems
                if not target_type.equals(field.type):
                    self._casts.append((index, target_type))
        problems += matcher.missing_columns(schema.fields, {table_field.id for table_field in matches.values()}, ())
        if problems:
            raise _mismatch_error(problems)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch to the table's schema; raises `InvalidValue` for a value that does not fit its column."""
        if self._casts or self._views or self._names != batch.schema.names:
            columns = batch.columns
            for index in self._views:
                columns[index] = without_list_views(columns[index])
            for index, target_type in self._casts:
                columns[index] = _cast_exactly(columns[index], target_type, self._names[index])
            batch = pa.RecordBatch.from_arrays(columns, self._names) if columns else batch
        return self._conform(batch)

    def align_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Align batches one after the other; an `InvalidValue` names the rows of the batch."""
        rows = 0
        for batch in batches:
            try:
                yield self(batch)
            except InvalidValue as error:
                raise error.with_context(rows=f"{rows} to {rows + batch.num_rows - 1}") from None
            rows += batch.num_rows


def _fields_without_views(schema: pa.Schema, views: list[int]) -> list[pa.Field]:
    """The fields of a schema, with plain lists in place of list views."""
    fields = list(schema)
    for index in views:
        fields[index] = fields[index].with_type(without_list_views(pa.nulls(0, fields[index].type)).type)
    return fields


def _mismatch_error(problems: list[_Problem]) -> InvalidSchema:
    """One error for all mismatches, with their remedies as the hint."""
    described = "; ".join(f"column {problem.column} {problem.description}" for problem in problems[:_MAX_PROBLEMS])
    more = f" (and {len(problems) - _MAX_PROBLEMS} more)" if len(problems) > _MAX_PROBLEMS else ""
    extra = [problem for problem in problems if problem.remedy is None]
    remedies = dict.fromkeys(problem.remedy for problem in problems[:_MAX_PROBLEMS] if problem.remedy is not None)
    if extra:
        names = ", ".join(problem.column for problem in extra[:_MAX_PROBLEMS])
        ellipsis = ", …" if len(extra) > _MAX_PROBLEMS else ""
        pronoun = "it" if len(extra) == 1 else "them"
        remedies[f"leave {names}{ellipsis} out, or pass merge_schema=True to add {pronoun}"] = None
    return InvalidSchema(f"the data does not fit the table: {described}{more}", hint="; ".join(remedies))


class _ColumnMatcher:
    """Compares the columns of data with those of a table; names match that `fold` makes equal."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        self._fold = fold

    def match_names(
        self, input_names: list[str], fields: tuple[Field, ...], path: tuple[str, ...]
    ) -> tuple[dict[str, Field], list[_Problem]]:
        """The table's field for each name, and a problem for each name without a field, or with several."""
        by_name: dict[str, list[Field]] = {}
        for field in fields:
            by_name.setdefault(self._fold(field.name), []).append(field)
        folded = {field.name.lower(): field.name for field in fields}
        matches: dict[str, Field] = {}
        matched_ids: dict[int, str] = {}
        problems = []
        for name in input_names:
            column = ".".join((*path, name))
            same_name = by_name.get(self._fold(name), [])
            exact = [field for field in same_name if field.name == name] or same_name
            if len(exact) > 1:
                candidates = " or ".join(field.name for field in exact)
                problems.append(_Problem(column, f"may mean {candidates}", "write names as the table does"))
            elif not exact:
                similar = folded.get(name.lower())
                remedy = None if similar is None else f"rename {column} to {similar}, or pass case_sensitive=False"
                problems.append(_Problem(column, "is not in the table", remedy))
            elif exact[0].id in matched_ids:
                remedy = "give every column of the table once"
                problems.append(_Problem(column, f"comes twice (as {matched_ids[exact[0].id]} too)", remedy))
            else:
                matched_ids[exact[0].id] = name
                matches[name] = exact[0]
        return matches, problems

    def missing_columns(
        self, fields: tuple[Field, ...], present_ids: set[int], path: tuple[str, ...]
    ) -> list[_Problem]:
        problems = []
        for field in fields:
            if field.id in present_ids or field.type.kind == "unknown":
                continue
            try:
                write_value(field)
            except InvalidValue:
                column = ".".join((*path, field.name))
                remedy = f"give values for {column}, or make it optional"
                problems.append(_Problem(column, f"is missing, and required ({field.type})", remedy))
        return problems

    def column(
        self, input_type: pa.DataType, field: Field, path: tuple[str, ...]
    ) -> tuple[pa.DataType, list[_Problem]]:
        """The Arrow type that a column is cast to before it is converted to the table's, and its mismatches."""
        stored, table_type = value_type(input_type), field.type
        children = child_fields(stored)
        if table_type.kind == "variant" or (children is None) != (not table_type.is_nested):
            return input_type, self._leaf_problems(input_type, field, path) if table_type.kind != "variant" else []
        if children is not None:
            return self._nested(input_type, stored, children, field, path)
        problems = self._leaf_problems(input_type, field, path)
        return (input_type if problems else _leaf_cast(input_type, stored, table_type)), problems

    def _leaf_problems(self, input_type: pa.DataType, field: Field, path: tuple[str, ...]) -> list[_Problem]:
        column = ".".join(path)
        try:
            converted: Type | None = type_from_arrow(input_type)
        except InvalidType:
            converted = None
        if pa.types.is_uint64(value_type(input_type)) and field.type.kind in {*_INTEGERS, "decimal", "double", "float"}:
            return []
        if pa.types.is_time64(value_type(input_type)) and field.type.kind == "time":
            return []
        if pa.types.is_decimal(value_type(input_type)) and field.type.kind == "decimal":
            return []
        if converted is not None and (_may_fit(converted, field.type) or converted.kind == "unknown"):
            if converted.kind == "unknown" and field.required:
                return [_Problem(column, "has only nulls, and is required", f"give values for {column}")]
            return []
        found_type = input_type if converted is None else converted.kind if converted.is_nested else converted
        return [
            _Problem(
                column, f"has {found_type}, where the table has {field.type}", _remedy(converted, field.type, column)
            )
        ]

    def _nested(
        self,
        input_type: pa.DataType,
        stored: pa.DataType,
        children: list[pa.Field],
        field: Field,
        path: tuple[str, ...],
    ) -> tuple[pa.DataType, list[_Problem]]:
        kind = "struct" if pa.types.is_struct(stored) else "map" if pa.types.is_map(stored) else "list"
        column = ".".join(path)
        if kind != field.type.kind:
            mismatch = f"has {kind}, where the table has {field.type.kind}"
            return input_type, [_Problem(column, mismatch, f"give {column} as the table has it")]
        problems: list[_Problem] = []
        if kind == "struct":
            matches, problems = self.match_names([child.name for child in children], field.type.fields, path)
            problems += self.missing_columns(
                field.type.fields, {table_field.id for table_field in matches.values()}, path
            )
            table_fields = [matches.get(child.name) for child in children]
        else:
            table_fields = list(field.type.fields)
        aligned = []
        for child, table_field in zip(children, table_fields, strict=True):
            type_ = child.type
            name = child.name
            if table_field is not None:
                type_, child_problems = self.column(child.type, table_field, (*path, table_field.name))
                problems += child_problems
                name = table_field.name if kind == "struct" else child.name
            aligned.append(child.with_type(type_).with_name(name))
        if kind == "struct":
            return pa.struct(aligned), problems
        if kind == "map":
            return pa.map_(aligned[0], aligned[1]), problems
        same = aligned[0].equals(children[0])
        return (
            input_type
            if same
            else pa.large_list(aligned[0])
            if pa.types.is_large_list(stored)
            else pa.list_(aligned[0])
        ), problems


def _may_fit(input_type: Type, table_type: Type) -> bool:
    """Whether values of the input type may fit the table's type; each value is checked when it is cast."""
    if can_promote(input_type, table_type, _LATEST_VERSION):
        return True
    pair = (input_type.kind, table_type.kind)
    if input_type.kind in _INTEGERS:
        return table_type.kind in _INTEGERS | _FLOATS | {"decimal"}
    return pair in _CHECKED_BY_VALUE


_CHECKED_BY_VALUE = frozenset(
    {
        ("double", "float"), ("decimal", "decimal"), ("binary", "fixed"), ("fixed", "binary"), ("fixed", "uuid"),
        ("uuid", "fixed"), ("uuid", "binary"), ("binary", "uuid"), ("binary", "geometry"), ("binary", "geography"),
        ("timestamp_ns", "timestamp"), ("timestamptz_ns", "timestamptz"),
        ("timestamp", "timestamp_ns"), ("timestamptz", "timestamptz_ns"),
    }
)  # fmt: skip


def _remedy(input_type: Type | None, table_type: Type, column: str) -> str:
    zoned = ("timestamp", "timestamp_ns"), ("timestamptz", "timestamptz_ns")
    if input_type is not None and input_type.kind in zoned[0] and table_type.kind in zoned[1]:
        return f"say which zone {column} is in (pandas: tz_localize, Arrow: assume_timezone)"
    if input_type is not None and input_type.kind in zoned[1] and table_type.kind in zoned[0]:
        return f"drop the zone of {column} (pandas: tz_localize(None), Arrow: local_timestamp)"
    return f"cast {column}"


def _leaf_cast(input_type: pa.DataType, stored: pa.DataType, table_type: Type) -> pa.DataType:
    """The type to cast to where the conversion that follows does not check the values; else the input type."""
    target_type = arrow_type(table_type)
    if stored.equals(target_type) or pa.types.is_null(stored):
        return input_type
    if pa.types.is_integer(stored) and not table_type.is_nested:
        widens = table_type.kind in _INTEGERS and stored.bit_width < target_type.bit_width
        return input_type if widens else target_type
    if isinstance(table_type, DecimalType | FixedType) or table_type.kind in ("time", "float", "uuid"):
        return input_type if isinstance(input_type, pa.BaseExtensionType) else target_type
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(target_type):
        return pa.timestamp(target_type.unit, stored.tz)
    return input_type


def _cast_exactly(array: pa.Array, target_type: pa.DataType, column: str) -> pa.Array:
    """Cast an array; raises `InvalidValue` if a value would change."""
    try:
        return _cast(array, target_type)
    except (pa.ArrowException, FloeError) as error:
        raise InvalidValue(
            f"a value does not fit the table's column: {str(error)[:200]}",
            hint="cast the column as you mean it, or change the table's type",
            column=column,
        ) from None


def _cast(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_integer(array.type) and pa.types.is_decimal(target_type):
        array = array.cast(pa.decimal256(20 + target_type.scale, target_type.scale))
    if pa.types.is_float32(target_type) and pa.types.is_float64(array.type):
        narrowed = array.cast(target_type)
        back = narrowed.cast(array.type)
        same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
        if pc.any(pc.invert(same)).as_py():
            value = array.filter(pc.invert(same).fill_null(False))[0].as_py()
            raise InvalidValue(f"{value!r} is not exactly a float")
        return narrowed
    return array.cast(target_type)


# Schemas of new tables ------------------------------------------------------------------------------------------------


def infer_schema(input_schema: pa.Schema, *, format_version: int) -> Schema:
    """The schema of a new table for data; before format version 3, nanoseconds become microseconds.

    >>> print(infer_schema(pa.schema({"at": pa.timestamp("ns", "UTC")}), format_version=2))
    table {
      1: at: optional timestamptz
    }
    """
    inferred = schema_from_arrow(pa.schema([_with_microseconds(field) for field in input_schema]))
    return Schema(tuple(_supported_field(field, format_version, (field.name,)) for field in inferred.fields))


def _with_microseconds(field: pa.Field) -> pa.Field:
    """The field with times in microseconds: Iceberg has no times in nanoseconds, which Polars writes."""
    type_ = field.type
    if pa.types.is_time64(type_):
        return field.with_type(pa.time64("us"))
    if pa.types.is_struct(type_):
        return field.with_type(pa.struct([_with_microseconds(type_.field(n)) for n in range(type_.num_fields)]))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return field.with_type(pa.list_(_with_microseconds(type_.value_field)))
    return field


def _supported_field(field: Field, version: int, path: tuple[str, ...]) -> Field:
    """The field with a type that the format version supports."""
    if field.type.is_nested:
        children = tuple(_supported_field(child, version, (*path, child.name)) for child in field.type.fields)
        return replace(field, type=with_children(field.type, children))
    if version >= _LATEST_VERSION:
        return field
    if field.type.kind == "unknown":
        column = ".".join(path)
        raise IncompatibleChange(
            f"the new column {column} has only nulls, so its type is not known",
            hint="cast it, or leave it out",
            column=column,
        )
    return replace(field, type=_MICROSECOND_TYPES.get(field.type.kind, field.type))


# Merging of schemas ---------------------------------------------------------------------------------------------------


def add_input_columns(
    update: SchemaUpdate, input_schema: pa.Schema, existing: Schema, *, format_version: int, case_sensitive: bool = True
) -> None:
    """Add the new columns of data to a schema update, and widen existing columns where the data needs it.

    An existing column keeps its type where the values may fit, and stays required: that Arrow marks a field as nullable
    does not mean that the data has nulls.

    >>> from floe.spec.types import Field, INT
    >>> table = Schema((Field(1, "id", INT, required=True),))
    >>> update = SchemaUpdate(table, format_version=2, last_column_id=1)
    >>> add_input_columns(update, pa.schema({"id": pa.int64(), "at": pa.timestamp("ns")}), table, format_version=2)
    >>> print(update.apply())
    table {
      1: id: required long
      2: at: optional timestamp
    }
    """
    inferred = schema_from_arrow(_without_ids(input_schema))
    merger = _Merger(format_version, str if case_sensitive else str.lower)
    update.union_by_name(Schema(merger.fields(inferred.fields, existing.fields, ())))


def _without_ids(schema: pa.Schema) -> pa.Schema:
    """The schema without field ids in its metadata: they may be those of another table."""
    return pa.schema([_with_microseconds(pa.field(field.name, field.type, field.nullable)) for field in schema])


@dataclass(frozen=True, slots=True)
class _Merger:
    """Prepares the fields of data for the union with a table's schema."""

    format_version: int
    fold: Callable[[str], str]

    def fields(
        self, input_fields: Iterable[Field], table_fields: Iterable[Field], path: tuple[str, ...]
    ) -> tuple[Field, ...]:
        by_name = {self.fold(field.name): field for field in table_fields}
        return tuple(
            self.field(field, by_name.get(self.fold(field.name)), (*path, field.name)) for field in input_fields
        )

    def field(self, input_field: Field, table_field: Field | None, path: tuple[str, ...]) -> Field:
        if table_field is None:
            return replace(_supported_field(input_field, self.format_version, path), required=False, doc=None)
        input_field = replace(input_field, required=table_field.required, doc=None)
        if input_field.type.is_nested and table_field.type.kind == input_field.type.kind:
            children = self.fields(input_field.type.fields, table_field.type.fields, path)
            return replace(input_field, type=with_children(input_field.type, children))
        keeps_type = _may_fit(input_field.type, table_field.type) or input_field.type.kind == "unknown"
        if keeps_type and not can_promote(table_field.type, input_field.type, self.format_version):
            return replace(input_field, type=table_field.type)
        return input_field
