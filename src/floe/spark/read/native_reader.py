"""Reads by Spark's own Parquet reader: when they are exact, which columns the reader gets, and the splits of files.

The reader finds columns by field id. Its columns need not have the names of the query's columns: a column keeps its
name if no file can have another column of that name, so that Spark can also prune row groups by it; otherwise it gets
a name that no file has.

Values that are the same in all rows of a file (`_file`, `_spec_id`, partition values, deleted rows) go to the reader
with the file, as constants. `floe.spark.read.rewrite` computes the other metadata columns from them.

Files are split at row groups into parts of about equal size, and named by URLs that Hadoop understands.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import UnsupportedFeature
from floe.formats.parquet.reader import verifies_page_checksums
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import SplitSettings, adjusted_split_size, split_settings
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.parquet_readers import READS_RENAMED_FIELDS, ConstantType, FileSplits, parquet_factory
from floe.spark.schemas import EXISTS_DEFAULT, READ_ONLY_TYPES, SparkField, spark_field, spark_literal, spark_type
from floe.spark.settings import PARQUET_READER
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import ADAPTIVE_SPLIT_SIZE, NAME_MAPPING
from floe.spec.schemas.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    PARTITION_ID,
    POS,
    ROW_ID,
    SPEC_ID,
    is_metadata_column,
)
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.types import BINARY, INT, LONG, DecimalType, Field, ListType, MapType, StructType, Type
from floe.storage.access import check_allowed
from floe.storage.locations import Location, is_below, parse
from floe.storage.protocol import Storage
from floe.storage.wrappers import PrefixMap

# Constants of files ---------------------------------------------------------------------------------------------------

DELETED_ROWS: Final = Field(-1, "_deleted_rows", BINARY, required=True)
"""The bitmap of the deleted rows of the file; empty for a file without position deletes."""

FIRST_ROW_ID: Final = Field(-2, "_first_row_id", LONG, required=True)
SEQUENCE_NUMBER: Final = Field(-3, "_sequence_number", LONG, required=True)
SCOPE: Final = Field(-4, "_scope", INT, required=True)
"""The number of the file's partition in a plan: equality deletes apply to files with the same number."""

_CONSTANT_TYPES: Final[Mapping[int, ConstantType]] = {
    FILE.id: "text",
    SPEC_ID.id: "int",
    DELETED_ROWS.id: "bytes",
    FIRST_ROW_ID.id: "long",
    SEQUENCE_NUMBER.id: "long",
    SCOPE.id: "int",
}
_FILE_COLUMNS: Final = {
    FILE.id: "file_path",
    SPEC_ID.id: "spec_id",
    FIRST_ROW_ID.id: "first_row_id",
    SEQUENCE_NUMBER.id: "sequence_number",
    SCOPE.id: "scope",
}
"""The columns of `ScanPlan.files_to_arrow` that have the values of constants."""

_PARTITION_CONSTANT_TYPES: Final[Mapping[str, ConstantType]] = {
    "int": "int",
    "date": "int",
    "boolean": "int",
    "float": "int",
    "long": "long",
    "timestamp": "long",
    "timestamptz": "long",
    "double": "long",
    "string": "text",
    "uuid": "text",
    "binary": "bytes",
    "fixed": "bytes",
}
_FIRST_PARTITION_ID: Final = -10
"""The constants for fields of `_partition` have ids from here downwards."""

_CARRIED_AS: Final[Mapping[str, Type]] = {"boolean": INT, "float": INT, "double": LONG}
"""The types in which Spark's reader carries partition values that it has no constants for."""

_MAX_LONG_DECIMAL: Final = 18
"""The greatest precision of decimals whose unscaled value fits into a long."""


def constant_type(field: Field) -> ConstantType | None:
    """The type of the constant for a column; None for a column that is not constant in a file."""
    if field.id >= 0:
        return _CONSTANT_TYPES.get(field.id)
    return _CONSTANT_TYPES.get(field.id) or _PARTITION_CONSTANT_TYPES.get(field.type.kind)


def partition_constant(field: Field) -> Field | None:
    """The constant that carries a field of `_partition`; None for types that no constant can carry."""
    type_ = field.type
    if isinstance(type_, DecimalType):
        carried: Type = LONG
        if type_.precision > _MAX_LONG_DECIMAL:
            return None
    elif type_.kind in _PARTITION_CONSTANT_TYPES:
        carried = _CARRIED_AS.get(type_.kind, type_)
    else:
        return None
    return replace(
        field, id=_FIRST_PARTITION_ID - field.id, name=f"_partition_{field.id}", type=carried, required=False, doc=None
    )


def constant_column(files: pa.Table, field: Field, bitmaps: Mapping[str, bytes] | None = None) -> pa.Array:
    """The values of a constant for the files of a plan; `bitmaps` are the deleted rows of files, by path."""
    if field.id == DELETED_ROWS.id:
        by_path = bitmaps or {}
        return pa.array([by_path.get(path, b"") for path in files["file_path"].to_pylist()], pa.large_binary())
    if field.id in _FILE_COLUMNS:
        return files[_FILE_COLUMNS[field.id]].combine_chunks()
    return _partition_values(files["partition"], _FIRST_PARTITION_ID - field.id)


def _partition_values(partitions: pa.ChunkedArray, field_id: int) -> pa.Array:
    """The values of a partition field, in the form in which constants carry them."""
    key = str(field_id).encode()
    index = next(number for number, field in enumerate(partitions.type) if field.metadata[b"PARQUET:field_id"] == key)
    is_uuid = partitions.type.field(index).metadata.get(b"ICEBERG:type") == b"uuid"
    values = pa.chunked_array([_numbers(chunk.field(index)) for chunk in partitions.chunks]).combine_chunks()
    if is_uuid:
        return pa.array(
            [None if value is None else str(uuid.UUID(bytes=value)) for value in values.to_pylist()], pa.string()
        )
    return values


def _numbers(array: pa.Array) -> pa.Array:
    """Dates, timestamps, floats, booleans and decimals as the integers that constants carry for them."""
    type_ = array.type
    if pa.types.is_date32(type_) or pa.types.is_float32(type_):
        return array.view(pa.int32())
    if pa.types.is_timestamp(type_) or pa.types.is_float64(type_):
        return array.view(pa.int64())
    if pa.types.is_boolean(type_):
        return array.cast(pa.int32())
    if pa.types.is_decimal(type_):
        return pa.array(
            [None if value is None else int(value.scaleb(type_.scale)) for value in array.to_pylist()], pa.int64()
        )
    return array


# Obstacles ------------------------------------------------------------------------------------------------------------

FIELD_ID: Final = "parquet.field.id"
ROW_INDEX: Final = "_tmp_metadata_row_index"
"""The column that Spark's reader fills with the position of the row in its file."""

_COMPUTED: Final = frozenset({DELETED.id, ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})
"""The ids of the metadata columns that can always be computed above the reader."""

_UNSUPPORTED_TYPES: Final = frozenset({"uuid", "variant", "unknown"}) | READ_ONLY_TYPES
_VERIFY_CHECKSUMS: Final = "parquet.page.verify-checksum.enabled"


def native_read_obstacle(plan: ScanPlan, projection: Schema, formats: Iterable[str]) -> str | None:
    """Why Spark's reader cannot read the files of a plan exactly; None if it can."""
    if other_formats := sorted(set(formats) - {"parquet"}):
        return f"{' and '.join(other_formats)} files"
    if plan.has_deletes:
        return "row-level deletes"
    return column_obstacle(plan.metadata, projection)


def column_obstacle(metadata: TableMetadata, projection: Schema, *, above: bool = False) -> str | None:
    """Why Spark's reader cannot read columns exactly; None if it can.

    With `above` it is enough if a projection above the reader can compute them from what it reads.
    """
    if NAME_MAPPING.is_set(metadata.properties):
        return "files without field ids"
    for field in projection.fields:
        if is_metadata_column(field.id):
            if constant_type(field) is None and field.id != POS.id and not (above and _can_be_computed(field)):
                return f"the column {field.name}"
        elif field.initial_default is not None and field.type.is_nested:
            return f"the default of {field.name}"
    for entry in walk_fields(projection.fields):
        field = entry.field
        if is_metadata_column((*entry.ancestors, field)[0].id):
            continue
        if field.type.kind in _UNSUPPORTED_TYPES:
            return f"the type of {entry.name}"
        if entry.ancestors and field.initial_default is not None:
            return f"the default of {entry.name}"
        for schema in metadata.schemas:
            old_field = schema.find(field.id)
            if old_field is None:
                continue
            if not _same_or_widened(old_field.type, field.type):
                return f"{entry.name}, which was {old_field.type}"
            if entry.ancestors and old_field.name != field.name and not READS_RENAMED_FIELDS:
                return f"{entry.name}, which was called {old_field.name}"
            if isinstance(field.type, StructType) and not _shares_a_leaf(old_field.type, field.type):
                return f"{entry.name}, of which old files have none of the selected fields"
    return None


def _can_be_computed(field: Field) -> bool:
    if field.id != PARTITION_ID:
        return field.id in _COMPUTED
    return all(
        partition_field.type.kind == "unknown" or partition_constant(partition_field) is not None
        for partition_field in field.type.fields
    )


def _same_or_widened(old: Type, new: Type) -> bool:
    """Whether Spark's reader can read values of the old type as the new one."""
    if old.is_nested or new.is_nested:
        return old.kind == new.kind
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return old == new or (old.kind, new.kind) in {("int", "long"), ("float", "double")}


def _shares_a_leaf(old: Type, new: Type) -> bool:
    """Whether a struct has a field that the old one had; without any, Spark cannot tell null from an empty struct."""
    ids = {entry.field.id for entry in walk_fields(old.fields)}
    return any(entry.field.id in ids for entry in walk_fields(new.fields) if not entry.field.type.is_nested)


# Columns of the reader ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NativeColumns:
    """The columns that Spark's reader returns: first those stored in files, then the constants of files."""

    data: tuple[Field, ...]
    constants: tuple[Field, ...]
    unique_names: frozenset[int]
    """The ids of the columns that have the same name in all files, which no other column has."""

    requires_all_columns: bool = False
    """Whether every file must have all columns; otherwise a missing column is read as its default or null."""

    page_checksums: bool = True
    """Whether the reader verifies the checksums of pages."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns, in the order in which the reader returns them."""
        return (*self.data, *self.constants)

    @property
    def constant_types(self) -> tuple[ConstantType, ...]:
        """The types of the constants."""
        return tuple(kind for field in self.constants if (kind := constant_type(field)) is not None)

    def reader_schema(self) -> Any:
        """The Spark schema of the stored columns, with field ids, as JSON."""
        return {"type": "struct", "fields": [self._reader_field(field) for field in self.data]}

    def constants_schema(self) -> Any:
        """The Spark schema of the constants, as JSON."""
        return {"type": "struct", "fields": [spark_field(field) for field in self.constants]}

    def _reader_field(self, field: Field) -> SparkField:
        if field.id == POS.id:
            return {"name": ROW_INDEX, "type": "long", "nullable": True, "metadata": {}}
        name = field.name if field.id in self.unique_names else f"floe-{field.id}"
        spark_field_json = _field_with_id(field, name, nullable=not self.requires_all_columns)
        if field.initial_default is not None and not self.requires_all_columns:
            spark_field_json["metadata"][EXISTS_DEFAULT] = spark_literal(field.type, field.initial_default)
        return spark_field_json


def native_columns(metadata: TableMetadata, projection: Schema) -> NativeColumns:
    """The columns of Spark's reader for a projection."""
    constants = tuple(field for field in projection.fields if constant_type(field) is not None)
    data = tuple(field for field in projection.fields if constant_type(field) is None)
    unique_names = frozenset(_uniquely_named(metadata, data))
    return NativeColumns(data, constants, unique_names, page_checksums=verifies_page_checksums(metadata.properties))


def _uniquely_named(metadata: TableMetadata, fields: Sequence[Field]) -> Iterator[int]:
    """The ids of columns that were never renamed, and whose names no other column ever had."""
    names: dict[int, set[str]] = {}
    ids: dict[str, set[int]] = {}
    for schema in metadata.schemas:
        for field in schema.fields:
            names.setdefault(field.id, set()).add(field.name)
            ids.setdefault(field.name.lower(), set()).add(field.id)
    for field in fields:
        if is_metadata_column(field.id):
            continue
        if names.get(field.id, {field.name}) == {field.name} and ids.get(field.name.lower(), {field.id}) == {field.id}:
            yield field.id


def _field_with_id(field: Field, name: str, *, nullable: bool = True) -> SparkField:
    return {
        "name": name,
        "type": _type_with_ids(field.type, nullable=nullable),
        "nullable": nullable,
        "metadata": {FIELD_ID: field.id},
    }


def _type_with_ids(type_: Type, *, nullable: bool = True) -> Any:
    match type_:
        case StructType():
            fields = [_field_with_id(field, field.name, nullable=nullable) for field in type_.fields]
            return {"type": "struct", "fields": fields}
        case ListType():
            return {"type": "array", "elementType": _type_with_ids(type_.element), "containsNull": True}
        case MapType():
            return {
                "type": "map",
                "keyType": _type_with_ids(type_.key),
                "valueType": _type_with_ids(type_.value),
                "valueContainsNull": True,
            }
        case _:
            return spark_type(type_)


def reader_factory(jvm: Jvm, columns: NativeColumns, predicates: Any = None, chosen: Sequence[int] = ()) -> Any:
    """The factory of Spark's Parquet readers; `chosen` are the indexes of the predicates that prune row groups."""
    return parquet_factory(
        jvm,
        columns.reader_schema(),
        columns.constants_schema(),
        predicates,
        chosen,
        settings={**PARQUET_READER, _VERIFY_CHECKSUMS: str(columns.page_checksums).lower()},
        options={"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"},
    )


# Splits ---------------------------------------------------------------------------------------------------------------

_URL_CHARACTERS: Final = "/:@&=+$,;-_.!~*'()"
"""The characters that Hadoop does not quote in URLs, beside letters and digits."""

_PLAIN_NAME: Final = r"^[A-Za-z0-9/:@&=+$,;_.!~*'()-]*$"
"""Matches paths without characters that must be quoted."""

_RELATIVE_NAME: Final = r"/\.{0,2}(/|$)"
"""Matches `.`, `..` and empty names, which disappear when a path is resolved."""

_ROOT: Final = r"^(?P<root>(?:[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?)?)"
"""Matches the scheme and authority of a location; empty for a plain path."""


def adaptive_split_settings(
    properties: Mapping[str, str], total: int, parallelism: int, options: Mapping[str, int] = MappingProxyType({})
) -> SplitSettings:
    """The split settings for files of `total` bytes: from the options, or else from the table's properties.

    Without an option for it, the split size is reduced if that keeps more executors busy.
    """
    settings = split_settings(properties, **options)
    if "target_size" in options or not ADAPTIVE_SPLIT_SIZE.read(properties):
        return settings
    size = adjusted_split_size(total, parallelism, settings.target_size)
    return replace(settings, target_size=even_split_size(total, parallelism, size))


def even_split_size(total: int, parallelism: int, size: int) -> int:
    """The split size, at most `size`, with which all tasks end at about the same time.

    Two executors need as long for three splits as for four, so files are split into four smaller ones.

    >>> even_split_size(344, 2, 128), even_split_size(512, 2, 128), even_split_size(100, 2, 128)
    (86, 128, 128)
    """
    rounds = -(-total // (size * parallelism))
    return size if rounds <= 1 else -(-total // (rounds * parallelism))


def split_files(
    files: pa.Table,
    storage: Storage,
    constants: Sequence[Field],
    size: int,
    bitmaps: Mapping[str, bytes] | None = None,
) -> FileSplits:
    """The splits of the files of a plan, with their constants; `bitmaps` are the deleted rows of files, by path.

    Raises `UnsupportedFeature` for encrypted files.
    """
    _check_unencrypted(files)
    urls = hadoop_urls(storage, files["file_path"].combine_chunks())
    columns = [constant_column(files, field, bitmaps) for field in constants]
    sizes = np.asarray(files["file_size_in_bytes"].to_numpy())
    large = np.flatnonzero(sizes > size)
    if not large.size:
        return FileSplits(urls, np.zeros_like(sizes), sizes, sizes, columns)
    offsets_of_files = files["split_offsets"].take(pa.array(large)).to_pylist()
    pairs = zip(sizes[large].tolist(), offsets_of_files, strict=True)
    splits = [list(_split_file(length, offsets, size)) for length, offsets in pairs]
    counts = np.ones_like(sizes)
    counts[large] = [len(file_splits) for file_splits in splits]
    origin = np.repeat(np.arange(len(sizes)), counts)
    begins, lengths = np.zeros_like(origin), sizes[origin]
    is_split = np.isin(origin, large)
    bounds = np.array([split for file_splits in splits for split in file_splits], np.int64)
    begins[is_split], lengths[is_split] = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    order = pa.array(origin)
    return FileSplits(urls.take(order), begins, lengths, sizes[origin], [column.take(order) for column in columns])


def _check_unencrypted(files: pa.Table) -> None:
    """Raise `UnsupportedFeature` if a file is encrypted: Spark's reader would not get the key."""
    keys = files["key_metadata"]
    if keys.null_count < len(files):
        first = files["file_path"].filter(pc.is_valid(keys))[0].as_py()
        raise UnsupportedFeature("the file is encrypted, and encrypted tables cannot be read yet", file=first)


def _split_file(length: int, offsets: Sequence[int] | None, size: int) -> Iterator[tuple[int, int]]:
    """The first and last offset of each split of a file of `length` bytes, at row groups if their offsets are known."""
    inside = [offset for offset in offsets or () if 0 < offset < length]
    are_valid = inside == sorted(set(inside)) and len(inside) > 0
    begin = last = 0
    for offset in [*(inside if are_valid else range(size, length, size)), length]:
        if offset - begin > size and last > begin:
            yield begin, last
            begin = last
        last = offset
    yield begin, length


def hadoop_urls(storage: Storage, paths: pa.StringArray) -> pa.Array:
    """The URLs of files in Hadoop's spelling.

    Nearly all files of a table are below one folder and have plain names, so only the URL of the folder is computed,
    and names are appended. If locations differ in scheme or authority (`file:/` and `file:///`, several buckets), this
    is done for each of them, because a common prefix of locations is a folder only after scheme and authority.

    >>> from floe.storage.local import LocalStorage
    >>> hadoop_urls(LocalStorage(), pa.array(["file:/wh/a", "file:///wh/b", "s3://b1/c", "s3://b2/d"])).to_pylist()
    ['file:/wh/a', 'file:/wh/b', 's3://b1/c', 's3://b2/d']
    """
    if not len(paths):
        return paths
    ends = pc.min_max(paths)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    root = _root(first)
    if _root(last) != root:
        return _urls_by_root(storage, paths)
    prefix = os.path.commonprefix([first, last])  # noqa: RUF071 (a prefix of characters is meant)
    folder = prefix[: prefix.rfind("/") + 1]
    names = pc.utf8_slice_codeunits(paths, max(0, len(folder) - 1))  # with the slash before them
    relative = pc.match_substring_regex(names, _RELATIVE_NAME)
    plain = pc.and_(pc.match_substring_regex(names, _PLAIN_NAME), pc.invert(relative))
    is_mapped = _has_prefix_below(storage, folder)
    check_allowed(
        storage,
        paths.to_pylist,
        lambda: () if is_mapped or pc.any(relative).as_py() else _covering_folders(folder, paths),
    )
    if len(folder) <= len(root) or is_mapped:
        plain = pa.array(np.zeros(len(paths), np.bool_))
    base = _url(storage, folder).removesuffix("/") if pc.any(plain).as_py() else ""
    urls = pc.binary_join_element_wise(pa.scalar(base), names, pa.scalar(""))
    if pc.all(plain).as_py():
        return urls
    quoted = [_url(storage, path) for path in paths.filter(pc.invert(plain)).to_pylist()]
    return pc.replace_with_mask(urls, pc.invert(plain), pa.array(quoted, pa.string()))


def _urls_by_root(storage: Storage, paths: pa.StringArray) -> pa.Array:
    """The URLs of files whose locations differ in scheme or authority."""
    roots = pc.struct_field(pc.extract_regex(paths, _ROOT), "root")
    urls = paths
    for root in pc.unique(roots):
        chosen = pc.equal(roots, root)
        urls = pc.replace_with_mask(urls, chosen, hadoop_urls(storage, paths.filter(chosen)))
    return urls


def _root(path: str) -> str:
    """The scheme and authority of a location, as they are spelled."""
    match = re.match(_ROOT, path)
    return match["root"] if match else ""


def _covering_folders(folder: str, paths: pa.StringArray) -> Iterator[list[str]]:
    """The common folder of all files, and then, if access to it is not allowed, the folder of each file."""
    if folder:
        yield [folder]
    folders = pc.list_element(pc.split_pattern(paths, "/", max_splits=1, reverse=True), 0).unique().to_pylist()
    yield [parent or "/" for parent in folders]


def _url(storage: Storage, location: str) -> str:
    return quote(hadoop_path(actual_location(storage, location)), safe=_URL_CHARACTERS)


def _has_prefix_below(storage: Storage, folder: str) -> bool:
    """Whether some files below a folder have prefixes that the storage maps to other locations."""
    return any(is_below(prefix, folder) for layer in _prefix_maps(storage) for prefix in layer.prefixes)


def _prefix_maps(storage: Storage) -> Iterator[PrefixMap]:
    layer: Any = storage
    while layer is not None:
        if isinstance(layer, PrefixMap):
            yield layer
        layer = getattr(layer, "storage", None)


def actual_location(storage: Storage, location: str) -> str:
    """The location of a file in the store: the recorded location with the storage's prefix maps applied."""
    for layer in _prefix_maps(storage):
        location = layer.actual(location)
    return location


def hadoop_path(location: str) -> str:
    """A location in Hadoop's spelling.

    >>> hadoop_path("/wh/t"), hadoop_path("file:///wh/t"), hadoop_path("s3://b/t")
    ('file:/wh/t', 'file:/wh/t', 's3://b/t')
    """
    parsed: Location = parse(location)
    return f"file:{parsed.path}" if parsed.scheme == "file" else location
