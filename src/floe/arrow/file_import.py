"""Import of existing Parquet, ORC and Avro files into a table, with or without field ids.

Nothing is copied: `import_files` describes the files as manifest entries. For a Parquet file only the footer is read;
ORC and Avro files are read once, because their metadata has no metrics for all columns. The columns of a file must be
the table's, by id, or by name where the file has no ids. Readers then need a name mapping, which the table gets
(`schema.name-mapping.default`).

All rows of a file belong to one partition. Its values are taken from the caller, from the folders of a Hive table
(`day=2024-02-29`), from the bounds in the footer, or else from the rows themselves, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from floe.errors import CorruptFile, FloeError, InvalidInput, InvalidSchema, InvalidValue
from floe.formats.appender import WrittenFile, data_file_metrics
from floe.formats.avro.reader import read_header
from floe.formats.columns.file_columns import file_fields, resolve_file_columns
from floe.formats.metrics import Metrics, MetricsCollector
from floe.formats.orc.tail import file_columns, read_tail
from floe.formats.parquet.reader import footer_metrics, open_parquet
from floe.formats.writers.partitioned import PartitionSplitter
from floe.formats.writers.write_target import WriteTarget
from floe.spec.codecs.avro_schemas import avro_file_fields, parse_avro_schema
from floe.spec.codecs.single_value import decode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_paths import parse_partition_path, partition_from_path
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, check_writable
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
_EXACT_BOUNDS = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
"""Types whose bounds in a footer are values of the column: bounds of text and bytes may be truncated."""


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """Imported files as manifest entries, and the name mapping that the table needs to read them."""

    files: tuple[DataFile, ...]
    name_mapping: NameMapping | None
    """None if the table does not need a new one."""


def list_data_files(target: WriteTarget, locations: Iterable[str]) -> list[str]:
    """List the data files at some locations: each location is a file, or a folder that is searched recursively.

    Files and folders whose names begin with `.` or `_` are skipped. Raises `InvalidInput` for a location without data
    files.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> for name in ("a.parquet", "day=1/b.parquet", "_SUCCESS", "_tmp/c.parquet", "notes.txt"):
    ...     storage.write(f"memory:in/{name}", b"")
    >>> list_data_files(WriteTarget(None, storage, None, None), ["memory:in"])
    ['memory:in/a.parquet', 'memory:in/day=1/b.parquet']
    """
    by_canonical_location: dict[str, str] = {}  # a file is listed once, even if it is named several times
    for location in locations:
        if not isinstance(location, str):
            raise InvalidInput(f"a location must be text, found {location!r:.80}")
        if not location.endswith("/") and target.storage.exists(location):
            by_canonical_location.setdefault(canonical(location), location)
            continue
        folder = parse(location)
        in_folder = [
            info.location for info in target.storage.list(location) if _is_data_file(parse(info.location), folder)
        ]
        if not in_folder:
            raise InvalidInput("there is no data file at this location", location=location)
        for file in in_folder:
            by_canonical_location.setdefault(canonical(file), file)
    return list(by_canonical_location.values())


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
    """Check the files at some locations, and describe them as manifest entries.

    `partition` has values of partition fields for all of the files, by the names of the fields or of their columns.
    A column that the table does not have is an error unless extra columns are allowed; readers ignore them. Errors
    name the file.
    """
    check_writable(target.spec)
    _check_partition_names(target, partition or {})
    mapping_text = NAME_MAPPING.read(target.metadata.properties)
    mapping = mapping_from_schema(target.schema) if mapping_text is None else parse_name_mapping(mapping_text)
    files, needs_mapping = [], False
    for location in locations:
        try:
            importer = _Importer(target, location, mapping, dict(partition or {}), allow_extra_columns)
            files.append(importer.file())
        except FloeError as error:
            raise error.with_context(file=location) from None
        needs_mapping = needs_mapping or not has_ids(importer.columns)
    return ImportedFiles(tuple(files), mapping if needs_mapping and mapping_text is None else None)


def _check_partition_names(target: WriteTarget, partition: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if a name is neither a partition field nor its column."""
    fields = target.spec.fields
    allowed = {name for field in fields for name in (field.name, target.schema.entry(field.source_id).name)}
    for name in partition:
        if name not in allowed:
            names = ", ".join(field.name for field in fields)
            raise InvalidInput(
                f"the table is not partitioned by {name!r}",
                hint=f"its partition fields are {names}" if names else "it has no partitions",
            )


class _Importer:
    """Checks and describes one file."""

    def __init__(
        self, target: WriteTarget, location: str, mapping: NameMapping, partition: dict[str, Any], allow_extra: bool
    ) -> None:
        self.target = target
        self.location = location
        self.mapping = mapping
        self.partition = partition
        self.size = target.storage.stat(location).size
        self.format = _format_of(target, location)
        self.columns = _columns_of(target, location, self.format, self.size)
        self._check_columns(allow_extra)
        self.constants = self._constants_of_missing_columns()

    def file(self) -> DataFile:
        metrics, written = self._metrics()
        return DataFile(
            content=FileContent.DATA,
            file_path=self.location,
            file_format=self.format,
            partition=self._partition(metrics),
            file_size_in_bytes=self.size,
            **data_file_metrics(metrics, written),
            spec_id=self.target.spec.spec_id,
        )

    # Columns -----------------------------------------------------------------------------------------------------

    def _check_columns(self, allow_extra: bool) -> None:
        schema = self.target.schema
        has_field_ids = has_ids(self.columns)
        columns = self.columns if has_field_ids else apply_mapping(self.columns, self.mapping)
        for column in columns:
            table_column = None if column.id is None else schema.find(column.id)
            if table_column is None and not allow_extra:
                raise InvalidSchema(
                    "the file has a column that the table does not have",
                    hint="add it to the table first, or allow extra columns, which readers ignore",
                    column=column.name,
                )
            if has_field_ids and table_column is not None and table_column.name != column.name:
                raise InvalidSchema(
                    f"the file has field ids of another table: its column {column.name!r} has id {column.id}, which is "
                    f"{table_column.name!r} in this table",
                    hint="write the rows with append, which uses the ids of this table",
                    column=column.name,
                )

    def _constants_of_missing_columns(self) -> dict[int, Any]:
        """The values of columns that are not in the file, from its folders or from the caller."""
        values = {}
        columns = self.columns if has_ids(self.columns) else apply_mapping(self.columns, self.mapping)
        stored = {column.id for column in columns}
        for field in self.target.spec.fields:
            if isinstance(field.transform, Identity) and field.source_id not in stored:
                is_declared, value = self._declared_value(field)
                if is_declared:
                    values[field.source_id] = value
        return values

    def sources(self) -> tuple[ColumnSource, ...]:
        try:
            mapping = None if has_ids(self.columns) else self.mapping
            return resolve_file_columns(
                self.target.schema, self.columns, name_mapping=mapping, constants=self.constants
            )
        except CorruptFile as error:
            raise InvalidSchema(f"the file does not fit the table: {error.message}", **error.context) from None

    # Metrics -----------------------------------------------------------------------------------------------------

    def _metrics(self) -> tuple[Metrics, WrittenFile]:
        target, sources = self.target, self.sources()
        config = target.metrics(target.schema)
        if self.format == "parquet":
            with target.storage.open_read(self.location) as stream:
                return footer_metrics(open_parquet(stream), sources, config)
        stored = Schema(tuple(source.field for source in sources if isinstance(source, FromFile)))
        collector = MetricsCollector(stored, config)
        for batch in self._read(stored):
            collector.add(batch)
        return collector.result(), WrittenFile(self.size)

    def _read(self, schema: Schema) -> Iterator[Any]:
        builder = self.target.registry.read(self.format, "arrow", self.target.storage, self.location).project(schema)
        builder = builder.properties(self.target.properties)
        return builder.name_mapping(self.mapping).facts(file_size=self.size).build()

    # Partitions --------------------------------------------------------------------------------------------------

    def _partition(self, metrics: Metrics) -> tuple[Any, ...]:
        spec = self.target.spec
        values: list[Any] = []
        undecided: dict[int, PartitionField] = {}
        for index, field in enumerate(spec.fields):
            if isinstance(field.transform, Void):
                values.append(None)
                continue
            is_declared, value = self._declared_value(field)
            is_proven, bound_value = self._value_from_bounds(field, metrics)
            if is_declared and is_proven and value != bound_value:
                raise InvalidValue(
                    f"the rows of the file have {bound_value!r} for the partition field {field.name}, but its folder "
                    f"or the caller says {value!r}"
                )
            if not is_declared and not is_proven:
                undecided[index] = field
            values.append(value if is_declared else bound_value)
        if undecided and metrics.record_count:
            row_values = self._values_from_rows(PartitionSpec(tuple(undecided.values()), spec.spec_id))
            for index, value in zip(undecided, row_values, strict=True):
                values[index] = value
        return tuple(values)

    def _declared_value(self, field: PartitionField) -> tuple[bool, Any]:
        source = self.target.schema.entry(field.source_id)
        for name in (field.name, source.name):
            if name in self.partition:
                return True, self._convert(field, self.partition[name])
        if isinstance(field.transform, Identity):
            folders = [part for part in self.location.split("/")[:-1] if "=" in part]
            for folder in folders:
                (name,) = parse_partition_path(folder)
                if name in (field.name, source.name):
                    spec = PartitionSpec((replace(field, name=name),))
                    return True, partition_from_path(spec, self.target.schema, folder)[0]
        return False, None

    def _convert(self, field: PartitionField, value: Any) -> Any:
        source = self.target.schema.entry(field.source_id).field.type
        try:
            return convert(field.transform.result_type(source), value)
        except InvalidValue as error:
            raise error.with_context(**{"partition field": field.name}) from None

    def _value_from_bounds(self, field: PartitionField, metrics: Metrics) -> tuple[bool, Any]:
        """Whether the bounds of the column prove that all rows have one partition value, and that value."""
        column, source = field.source_id, self.target.schema.entry(field.source_id).field.type
        nulls = metrics.null_value_counts.get(column)
        if nulls is None or not metrics.record_count:
            return False, None
        if nulls == metrics.record_count:
            return True, None
        low, high = metrics.lower_bounds.get(column), metrics.upper_bounds.get(column)
        if nulls or low is None or high is None or source.kind not in _EXACT_BOUNDS:
            return False, None
        apply = field.transform.bind(source)
        lower, upper = decode(source, low), decode(source, high)
        same = lower == upper if not field.transform.preserves_order else apply(lower) == apply(upper)
        return (True, apply(lower)) if same else (False, None)

    def _values_from_rows(self, spec: PartitionSpec) -> tuple[Any, ...]:
        """The partition values of the rows; raises `InvalidValue` if they are of several partitions."""
        schema = self.target.schema
        top_level_ids = {
            (*entry.ancestors, entry.field)[0].id for entry in (schema.entry(field.source_id) for field in spec.fields)
        }
        needed = Schema(tuple(field for field in schema.fields if field.id in top_level_ids))
        split = PartitionSplitter(spec, needed)
        partitions: dict[Any, tuple[Any, ...]] = {}
        for batch in self._read(needed):
            partitions.update((part.key, part.values) for part in split(batch))
            if len(partitions) > 1:
                names = ", ".join(field.name for field in spec.fields)
                first, second = list(partitions.values())[:2]
                raise InvalidValue(
                    f"the file has rows of several partitions: {first} and {second} of ({names})",
                    hint="write its rows with append, which writes one file per partition",
                )
        return next(iter(partitions.values()))


def _format_of(target: WriteTarget, location: str) -> str:
    format_by_name = next(
        (file_format for ending, file_format in _FORMATS.items() if location.lower().endswith(ending)), None
    )
    if format_by_name is not None:
        return format_by_name
    magic_bytes = target.storage.read_range(location, 0, 4)
    file_format = next((file_format for magic, file_format in _MAGIC.items() if magic_bytes.startswith(magic)), None)
    if file_format is None:
        raise InvalidInput("neither the name nor the first bytes of the file are those of Parquet, ORC or Avro")
    return file_format


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
