"""The registry of format models: the file formats that can be read and written, in each object model.

Tables are read and written with `default_registry`, which has Floe's models: Parquet, ORC and Avro as Arrow record
batches and as plain rows. Another package adds a format or an object model by a call of `register`, or by an entry
point in the group `floe.formats`, which is found in every process that has the package installed:

```toml
[project.entry-points."floe.formats"]
lance = "floe_lance:LanceAsArrow"
```

The name of the entry point is that of the file format. It refers to a format model, or to a class or function without
arguments that returns one.

>>> formats = default_registry()
>>> formats.model("parquet", "arrow").file_format
'parquet'
>>> formats.model("lance", "arrow")
Traceback (most recent call last):
floe.errors.UnsupportedFeature: there is no model of lance files as arrow; known are ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from floe.errors import InvalidInput, InvalidSettings, UnsupportedFeature
from floe.formats.appender import ArrowAppender
from floe.formats.avro.reader import read_avro
from floe.formats.avro.writer import AvroAppender
from floe.formats.model import (
    EqualityDeleteBuilder,
    Feature,
    FormatModel,
    ReadBuilder,
    ReadRequest,
    WriteBuilder,
    WriteRequest,
    data_writer,
    equality_delete_writer,
    position_delete_writer,
)
from floe.formats.orc.reader import read_orc
from floe.formats.orc.writer import OrcAppender
from floe.formats.parquet.reader import read_parquet
from floe.formats.parquet.writer import ParquetAppender
from floe.formats.puffin import PuffinReader, PuffinWriter
from floe.formats.rows import AsRows
from floe.plugins import load_entry_point
from floe.spec.manifests.entries import ENTRY_POINT_GROUP, DataFile, add_file_format
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.name_mapping import mapping_from_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType
from floe.storage.protocol import Storage

# Floe's models --------------------------------------------------------------------------------------------------------


class AvroAsArrow:
    """Avro files as `pyarrow.RecordBatch`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> model = AvroAsArrow()
    >>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
    ...     file.write(pa.record_batch({"id": [1, 2]}))
    >>> file.close().record_count
    2
    >>> [batch.num_rows for batch in model.read(ReadRequest(storage=storage, location="memory:a", schema=schema))]
    [2]
    """

    file_format = "avro"
    object_model = "arrow"
    lacks: Mapping[Feature, str] = MappingProxyType(
        {
            Feature.REUSE: "Arrow batches never change",
            Feature.FILTER: "Avro has no statistics",
            Feature.COLUMN_SIZES: "Avro stores rows, not columns",
            Feature.SPLIT_OFFSETS: "blocks are found wherever a split begins",
        }
    )
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Read the requested rows and columns of a file."""
        return read_avro(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """Open a new file to write batches to."""
        return AvroAppender(request)

    def __repr__(self) -> str:
        return "AvroAsArrow()"


class OrcAsArrow:
    """ORC files as `pyarrow.RecordBatch`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> model = OrcAsArrow()
    >>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
    ...     file.write(pa.record_batch({"id": [1, 2]}))
    >>> file.close().record_count
    2
    >>> [batch.num_rows for batch in model.read(ReadRequest(storage=storage, location="memory:a", schema=schema))]
    [2]
    """

    file_format = "orc"
    object_model = "arrow"
    lacks: Mapping[Feature, str] = MappingProxyType(
        {
            Feature.REUSE: "Arrow batches never change",
            Feature.LAST_SECOND: "ORC's readers read them as a second later",
        }
    )
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Read the requested rows and columns of a file."""
        return read_orc(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """Open a new file to write batches to."""
        return OrcAppender(request)

    def __repr__(self) -> str:
        return "OrcAsArrow()"


class ParquetAsArrow:
    """Parquet files as `pyarrow.RecordBatch`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> model = ParquetAsArrow()
    >>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
    ...     file.write(pa.record_batch({"id": [1, 2]}))
    >>> file.close().record_count
    2
    >>> [batch.num_rows for batch in model.read(ReadRequest(storage=storage, location="memory:a", schema=schema))]
    [2]
    """

    file_format = "parquet"
    object_model = "arrow"
    lacks: Mapping[Feature, str] = MappingProxyType({Feature.REUSE: "Arrow batches never change"})
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Read the requested rows and columns of a file."""
        return read_parquet(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """Open a new file to write batches to."""
        return ParquetAppender(request)

    def __repr__(self) -> str:
        return "ParquetAsArrow()"


# The registry ---------------------------------------------------------------------------------------------------------


class Registry:
    """Format models by file format and object model; with `entry_points`, those of installed packages too."""

    def __init__(self, models: Iterable[FormatModel[Any]] = (), *, entry_points: bool = False) -> None:
        self._entry_points = entry_points
        self._models: dict[tuple[str, str], FormatModel[Any]] = {}
        self._registered: dict[tuple[str, str], FormatModel[Any]] = {}
        for model in models:
            self._add(model)

    def register(self, model: FormatModel[Any], *, replace: bool = False) -> None:
        """Add a model; `InvalidInput` if its format and object model have one already, unless `replace` is set."""
        key = (model.file_format.lower(), model.object_model)
        if key in self._models and not replace:
            raise InvalidInput(
                f"there is a model of {key[0]} files as {key[1]} already: {self._models[key]!r}",
                hint="pass replace=True to replace it",
            )
        self._add(model)
        self._registered[key] = model

    def _add(self, model: FormatModel[Any]) -> None:
        file_format = model.file_format.lower()
        self._models[file_format, model.object_model] = model
        add_file_format(file_format)

    def unregister(self, file_format: str, object_model: str) -> None:
        """Remove a model; nothing happens if it is not registered."""
        key = (file_format.lower(), object_model)
        self._models.pop(key, None)
        self._registered.pop(key, None)

    @property
    def registered_models(self) -> tuple[FormatModel[Any], ...]:
        """The models that a program has added by `register`; other processes find neither them nor their formats."""
        return tuple(self._registered.values())

    def has_format(self, file_format: str) -> bool:
        """Whether some object model has a model of a file format."""
        self._load(file_format.lower())
        return any(name == file_format.lower() for name, _ in self._models)

    def model(self, file_format: str, object_model: str) -> FormatModel[Any]:
        """The model of a file format in an object model; raises `UnsupportedFeature` without one.

        The name of the format is not case-sensitive.
        """
        key = (file_format.lower(), object_model)
        if key not in self._models:
            self._load(key[0])
        model = self._models.get(key)
        if model is None:
            names = ", ".join(f"{name} as {kind}" for name, kind in sorted(self._models))
            raise UnsupportedFeature(
                f"there is no model of {file_format.lower()} files as {object_model}",
                hint=f"known are {names or 'none'}; others can be registered",
            )
        return model

    def _load(self, file_format: str) -> None:
        """Register the model of an installed package for a format that has none."""
        if not self._entry_points or any(name == file_format for name, _ in self._models):
            return
        loaded = load_entry_point(ENTRY_POINT_GROUP, file_format)
        if loaded is None:
            return
        model = loaded if isinstance(loaded, FormatModel) and not isinstance(loaded, type) else loaded()
        if not isinstance(model, FormatModel) or model.file_format.lower() != file_format:
            raise InvalidSettings(
                f"the entry point {file_format!r} of {ENTRY_POINT_GROUP} is not a model of {file_format} files",
                hint="update the package that provides it",
                found=repr(model),
            )
        self._add(model)

    def __iter__(self) -> Iterator[FormatModel[Any]]:
        return iter(tuple(self._models.values()))

    def __len__(self) -> int:
        return len(self._models)

    def read(self, file_format: str, object_model: str, storage: Storage, location: str) -> ReadBuilder[Any]:
        """A builder of a read of a file."""
        return ReadBuilder(self.model(file_format, object_model), storage, location)

    def write_data(self, file_format: str, object_model: str, storage: Storage, location: str) -> WriteBuilder[Any]:
        """A builder of a new data file."""
        return data_writer(self.model(file_format, object_model), storage, location)

    def write_equality_deletes(
        self, file_format: str, object_model: str, storage: Storage, location: str
    ) -> EqualityDeleteBuilder[Any]:
        """A builder of a new equality delete file."""
        return equality_delete_writer(self.model(file_format, object_model), storage, location)

    def write_position_deletes(
        self, file_format: str, object_model: str, storage: Storage, location: str, *, row: StructType | None = None
    ) -> WriteBuilder[Any]:
        """A builder of a new position delete file, with the deleted rows if their type is given."""
        return position_delete_writer(self.model(file_format, object_model), storage, location, row)

    def read_puffin(self, storage: Storage, location: str, *, file_size: int | None = None) -> PuffinReader:
        """A reader of a Puffin file, which has deletion vectors or statistics instead of rows."""
        return PuffinReader(storage, location, file_size=file_size)

    def write_puffin(
        self, storage: Storage, location: str, *, overwrite: bool = False, properties: Mapping[str, str] | None = None
    ) -> PuffinWriter:
        """A writer of a new Puffin file for deletion vectors or statistics."""
        return PuffinWriter(storage, location, overwrite=overwrite, properties=properties)


@cache
def default_registry() -> Registry:
    """The registry that tables are read and written with, one for the process: Floe's models and those added to it.

    Floe has models of Parquet, ORC and Avro files, each as Arrow batches and as plain rows.

    >>> sorted((model.file_format, model.object_model) for model in default_registry())[-2:]
    [('parquet', 'arrow'), ('parquet', 'rows')]
    """
    arrow_models: tuple[FormatModel[Any], ...] = (AvroAsArrow(), OrcAsArrow(), ParquetAsArrow())
    return Registry((*arrow_models, *(AsRows(model) for model in arrow_models)), entry_points=True)


def read_position_deletes(
    formats: Registry,
    storage: Storage,
    file: DataFile,
    schema: Schema | None = None,
    *,
    trust_manifest: bool = True,
    properties: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a position delete file: by default their paths and positions, else the columns of `schema`.

    Columns are found by field id, or by name in a file without ids (spec: Position Delete Files). `properties` are the
    table's. Raises `CorruptFile` if the file contradicts its manifest entry; with `trust_manifest=False`, the entry is
    ignored.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage, formats = MemoryStorage(), default_registry()
    >>> with formats.write_position_deletes("orc", "rows", storage, "memory:d.orc").build() as file:
    ...     file.write({"file_path": "memory:a.parquet", "pos": 7})
    >>> [batch.to_pylist() for batch in read_position_deletes(formats, storage, file.close())]
    [[{'file_path': 'memory:a.parquet', 'pos': 7}]]
    """
    schema = position_delete_schema() if schema is None else schema
    read = formats.read(file.file_format, "arrow", storage, file.file_path).project(schema)
    read = read.name_mapping(mapping_from_schema(schema)).key_metadata(file.key_metadata, None)
    read = read.properties(properties or {})
    if trust_manifest:
        read = read.facts(file_size=file.file_size_in_bytes, record_count=file.record_count)
    return read.build()
