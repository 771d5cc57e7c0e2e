"""Data that is to be written, brought to the columns of a table; or what is wrong with it, said before a row is read.

Columns are found by name, at any depth. One that is left out gets its write default, or null; one that the table has
not is an error, unless the schema is to be merged. Types may differ where no value is lost: what is narrower is
widened, and what is wider is taken as long as the values fit (a `long` that is small enough for an `int`, nanoseconds
that are whole microseconds). Nothing is ever rounded, cut, or guessed: text is no number, and a timestamp without a
zone is no moment.

>>> from floe.spec.types import Field, INT, STRING
>>> table = Schema((Field(1, "id", INT, required=True), Field(2, "note", STRING)))
>>> Fitting(pa.schema({"id": pa.int64()}), table)(pa.record_batch({"id": [7]})).to_pylist()
[{'id': 7, 'note': None}]
>>> Fitting(pa.schema({"id": pa.string(), "nota": pa.string()}), table)
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
from floe.formats.arrow_conversion import Conformer, has_list_views, without_list_views
from floe.formats.arrow_types import arrow_type, schema_from_arrow, type_from_arrow
from floe.formats.file_columns import stored_children, value_type
from floe.spec.schemas.defaults import write_value
from floe.spec.schemas.evolution import SchemaUpdate
from floe.spec.schemas.promotion import can_promote
from floe.spec.schemas.schema import Schema, with_children
from floe.spec.types import TIMESTAMP, TIMESTAMPTZ, DecimalType, Field, FixedType, Type

_NEWEST = 3
_MOST_PROBLEMS = 20
_INTEGERS = frozenset({"int", "long"})
_FLOATS = frozenset({"float", "double"})
_COARSER = {"timestamp_ns": TIMESTAMP, "timestamptz_ns": TIMESTAMPTZ}


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is wrong with a column, and what to do about it."""

    column: str
    what: str
    remedy: str | None = None
    """None for a column that is not in the table: of all of those the same is said once."""


class Fitting:
    """How batches of one Arrow schema become batches of a table's; what cannot be is an `InvalidSchema` at once.

    Values that do not fit are found when they come: an `InvalidValue` that names the column. With `case_sensitive`
    off, names that differ in case alone are taken for the same.
    """

    def __init__(self, incoming: pa.Schema, schema: Schema, *, case_sensitive: bool = True) -> None:
        self.schema = schema
        self._conform = Conformer(schema)
        fitter = _Fitter(str if case_sensitive else str.lower)
        self._views = [place for place, field in enumerate(incoming) if has_list_views(field.type)]
        fields = _plain_fields(incoming, self._views)
        names, problems = fitter.names([field.name for field in fields], schema.fields, ())
        self._names = [names.get(field.name, field).name for field in fields]
        self._casts: list[tuple[int, pa.DataType]] = []
        for place, field in enumerate(fields):
            ours = names.get(field.name)
            if ours is not None:
                wanted, found = fitter.column(field.type, ours, (ours.name,))
                problems += found
                if not wanted.equals(field.type):
                    self._casts.append((place, wanted))
        problems += fitter.missing(schema.fields, {ours.id for ours in names.values()}, ())
        if problems:
            raise _refusal(problems)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as the table has it."""
        if self._casts or self._views or self._names != batch.schema.names:
            columns = batch.columns
            for place in self._views:
                columns[place] = without_list_views(columns[place])
            for place, wanted in self._casts:
                columns[place] = _exactly(columns[place], wanted, self._names[place])
            batch = pa.RecordBatch.from_arrays(columns, self._names) if columns else batch
        return self._conform(batch)

    def all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches one after the other; errors tell how many rows came before."""
        rows = 0
        for batch in batches:
            try:
                yield self(batch)
            except InvalidValue as error:
                raise error.with_context(rows=f"{rows} to {rows + batch.num_rows - 1}") from None
            rows += batch.num_rows


def _plain_fields(schema: pa.Schema, views: list[int]) -> list[pa.Field]:
    """The fields as they are once the list views among them are plain lists."""
    fields = list(schema)
    for place in views:
        fields[place] = fields[place].with_type(without_list_views(pa.nulls(0, fields[place].type)).type)
    return fields


def _refusal(problems: list[_Problem]) -> InvalidSchema:
    told = "; ".join(f"column {one.column} {one.what}" for one in problems[:_MOST_PROBLEMS])
    more = f" (and {len(problems) - _MOST_PROBLEMS} more)" if len(problems) > _MOST_PROBLEMS else ""
    unknown = [one for one in problems if one.remedy is None]
    remedies = dict.fromkeys(one.remedy for one in problems[:_MOST_PROBLEMS] if one.remedy is not None)
    if unknown:
        names = ", ".join(one.column for one in unknown[:_MOST_PROBLEMS])
        others = ", …" if len(unknown) > _MOST_PROBLEMS else ""
        them = "it" if len(unknown) == 1 else "them"
        remedies[f"leave {names}{others} out, or pass merge_schema=True to add {them}"] = None
    return InvalidSchema(f"the data does not fit the table: {told}{more}", hint="; ".join(remedies))


class _Fitter:
    """Compares the columns of data with those of a table; two names that `fold` makes equal are the same."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        self._fold = fold

    def names(
        self, given: list[str], fields: tuple[Field, ...], path: tuple[str, ...]
    ) -> tuple[dict[str, Field], list[_Problem]]:
        """The table's field for each name, and the names for which there is none, or not one."""
        by_name: dict[str, list[Field]] = {}
        for field in fields:
            by_name.setdefault(self._fold(field.name), []).append(field)
        folded = {field.name.lower(): field.name for field in fields}
        found: dict[str, Field] = {}
        taken: dict[int, str] = {}
        problems = []
        for name in given:
            column = ".".join((*path, name))
            alike = by_name.get(self._fold(name), [])
            exact = [field for field in alike if field.name == name] or alike
            if len(exact) > 1:
                meant = " or ".join(field.name for field in exact)
                problems.append(_Problem(column, f"may mean {meant}", "write names as the table does"))
            elif not exact:
                near = folded.get(name.lower())
                remedy = None if near is None else f"rename {column} to {near}, or pass case_sensitive=False"
                problems.append(_Problem(column, "is not in the table", remedy))
            elif exact[0].id in taken:
                remedy = "give every column of the table once"
                problems.append(_Problem(column, f"comes twice (as {taken[exact[0].id]} too)", remedy))
            else:
                taken[exact[0].id] = name
                found[name] = exact[0]
        return found, problems

    def missing(self, fields: tuple[Field, ...], given: set[int], path: tuple[str, ...]) -> list[_Problem]:
        problems = []
        for field in fields:
            if field.id in given or field.type.kind == "unknown":
                continue
            try:
                write_value(field)
            except InvalidValue:
                column = ".".join((*path, field.name))
                remedy = f"give values for {column}, or make it optional"
                problems.append(_Problem(column, f"is missing, and required ({field.type})", remedy))
        return problems

    def column(self, given: pa.DataType, field: Field, path: tuple[str, ...]) -> tuple[pa.DataType, list[_Problem]]:
        """The Arrow type that a column is cast to before it is conformed, and what is wrong with it."""
        stored, wanted = value_type(given), field.type
        children = stored_children(stored)
        if wanted.kind == "variant" or (children is None) != (not wanted.is_nested):
            return given, self._leaf_problems(given, field, path) if wanted.kind != "variant" else []
        if children is not None:
            return self._nested(given, stored, children, field, path)
        problems = self._leaf_problems(given, field, path)
        return (given if problems else _leaf_cast(given, stored, wanted)), problems

    def _leaf_problems(self, given: pa.DataType, field: Field, path: tuple[str, ...]) -> list[_Problem]:
        column = ".".join(path)
        try:
            theirs: Type | None = type_from_arrow(given)
        except InvalidType:
            theirs = None
        if pa.types.is_uint64(value_type(given)) and field.type.kind in {*_INTEGERS, "decimal", "double", "float"}:
            return []
        if pa.types.is_time64(value_type(given)) and field.type.kind == "time":
            return []
        if pa.types.is_decimal(value_type(given)) and field.type.kind == "decimal":
            return []
        if theirs is not None and (_fits(theirs, field.type) or theirs.kind == "unknown"):
            if theirs.kind == "unknown" and field.required:
                return [_Problem(column, "has only nulls, and is required", f"give values for {column}")]
            return []
        shown = given if theirs is None else theirs.kind if theirs.is_nested else theirs
        return [_Problem(column, f"has {shown}, where the table has {field.type}", _remedy(theirs, field.type, column))]

    def _nested(
        self, given: pa.DataType, stored: pa.DataType, children: list[pa.Field], field: Field, path: tuple[str, ...]
    ) -> tuple[pa.DataType, list[_Problem]]:
        kind = "struct" if pa.types.is_struct(stored) else "map" if pa.types.is_map(stored) else "list"
        column = ".".join(path)
        if kind != field.type.kind:
            what = f"has {kind}, where the table has {field.type.kind}"
            return given, [_Problem(column, what, f"give {column} as the table has it")]
        problems: list[_Problem] = []
        if kind == "struct":
            names, problems = self.names([child.name for child in children], field.type.fields, path)
            problems += self.missing(field.type.fields, {ours.id for ours in names.values()}, path)
            partners = [names.get(child.name) for child in children]
        else:
            partners = list(field.type.fields)
        made = []
        for child, ours in zip(children, partners, strict=True):
            type_ = child.type
            name = child.name
            if ours is not None:
                type_, found = self.column(child.type, ours, (*path, ours.name))
                problems += found
                name = ours.name if kind == "struct" else child.name
            made.append(child.with_type(type_).with_name(name))
        if kind == "struct":
            return pa.struct(made), problems
        if kind == "map":
            return pa.map_(made[0], made[1]), problems
        same = made[0].equals(children[0])
        return (
            given if same else pa.large_list(made[0]) if pa.types.is_large_list(stored) else pa.list_(made[0])
        ), problems


def _fits(theirs: Type, ours: Type) -> bool:
    """Whether values of their type may be values of ours, each by itself."""
    if can_promote(theirs, ours, _NEWEST):
        return True
    pair = (theirs.kind, ours.kind)
    if theirs.kind in _INTEGERS:
        return ours.kind in _INTEGERS | _FLOATS | {"decimal"}
    return pair in _BY_VALUE


_BY_VALUE = frozenset(
    {
        ("double", "float"), ("decimal", "decimal"), ("binary", "fixed"), ("fixed", "binary"), ("fixed", "uuid"),
        ("uuid", "fixed"), ("uuid", "binary"), ("binary", "uuid"), ("binary", "geometry"), ("binary", "geography"),
        ("timestamp_ns", "timestamp"), ("timestamptz_ns", "timestamptz"),
        ("timestamp", "timestamp_ns"), ("timestamptz", "timestamptz_ns"),
    }
)  # fmt: skip


def _remedy(theirs: Type | None, ours: Type, column: str) -> str:
    zoned = ("timestamp", "timestamp_ns"), ("timestamptz", "timestamptz_ns")
    if theirs is not None and theirs.kind in zoned[0] and ours.kind in zoned[1]:
        return f"say which zone {column} is in (pandas: tz_localize, Arrow: assume_timezone)"
    if theirs is not None and theirs.kind in zoned[1] and ours.kind in zoned[0]:
        return f"drop the zone of {column} (pandas: tz_localize(None), Arrow: local_timestamp)"
    return f"cast {column}"


def _leaf_cast(given: pa.DataType, stored: pa.DataType, wanted: Type) -> pa.DataType:
    """The type to cast to where it takes more than the conforming that comes after; otherwise what is given."""
    ours = arrow_type(wanted)
    if stored.equals(ours) or pa.types.is_null(stored):
        return given
    if pa.types.is_integer(stored) and not wanted.is_nested:
        widens = wanted.kind in _INTEGERS and stored.bit_width < ours.bit_width
        return given if widens else ours
    if isinstance(wanted, DecimalType | FixedType) or wanted.kind in ("time", "float", "uuid"):
        return given if isinstance(given, pa.BaseExtensionType) else ours
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(ours):
        return pa.timestamp(ours.unit, stored.tz)
    return given


def _exactly(array: pa.Array, wanted: pa.DataType, column: str) -> pa.Array:
    """The array cast, if no value changes."""
    try:
        return _cast(array, wanted)
    except (pa.ArrowException, FloeError) as error:
        raise InvalidValue(
            f"a value does not fit the table's column: {str(error)[:200]}",
            hint="cast the column as you mean it, or change the table's type",
            column=column,
        ) from None


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_integer(array.type) and pa.types.is_decimal(wanted):
        array = array.cast(pa.decimal256(20 + wanted.scale, wanted.scale))
    if pa.types.is_float32(wanted) and pa.types.is_float64(array.type):
        made = array.cast(wanted)
        back = made.cast(array.type)
        same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
        if pc.any(pc.invert(same)).as_py():
            value = array.filter(pc.invert(same).fill_null(False))[0].as_py()
            raise InvalidValue(f"{value!r} is not exactly a float")
        return made
    return array.cast(wanted)


# schemas of data ------------------------------------------------------------------------------------------------------


def schema_for(incoming: pa.Schema, *, format_version: int) -> Schema:
    """The columns of a new table for data; before format version 3, nanoseconds are taken as microseconds.

    >>> print(schema_for(pa.schema({"at": pa.timestamp("ns", "UTC")}), format_version=2))
    table {
      1: at: optional timestamptz
    }
    """
    theirs = schema_from_arrow(pa.schema([_storable(field) for field in incoming]))
    return Schema(tuple(_known(field, format_version, (field.name,)) for field in theirs.fields))


def _storable(field: pa.Field) -> pa.Field:
    """The field with times in microseconds, which tables have, in place of nanoseconds, which Polars has."""
    type_ = field.type
    if pa.types.is_time64(type_):
        return field.with_type(pa.time64("us"))
    if pa.types.is_struct(type_):
        return field.with_type(pa.struct([_storable(type_.field(n)) for n in range(type_.num_fields)]))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return field.with_type(pa.list_(_storable(type_.value_field)))
    return field


def _known(field: Field, version: int, path: tuple[str, ...]) -> Field:
    """The field with a type that tables of a format version have."""
    if field.type.is_nested:
        children = tuple(_known(child, version, (*path, child.name)) for child in field.type.fields)
        return replace(field, type=with_children(field.type, children))
    if version >= _NEWEST:
        return field
    if field.type.kind == "unknown":
        column = ".".join(path)
        raise IncompatibleChange(
            f"the new column {column} has only nulls, so its type is not known",
            hint="cast it, or leave it out",
            column=column,
        )
    return replace(field, type=_COARSER.get(field.type.kind, field.type))


# merging --------------------------------------------------------------------------------------------------------------


def merged_schema(
    update: SchemaUpdate, incoming: pa.Schema, existing: Schema, *, format_version: int, case_sensitive: bool = True
) -> None:
    """Have an update take in the columns of data: new ones are added, and narrower ones widened if need be.

    A column that is there stays as it is where the values can be taken as they are; none becomes optional because Arrow
    does not say that there are no nulls.

    >>> from floe.spec.types import Field, INT
    >>> table = Schema((Field(1, "id", INT, required=True),))
    >>> update = SchemaUpdate(table, format_version=2, last_column_id=1)
    >>> merged_schema(update, pa.schema({"id": pa.int64(), "at": pa.timestamp("ns")}), table, format_version=2)
    >>> print(update.apply())
    table {
      1: id: required long
      2: at: optional timestamp
    }
    """
    theirs = schema_from_arrow(_without_ids(incoming))
    merger = _Merger(format_version, str if case_sensitive else str.lower)
    update.union_by_name(Schema(merger.fields(theirs.fields, existing.fields, ())))


def _without_ids(schema: pa.Schema) -> pa.Schema:
    """The schema with no ids in its metadata: those of another table mean nothing here."""
    return pa.schema([_storable(pa.field(field.name, field.type, field.nullable)) for field in schema])


@dataclass(frozen=True, slots=True)
class _Merger:
    """Makes of the fields of data what the table's schema is to be merged with."""

    format_version: int
    fold: Callable[[str], str]

    def fields(self, theirs: Iterable[Field], ours: Iterable[Field], path: tuple[str, ...]) -> tuple[Field, ...]:
        own = {self.fold(field.name): field for field in ours}
        return tuple(self.field(field, own.get(self.fold(field.name)), (*path, field.name)) for field in theirs)

    def field(self, theirs: Field, ours: Field | None, path: tuple[str, ...]) -> Field:
        if ours is None:
            return replace(_known(theirs, self.format_version, path), required=False, doc=None)
        theirs = replace(theirs, required=ours.required, doc=None)
        if theirs.type.is_nested and ours.type.kind == theirs.type.kind:
            children = self.fields(theirs.type.fields, ours.type.fields, path)
            return replace(theirs, type=with_children(theirs.type, children))
        stays = _fits(theirs.type, ours.type) or theirs.type.kind == "unknown"
        if stays and not can_promote(ours.type, theirs.type, self.format_version):
            return replace(theirs, type=ours.type)
        return theirs
