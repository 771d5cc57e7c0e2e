"""The files that `floe load` reads: found, recognised by name, and opened as streams of Arrow batches.

| format | file names |
|---|---|
| Parquet, ORC, Avro | `.parquet`, `.orc`, `.avro` |
| CSV | `.csv`, `.tsv`, also compressed: `.csv.gz`, `.csv.zst`, … |
| JSON: an object on each line, or a list of objects | `.jsonl`, `.ndjson`, `.json`, also compressed |

A folder stands for the files of these names in it, at any depth; hidden files and those named `_…` are left out.
`-` is standard input.
"""

from __future__ import annotations

import glob
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeAlias, cast

import pyarrow as pa
from pyarrow import orc, parquet

from floe.cli.work.text_sources import ReadStream, TextOptions, open_csv, open_json_lines
from floe.errors import CorruptFile, FloeError, InvalidInput, NoSuchFile
from floe.formats.arrow_types import arrow_schema
from floe.formats.avro_data.blocks import read_header
from floe.formats.orc.streams import StripeStreams, check_streams
from floe.formats.orc.tail import read_tail
from floe.formats.registry import default_registry
from floe.spec.codecs.avro_reading import avro_file_fields, avro_to_type, parse_avro_schema
from floe.spec.schemas.file_fields import has_ids
from floe.spec.schemas.name_mapping import mapping_from_schema
from floe.spec.schemas.schema import Schema, assign_fresh_type_ids
from floe.spec.types import StructType
from floe.storage.opening import open_storage
from floe.storage.protocol import Storage

__all__ = ["FORMATS", "STDIN", "Source", "find_files", "format_of", "open_source"]

STDIN: Final = "-"
FORMATS: Final = ("parquet", "orc", "avro", "csv", "jsonl")
_TEXTS: Final = ("csv", "jsonl")
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


@dataclass
class Source:
    """A file that is open: its columns, its batches (to be taken once), and how far they have come."""

    name: str
    schema: pa.Schema
    batches: Batches
    size: int
    done: Callable[[], int]
    """How many of its bytes have been read, about."""

    close: Callable[[], None]
    """Lets go of the file; what comes of standard input is left open."""


def find_files(given: Sequence[str], format_: str | None = None) -> list[str]:
    """The files that names, patterns and folders mean, each once, in order.

    >>> find_files(["no-such-*.csv"])
    Traceback (most recent call last):
    floe.errors.NoSuchFile: no file is named no-such-*.csv; ...
    """
    found: dict[str, None] = {}
    for name in given:
        path = os.path.expanduser(name)
        if name == STDIN or _SCHEME.match(name) or os.path.isfile(path):
            matches = [name if name == STDIN else path]
        elif os.path.isdir(path):
            matches = list(_in_folder(path, format_))
        else:
            matches = sorted(glob.glob(path, recursive=True))
        if not matches:
            raise NoSuchFile(
                f"no file is named {name}", hint="give files, a pattern in quotes, a folder with data files, or -"
            )
        found |= dict.fromkeys(matches)
    return list(found)


def format_of(name: str, format_: str | None = None) -> str:
    """The format of a file, by its name unless told.

    >>> format_of("a/orders.csv.gz"), format_of("x.dat", "orc")
    ('csv', 'orc')
    """
    known = format_ or _SUFFIXES.get(_suffix(name))
    if known is None:
        raise InvalidInput(
            "standard input does not say what it is" if name == STDIN else f"{name} does not say what it is",
            hint=f"say it with --format: {', '.join(FORMATS)}",
        )
    return known


def open_source(name: str, format_: str | None, columns: Schema | None, options: TextOptions) -> Source:
    """Open a file; text is read as the types of `columns`, where they are known."""
    kind = format_of(name, format_)
    with _readable(name, kind):
        return _opened(name, kind, columns, options)


@contextmanager
def _readable(name: str, kind: str) -> Iterator[None]:
    """What cannot be read is no file of that kind, or a damaged one; errors of the storage pass."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise CorruptFile(f"not a {kind} file, or damaged: {str(error)[:300]}", file=name) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise CorruptFile(f"not a {kind} file, or damaged: {str(error)[:300]}", file=name) from None
    except FloeError as error:
        raise error.with_context(file=name) from None


def _opened(name: str, kind: str, columns: Schema | None, options: TextOptions) -> Source:
    storage, size = (None, 0) if name == STDIN else _stored(name)
    stream = cast(BinaryIO, sys.stdin.buffer) if storage is None else storage.open_read(name)
    close = _nothing if storage is None else stream.close
    if storage is None and kind not in _TEXTS:
        stream, size = _spooled(stream)
        close = stream.close
    try:
        if kind in _TEXTS:
            return _text(name, kind, stream, size, close, columns, options)
        if kind == "avro":
            schema, batches, rows = *_avro(name, stream, storage), 0
        elif kind == "orc":
            schema, batches, rows = _orc(stream, size)
        else:
            schema, batches, rows = _parquet(stream)
    except BaseException:
        close()
        raise
    return _by_rows(name, kind, schema, batches, rows, size, close)


def _nothing() -> None:
    """Standard input is not ours to close."""


def _text(
    name: str,
    kind: str,
    stream: BinaryIO,
    size: int,
    close: Callable[[], None],
    columns: Schema | None,
    options: TextOptions,
) -> Source:
    if name.endswith(".tsv"):
        options = TextOptions("\t", options.nulls, options.titles)
    counted = _Counted(stream)
    opened = (open_csv if kind == "csv" else open_json_lines)(name, _decompressed(name, counted), columns, options)
    return Source(name, *opened, size, lambda: counted.taken, close)


def _by_rows(
    name: str, kind: str, schema: pa.Schema, batches: Batches, rows: int, size: int, close: Callable[[], None]
) -> Source:
    """A source whose progress is told by its rows, of which it knows the number."""
    taken = 0

    def counted() -> Batches:
        nonlocal taken
        while True:
            with _readable(name, kind):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)  # text that is text, decimals with as many digits as they may have
            yield batch
            taken += batch.num_rows

    return Source(name, schema, counted(), size, lambda: size * taken // rows if rows else 0, close)


def _parquet(stream: BinaryIO) -> tuple[pa.Schema, Batches, int]:
    file = parquet.ParquetFile(stream, page_checksum_verification=True)
    return file.schema_arrow, file.iter_batches(_BATCH_ROWS), file.metadata.num_rows


def _orc(stream: BinaryIO, size: int) -> tuple[pa.Schema, Batches, int]:
    tail = read_tail(stream, size)
    file = orc.ORCFile(stream)

    def stripes() -> Batches:
        for number, stripe in enumerate(tail.stripes):
            check_streams(StripeStreams(stream, tail, stripe), tail.nodes)
            yield file.read_stripe(number)

    return file.schema, stripes(), file.nrows


def _avro(name: str, stream: BinaryIO, storage: Storage | None) -> tuple[pa.Schema, Batches]:
    document = parse_avro_schema(read_header(stream).schema_text)
    type_ = avro_to_type(document)
    named = not has_ids(avro_file_fields(document))
    if named:
        type_, _ = assign_fresh_type_ids(type_, next_id=1)
    assert isinstance(type_, StructType)
    schema = Schema(type_.fields)
    if storage is None:
        name, storage = f"memory:{STDIN}", open_storage("memory:")
        stream.seek(0)
        storage.write(name, stream.read())
    reading = default_registry().read("avro", "arrow", storage, name).project(schema)
    if named:
        reading = reading.name_mapping(mapping_from_schema(schema))
    return arrow_schema(schema), iter(reading)


def _stored(name: str) -> tuple[Storage, int]:
    storage = open_storage(name)
    return storage, storage.stat(name).size


def _spooled(stream: BinaryIO) -> tuple[BinaryIO, int]:
    """What comes from a pipe, as a file in which one can go back and forth."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it is read until the program ends)
    while block := stream.read(2**20):
        spool.write(block)
    size = spool.tell()
    spool.seek(0)
    return cast(BinaryIO, spool), size


def _decompressed(name: str, stream: Any) -> Any:
    codec = _COMPRESSION.get(os.path.splitext(name)[1].lower())
    file = pa.PythonFile(stream, mode="r")
    return file if codec is None else pa.CompressedInputStream(file, codec)


class _Counted(ReadStream):
    """A stream that knows how much was taken of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.taken += len(data)
        return data


def _suffix(name: str) -> str:
    base, last = os.path.splitext(name.lower())
    return os.path.splitext(base)[1] if last in _COMPRESSION else last


def _in_folder(folder: str, format_: str | None) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(files):
            if name[0] not in "._" and (kind := _SUFFIXES.get(_suffix(name))) and kind == (format_ or kind):
                yield os.path.join(place, name)
