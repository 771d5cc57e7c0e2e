"""Position deletes read: the paths and positions of delete files in any format, and the positions in vectors.

>>> from floe.formats.registry import default_registry
>>> from floe.spec.manifests.entries import FileContent
>>> from floe.storage.memory import MemoryStorage
>>> storage, formats = MemoryStorage(), default_registry()
>>> with formats.write_position_deletes("orc", "rows", storage, "memory:d.orc").build() as file:
...     file.write({"file_path": "memory:a.parquet", "pos": 7})
>>> [batch.to_pylist() for batch in read_position_deletes(formats, storage, file.close())]
[[{'file_path': 'memory:a.parquet', 'pos': 7}]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyroaring import BitMap64

from floe.errors import CorruptFile, FloeError
from floe.formats.registry import Registry
from floe.spec.codecs.deletion_vectors import deserialize
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.name_mapping import mapping_from_schema
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage


def read_deletion_vector(storage: Storage, vector: DataFile, *, row_count: int | None = None) -> BitMap64:
    """The positions in a deletion vector; CorruptFile unless it has as many as the manifest says, all within the file.

    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.storage.memory import MemoryStorage
    >>> read_deletion_vector(MemoryStorage(), DataFile(FileContent.POSITION_DELETES, "memory:d", "puffin", (), 1, 9))
    Traceback (most recent call last):
    floe.errors.CorruptFile: the manifest does not say where in its file the deletion vector is (file: memory:d)
    """
    offset, length = vector.content_offset, vector.content_size_in_bytes
    if offset is None or length is None:
        raise CorruptFile("the manifest does not say where in its file the deletion vector is", file=vector.file_path)
    try:
        data = storage.read_range(vector.file_path, offset, length)
        return deserialize(data, cardinality=vector.record_count, row_count=row_count)
    except FloeError as error:
        raise error.with_context(file=vector.file_path) from None


def read_position_deletes(
    formats: Registry,
    storage: Storage,
    file: DataFile,
    wanted: Schema | None = None,
    *,
    trusting: bool = True,
    properties: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a position delete file, by default their paths and positions.

    What the manifest says about the file has to be true, unless it is not to be trusted. Columns are found by field id,
    or by their names where the file has no ids (spec: Position Delete Files). The properties are the table's.
    """
    wanted = position_delete_schema() if wanted is None else wanted
    reading = formats.read(file.file_format, "arrow", storage, file.file_path).project(wanted)
    reading = reading.name_mapping(mapping_from_schema(wanted)).key_metadata(file.key_metadata, None)
    reading = reading.properties(properties or {})
    if trusting:
        reading = reading.facts(file_size=file.file_size_in_bytes, record_count=file.record_count)
    return reading.build()
