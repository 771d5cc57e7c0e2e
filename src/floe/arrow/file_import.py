"""Files that are there already, described so that a table can have them: Parquet, ORC and Avro, with field ids or not.

Nothing is copied. Of a Parquet file the footer is read; others are read once, for they tell less of themselves. The
columns of a file must be the table's, by id, or by name where it has no ids: readers then need a name mapping, which
the table gets (`schema.name-mapping.default`).

All rows of a file are of one partition. Its values are those that are given, those that folders of a Hive table tell
(`day=2024-02-29`), those that the footer proves, or else those that are found by reading the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from floe.errors import CorruptFile, FloeError, InvalidInput, InvalidSchema, InvalidValue
from floe.formats.appender import Written, measured
from floe.formats.avro.reader import read_header
from floe.formats.file_columns import file_fields, find_columns
from floe.formats.metrics import Metrics, MetricsCollector
from floe.formats.orc.tail import file_columns, read_tail
from floe.formats.parquet.reader import footer_metrics, open_parquet
from floe.formats.writers.partition_split import Splitter
from floe.formats.writers.write_target import WriteTarget
from floe.spec.codecs.avro_schemas import avro_file_fields, parse_avro_schema
from floe.spec.codecs.single_value import decode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, check_writable
from floe.spec.partitioning.paths import parse_partition_path, partition_from_path
from floe.spec.partitioning.transforms import Identity, Void
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.column_projection import ColumnSource, FromFile
from floe.spec.schemas.name_mapping import (
    FileField,
    NameMapping,
    apply_mapping,
    has_ids,
    mapping_from_schema,
    parse_name_mapping,
)
from floe.spec.schemas.schema import Schema
from floe.spec.values import convert
from floe.storage.locations import Location, canonical, parse

_FORMATS = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".orc": "orc", ".avro": "avro"}
_MAGIC = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
_PROVEN = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
"""Types whose bounds in a footer are values, and not cut short."""


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """Files as a manifest describes them, and the name mapping that the table has to have for them."""

    files: tuple[DataFile, ...]
    name_mapping: NameMapping | None
    """None if the table has what it needs."""


def data_files_at(target: WriteTarget, locations: Iterable[str]) -> list[str]:
    """The files at some locations: those that are files, and of folders all data files below that are not hidden.

    Files whose names begin with `.` or `_` are none, nor those in such folders.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> for name in ("a.parquet", "day=1/b.parquet", "_SUCCESS", "_tmp/c.parquet", "notes.txt"):
    ...     storage.write(f"memory:in/{name}", b"")
    >>> data_files_at(WriteTarget(None, storage, None, None), ["memory:in"])
    ['memory:in/a.parquet', 'memory:in/day=1/b.parquet']
    """
    found: dict[str, str] = {}  # each file once, however often and in however many spellings it is named
    for location in locations:
        if not isinstance(location, str):
            raise InvalidInput(f"a location is text, found {location!r:.80}")
        if not location.endswith("/") and target.storage.exists(location):
            found.setdefault(canonical(location), location)
            continue
        folder = parse(location)
        below = [info.location for info in target.storage.list(location) if _is_data_file(parse(info.location), folder)]
        if not below:
            raise InvalidInput("there is no data file at this location", location=location)
        for file in below:
            found.setdefault(canonical(file), file)
    return list(found.values())


def _is_data_file(file: Location, folder: Location) -> bool:
    inside = file.path[len(folder.folder) :].split("/")
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in inside)
    return not hidden and file.path.endswith(tuple(_FORMATS))


def import_files(
    target: WriteTarget,
    locations: Iterable[str],
    *,
    partition: Mapping[str, Any] | None = None,
    allow_extra_columns: bool = False,
) -> ImportedFiles:
    """The files at some locations, checked and described.

    `partition` gives values of partition fields, by their names or those of their columns, for all of the files.
    Columns that the table has not are an error unless they are allowed; nobody can read them then.
    """
    check_writable(target.spec)
    _check_named(target, partition or {})
    text = NAME_MAPPING.read(target.metadata.properties)
    mapping = mapping_from_schema(target.schema) if text is None else parse_name_mapping(text)
    files, mapped = [], False
    for location in locations:
        try:
            importer = _Importer(target, location, mapping, dict(partition or {}), allow_extra_columns)
            files.append(importer.file())
        except FloeError as error:
            raise error.with_context(file=location) from None
        mapped = mapped or not has_ids(importer.columns)
    return ImportedFiles(tuple(files), mapping if mapped and text is None else None)


def _check_named(target: WriteTarget, partition: Mapping[str, Any]) -> None:
    """Raise if a value is given for what is no partition field."""
    fields = target.spec.fields
    known = {name for field in fields for name in (field.name, target.schema.entry(field.source_id).name)}
    for name in partition:
        if name not in known:
            names = ", ".join(field.name for field in fields)
            raise InvalidInput(
                f"the table is not partitioned by {name!r}",
                hint=f"its partition fields are {names}" if names else "it has no partitions",
            )


class _Importer:
    """One file on its way into a table."""

    def __init__(
        self, target: WriteTarget, location: str, mapping: NameMapping, partition: dict[str, Any], extra: bool
    ) -> None:
        self.target = target
        self.location = location
        self.mapping = mapping
        self.given = partition
        self.size = target.storage.stat(location).size
        self.format = _format_of(target, location)
        self.columns = _columns_of(target, location, self.format, self.size)
        self._check_columns(extra)
        self.constants = self._told()

    def file(self) -> DataFile:
        metrics, written = self._metrics()
        return DataFile(
            content=FileContent.DATA,
            file_path=self.location,
            file_format=self.format,
            partition=self._partition(metrics),
            file_size_in_bytes=self.size,
            **measured(metrics, written),
            spec_id=self.target.spec.spec_id,
        )

    # columns -----------------------------------------------------------------------------------------------------

    def _check_columns(self, extra: bool) -> None:
        schema = self.target.schema
        own = has_ids(self.columns)
        columns = self.columns if own else apply_mapping(self.columns, self.mapping)
        for column in columns:
            ours = None if column.id is None else schema.find(column.id)
            if ours is None and not extra:
                raise InvalidSchema(
                    "the file has a column that the table has not",
                    hint="add it to the table first, or allow extra columns, which nobody sees",
                    column=column.name,
                )
            if own and ours is not None and ours.name != column.name:
                raise InvalidSchema(
                    f"the file has field ids of another table: its column {column.name!r} has id {column.id}, which is "
                    f"{ours.name!r} in this table",
                    hint="write the rows with append, which gives them the right ids",
                    column=column.name,
                )

    def _told(self) -> dict[int, Any]:
        """The values of columns that are not in the file and that folders or the caller tell."""
        values = {}
        columns = self.columns if has_ids(self.columns) else apply_mapping(self.columns, self.mapping)
        stored = {column.id for column in columns}
        for field in self.target.spec.fields:
            if isinstance(field.transform, Identity) and field.source_id not in stored:
                known, value = self._given_or_folder(field)
                if known:
                    values[field.source_id] = value
        return values

    def sources(self) -> tuple[ColumnSource, ...]:
        try:
            mapping = None if has_ids(self.columns) else self.mapping
            return find_columns(self.target.schema, self.columns, name_mapping=mapping, constants=self.constants)
        except CorruptFile as error:
            raise InvalidSchema(f"the file does not fit the table: {error.message}", **error.context) from None

    # metrics -----------------------------------------------------------------------------------------------------

    def _metrics(self) -> tuple[Metrics, Written]:
        target, sources = self.target, self.sources()
        config = target.metrics(target.schema)
        if self.format == "parquet":
            with target.storage.open_read(self.location) as stream:
                return footer_metrics(open_parquet(stream), sources, config)
        stored = Schema(tuple(source.field for source in sources if isinstance(source, FromFile)))
        collector = MetricsCollector(stored, config)
        for batch in self._read(stored):
            collector.add(batch)
        return collector.result(), Written(self.size)

    def _read(self, schema: Schema) -> Iterator[Any]:
        reading = self.target.registry.read(self.format, "arrow", self.target.storage, self.location).project(schema)
        reading = reading.properties(self.target.properties)
        return reading.name_mapping(self.mapping).facts(file_size=self.size).build()

    # partitions --------------------------------------------------------------------------------------------------

    def _partition(self, metrics: Metrics) -> tuple[Any, ...]:
        spec = self.target.spec
        values: list[Any] = []
        unknown: dict[int, PartitionField] = {}
        for place, field in enumerate(spec.fields):
            if isinstance(field.transform, Void):
                values.append(None)
                continue
            told, value = self._given_or_folder(field)
            known, proven = self._proven(field, metrics)
            if told and known and value != proven:
                raise InvalidValue(
                    f"the rows of the file have {proven!r} for the partition field {field.name}, and not {value!r}, as "
                    "its folder or the caller says"
                )
            if not told and not known:
                unknown[place] = field
            values.append(value if told else proven)
        if unknown and metrics.record_count:
            found = self._found(PartitionSpec(tuple(unknown.values()), spec.spec_id))
            for place, value in zip(unknown, found, strict=True):
                values[place] = value
        return tuple(values)

    def _given_or_folder(self, field: PartitionField) -> tuple[bool, Any]:
        source = self.target.schema.entry(field.source_id)
        for name in (field.name, source.name):
            if name in self.given:
                return True, self._given(field, self.given[name])
        if isinstance(field.transform, Identity):
            folders = [part for part in self.location.split("/")[:-1] if "=" in part]
            for folder in folders:
                (name,) = parse_partition_path(folder)
                if name in (field.name, source.name):
                    spec = PartitionSpec((replace(field, name=name),))
                    return True, partition_from_path(spec, self.target.schema, folder)[0]
        return False, None

    def _given(self, field: PartitionField, value: Any) -> Any:
        source = self.target.schema.entry(field.source_id).field.type
        try:
            return convert(field.transform.result_type(source), value)
        except InvalidValue as error:
            raise error.with_context(**{"partition field": field.name}) from None

    def _proven(self, field: PartitionField, metrics: Metrics) -> tuple[bool, Any]:
        """The value that all rows have by the bounds of the column, if they tell."""
        column, source = field.source_id, self.target.schema.entry(field.source_id).field.type
        nulls = metrics.null_value_counts.get(column)
        if nulls is None or not metrics.record_count:
            return False, None
        if nulls == metrics.record_count:
            return True, None
        low, high = metrics.lower_bounds.get(column), metrics.upper_bounds.get(column)
        if nulls or low is None or high is None or source.kind not in _PROVEN:
            return False, None
        apply = field.transform.bind(source)
        lower, upper = decode(source, low), decode(source, high)
        same = lower == upper if not field.transform.preserves_order else apply(lower) == apply(upper)
        return (True, apply(lower)) if same else (False, None)

    def _found(self, spec: PartitionSpec) -> tuple[Any, ...]:
        """The values that the rows have, if it is the same in all of them."""
        schema = self.target.schema
        tops = {(*entry.ancestors, entry.field)[0].id for entry in (schema.entry(one.source_id) for one in spec.fields)}
        needed = Schema(tuple(field for field in schema.fields if field.id in tops))
        split = Splitter(spec, needed)
        seen: dict[Any, tuple[Any, ...]] = {}
        for batch in self._read(needed):
            seen.update((part.key, part.values) for part in split(batch))
            if len(seen) > 1:
                names = ", ".join(field.name for field in spec.fields)
                first, second = list(seen.values())[:2]
                raise InvalidValue(
                    f"the file has rows of several partitions: {first} and {second} of ({names})",
                    hint="write its rows with append, which puts them into files of their partitions",
                )
        return next(iter(seen.values()))


def _format_of(target: WriteTarget, location: str) -> str:
    by_name = next((found for ending, found in _FORMATS.items() if location.lower().endswith(ending)), None)
    if by_name is not None:
        return by_name
    start = target.storage.read_range(location, 0, 4)
    found = next((found for magic, found in _MAGIC.items() if start.startswith(magic)), None)
    if found is None:
        raise InvalidInput("neither its name nor its first bytes say that this is a Parquet, ORC or Avro file")
    return found


def _columns_of(target: WriteTarget, location: str, file_format: str, size: int) -> tuple[FileField, ...]:
    with target.storage.open_read(location) as stream:
        try:
            if file_format == "parquet":
                return file_fields(open_parquet(stream).file.schema_arrow)
            if file_format == "orc":
                return tuple(file_columns(read_tail(stream, size).nodes))
            return avro_file_fields(parse_avro_schema(read_header(stream).schema_text))
        except FloeError:
            raise
        except Exception as error:
            raise CorruptFile(f"the {file_format} file cannot be read: {str(error)[:300]}") from None
