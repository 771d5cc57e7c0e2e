"""The files that `floe load` reads: which they are, their formats, and their rows as one stream of Arrow batches.

| format | file names |
|---|---|
| Parquet, ORC, Avro | `.parquet`, `.orc`, `.avro` |
| CSV | `.csv`, `.tsv`, also compressed: `.csv.gz`, `.csv.zst`, … |
| JSON: an object on each line, or a list of objects | `.jsonl`, `.ndjson`, `.json`, also compressed |

A folder means the files of these names in it, at any depth, without hidden files and those named `_…`. `-` is standard
input.
"""

from __future__ import annotations

import glob
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, TypeAlias, cast

import pyarrow as pa
from pyarrow import orc, parquet

from floe.cli.input_text import ForwardStream, TextOptions, open_csv, open_json_lines
from floe.errors import CorruptFile, FloeError, InvalidInput, InvalidSchema, InvalidValue, NoSuchFile
from floe.formats.avro.reader import read_header
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.orc.streams import StripeStreams, check_streams
from floe.formats.orc.tail import read_tail
from floe.formats.registry import default_registry
from floe.show.progress import Advance, progress_bar
from floe.spec.codecs.avro_schemas import avro_file_fields, avro_to_type, parse_avro_schema
from floe.spec.schemas.name_mapping import has_ids, mapping_from_schema
from floe.spec.schemas.schema import Schema, assign_fresh_type_ids
from floe.spec.types import StructType
from floe.sql.columns import parse_columns
from floe.storage.protocol import Storage
from floe.storage.schemes import open_storage

STDIN: Final = "-"
FORMATS: Final = ("parquet", "orc", "avro", "csv", "jsonl")
_TEXT_FORMATS: Final = ("csv", "jsonl")
_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".avro": "avro",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_COMPRESSION: Final = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_BATCH_ROWS: Final = 65_536

Batches: TypeAlias = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class InputFiles:
    """Files to load, and how to read them."""

    names: Sequence[str]
    format_: str | None = None
    """The format of all of them; None: by their names."""

    text: TextOptions = field(default_factory=TextOptions)

    @staticmethod
    def find(patterns: Sequence[str], format_: str | None, text: TextOptions) -> InputFiles:
        """The files that names, patterns and folders mean."""
        return InputFiles(find_files(patterns, format_), format_, text)

    def open(self, name: str, columns: Schema | None) -> OpenFile:
        """Open one of the files."""
        return open_file(name, self.format_, columns, self.text)

    def rows(self, columns: Schema | str | None) -> InputRows:
        """The rows of all files; text is read with the types of `columns`, if they are given."""
        return InputRows(self, parse_columns(columns) if isinstance(columns, str) else columns)


class InputRows:
    """The rows of all files as one stream; files without a column of the others have nulls for it."""

    def __init__(self, inputs: InputFiles, columns: Schema | None) -> None:
        self._inputs, self._columns = inputs, columns
        # The first file stays open, as standard input can be opened only once; of the others the schema is read.
        self._first = inputs.open(inputs.names[0], columns)
        self._sizes = [self._first.size]
        schemas = [self._first.schema]
        with self._closing_on_error():
            for name in inputs.names[1:]:
                with closing(inputs.open(name, columns)) as file:
                    schemas.append(file.schema)
                    self._sizes.append(file.size)
            self.schema = _unify(schemas, inputs.names)
        self.count = 0

    @contextmanager
    def reader(self) -> Iterator[pa.RecordBatchReader]:
        """The stream, with a progress bar while it is read."""
        with self._closing_on_error(), progress_bar("loading", sys.stderr) as advance:
            yield pa.RecordBatchReader.from_batches(self.schema, self._batches(advance))
        self._first.close()

    def without_nanoseconds(self) -> None:
        """Read timestamps as microseconds; finer values fail when they are read."""
        self.schema = pa.schema([(column.name, _to_micros(column.type)) for column in self.schema])

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._first.close()
            raise

    def _batches(self, advance: Advance | None) -> Iterator[pa.RecordBatch]:
        finished, total = 0, sum(self._sizes)
        for number, name in enumerate(self._inputs.names):
            with closing(self._inputs.open(name, self._columns) if number else self._first) as file:
                for batch in _checked_batches(file):
                    self.count += batch.num_rows
                    yield _align(batch, self.schema, name)
                    if advance is not None:
                        advance(finished + min(file.bytes_read(), file.size), total, self.count)
            finished += file.size


def _checked_batches(file: OpenFile) -> Batches:
    try:
        yield from file.batches
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FloeError):
            raise
        raise InvalidInput(f"the file cannot be read to its end: {str(error)[:300]}", file=file.name) from None


def _unify(schemas: Sequence[pa.Schema], names: Sequence[str]) -> pa.Schema:
    plain = [pa.schema([(column.name, _plain_type(column.type)) for column in schema]) for schema in schemas]
    for schema, name in zip(plain, names, strict=True):
        if len(set(schema.names)) != len(schema.names):
            repeated = next(column for column in schema.names if schema.names.count(column) > 1)
            raise InvalidSchema(f"there are two columns {repeated!r}", file=name)
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidSchema(
            f"the files do not have the same columns: {str(error)[:300]}", hint="load them one after the other"
        ) from None


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """The type of a column's values, without the dictionary encoding of a file."""
    if pa.types.is_dictionary(type_):
        return _plain_type(type_.value_type)
    return pa.string() if pa.types.is_null(type_) else type_


def _to_micros(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) and type_.unit == "ns" else type_


def _align(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    columns = []
    for target in schema:
        index = batch.schema.get_field_index(target.name)
        column = pa.nulls(batch.num_rows, target.type) if index < 0 else batch.column(index)
        try:
            columns.append(column if column.type == target.type else column.cast(target.type))
        except pa.ArrowInvalid as error:
            hint = None
            if pa.types.is_timestamp(target.type):
                hint = "--format-version 3 has timestamps of nanoseconds"
            raise InvalidValue(str(error)[:300], hint=hint, column=target.name, file=name) from None
    return pa.record_batch(columns, schema=schema)


# One file -------------------------------------------------------------------------------------------------------------


@dataclass
class OpenFile:
    """An open file: its columns, its batches (to be read once), and how much of it was read."""

    name: str
    schema: pa.Schema
    batches: Batches
    size: int
    bytes_read: Callable[[], int]
    """About how many of its bytes have been read."""

    close: Callable[[], None]
    """Closes the file, unless it is standard input."""


def find_files(patterns: Sequence[str], format_: str | None = None) -> list[str]:
    """The files that names, patterns and folders mean, each once, in order.

    >>> find_files(["no-such-*.csv"])
    Traceback (most recent call last):
    floe.errors.NoSuchFile: there is no file no-such-*.csv; ...
    """
    names: dict[str, None] = {}
    for name in patterns:
        path = os.path.expanduser(name)
        if name == STDIN or _SCHEME.match(name) or os.path.isfile(path):
            matches = [name if name == STDIN else path]
        elif os.path.isdir(path):
            matches = list(_in_folder(path, format_))
        else:
            matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise NoSuchFile(
                f"there is no file {name}", hint="give files, a pattern in quotes, a folder with data files, or -"
            )
        names |= dict.fromkeys(matches)
    return list(names)


def format_of(name: str, format_: str | None = None) -> str:
    """The format of a file, by default by its name.

    >>> format_of("a/orders.csv.gz"), format_of("x.dat", "orc")
    ('csv', 'orc')
    """
    file_format = format_ or _SUFFIXES.get(_suffix(name))
    if file_format is None:
        raise InvalidInput(
            "the format of standard input is not known" if name == STDIN else f"the format of {name} is not known",
            hint=f"name it with --format: {', '.join(FORMATS)}",
        )
    return file_format


def open_file(name: str, format_: str | None, columns: Schema | None, options: TextOptions) -> OpenFile:
    """Open a file; text is read with the types of `columns`, if they are given."""
    file_format = format_of(name, format_)
    with _corrupt_if_unreadable(name, file_format):
        return _open(name, file_format, columns, options)


@contextmanager
def _corrupt_if_unreadable(name: str, format_: str) -> Iterator[None]:
    """Report errors of pyarrow as `CorruptFile`; errors of the storage pass."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise CorruptFile(f"not a valid {format_} file: {str(error)[:300]}", file=name) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise CorruptFile(f"not a valid {format_} file: {str(error)[:300]}", file=name) from None
    except FloeError as error:
        raise error.with_context(file=name) from None


def _open(name: str, format_: str, columns: Schema | None, options: TextOptions) -> OpenFile:
    storage, size = (None, 0) if name == STDIN else _stat(name)
    stream = cast(BinaryIO, sys.stdin.buffer) if storage is None else storage.open_read(name)
    close = _keep_open if storage is None else stream.close
    if storage is None and format_ not in _TEXT_FORMATS:
        stream, size = _spool(stream)
        close = stream.close
    try:
        if format_ in _TEXT_FORMATS:
            return _open_text(name, format_, stream, size, close, columns, options)
        if format_ == "avro":
            schema, batches, rows = *_open_avro(name, stream, storage), 0
        elif format_ == "orc":
            schema, batches, rows = _open_orc(stream, size)
        else:
            schema, batches, rows = _open_parquet(stream)
    except BaseException:
        close()
        raise
    return _count_rows(name, format_, schema, batches, rows, size, close)


def _keep_open() -> None:
    """Do nothing, in the place of closing standard input."""


def _open_text(
    name: str,
    format_: str,
    stream: BinaryIO,
    size: int,
    close: Callable[[], None],
    columns: Schema | None,
    options: TextOptions,
) -> OpenFile:
    if name.endswith(".tsv"):
        options = TextOptions("\t", options.nulls, options.header)
    counted = _CountingStream(stream)
    open_format = open_csv if format_ == "csv" else open_json_lines
    schema, batches = open_format(name, _decompress(name, counted), columns, options)
    return OpenFile(name, schema, batches, size, lambda: counted.bytes_read, close)


def _count_rows(
    name: str, format_: str, schema: pa.Schema, batches: Batches, rows: int, size: int, close: Callable[[], None]
) -> OpenFile:
    """A file whose progress is measured by its rows; 0 if their number is not known."""
    rows_read = 0

    def counted() -> Batches:
        nonlocal rows_read
        while True:
            with _corrupt_if_unreadable(name, format_):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)  # finds invalid UTF-8, and decimals with too many digits
            yield batch
            rows_read += batch.num_rows

    return OpenFile(name, schema, counted(), size, lambda: size * rows_read // rows if rows else 0, close)


def _open_parquet(stream: BinaryIO) -> tuple[pa.Schema, Batches, int]:
    file = parquet.ParquetFile(stream, page_checksum_verification=True)
    return file.schema_arrow, file.iter_batches(_BATCH_ROWS), file.metadata.num_rows


def _open_orc(stream: BinaryIO, size: int) -> tuple[pa.Schema, Batches, int]:
    tail = read_tail(stream, size)
    file = orc.ORCFile(stream)

    def stripes() -> Batches:
        for number, stripe in enumerate(tail.stripes):
            check_streams(StripeStreams(stream, tail, stripe), tail.nodes)
            yield file.read_stripe(number)

    return file.schema, stripes(), file.nrows


def _open_avro(name: str, stream: BinaryIO, storage: Storage | None) -> tuple[pa.Schema, Batches]:
    document = parse_avro_schema(read_header(stream).schema_text)
    type_ = avro_to_type(document)
    by_name = not has_ids(avro_file_fields(document))
    if by_name:
        type_, _ = assign_fresh_type_ids(type_, next_id=1)
    assert isinstance(type_, StructType)
    schema = Schema(type_.fields)
    if storage is None:
        name, storage = f"memory:{STDIN}", open_storage("memory:")
        stream.seek(0)
        storage.write(name, stream.read())
    builder = default_registry().read("avro", "arrow", storage, name).project(schema)
    if by_name:
        builder = builder.name_mapping(mapping_from_schema(schema))
    return arrow_schema(schema), iter(builder)


def _stat(name: str) -> tuple[Storage, int]:
    storage = open_storage(name)
    return storage, storage.stat(name).size


def _spool(stream: BinaryIO) -> tuple[BinaryIO, int]:
    """Copy a pipe to a temporary file, which can be read at random."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it is read until the process ends)
    while block := stream.read(2**20):
        spool.write(block)
    size = spool.tell()
    spool.seek(0)
    return cast(BinaryIO, spool), size


def _decompress(name: str, stream: Any) -> Any:
    codec = _COMPRESSION.get(os.path.splitext(name)[1].lower())
    file = pa.PythonFile(stream, mode="r")
    return file if codec is None else pa.CompressedInputStream(file, codec)


class _CountingStream(ForwardStream):
    """A stream that counts the bytes that were read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.bytes_read = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.bytes_read += len(data)
        return data


def _suffix(name: str) -> str:
    base, last = os.path.splitext(name.lower())
    return os.path.splitext(base)[1] if last in _COMPRESSION else last


def _in_folder(folder: str, format_: str | None) -> Iterator[str]:
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(files):
            if name[0] not in "._" and (by_name := _SUFFIXES.get(_suffix(name))) and by_name == (format_ or by_name):
                yield os.path.join(path, name)
