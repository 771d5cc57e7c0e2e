"""The registry of format models: which file formats can be read and written as what.

`default_registry` knows Floe's own. A third party adds a format, or an object model, with one call:

>>> formats = default_registry()
>>> formats.model("parquet", "arrow").file_format
'parquet'
>>> formats.model("lance", "arrow")
Traceback (most recent call last):
floe.errors.UnsupportedFeature: there is no model of lance files as arrow; known are ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.arrow_models import AvroAsArrow, OrcAsArrow, ParquetAsArrow
from floe.formats.builders import (
    DeleteKeys,
    ReadBuilder,
    WriteBuilder,
    data_writer,
    equality_delete_writer,
    position_delete_writer,
)
from floe.formats.model import FormatModel
from floe.formats.puffin import PuffinReader, PuffinWriter
from floe.formats.rows import AsRows
from floe.spec.types import StructType
from floe.storage.protocol import Storage


class Registry:
    """Format models by file format and object model."""

    def __init__(self, models: Iterable[FormatModel[Any]] = ()) -> None:
        self._models: dict[tuple[str, str], FormatModel[Any]] = {}
        for model in models:
            self.register(model)

    def register(self, model: FormatModel[Any], *, replace: bool = False) -> None:
        """Add a model; one that is there already is kept, and an error raised, unless it is to be replaced."""
        key = (model.file_format.lower(), model.object_model)
        if key in self._models and not replace:
            raise InvalidInput(
                f"there is a model of {key[0]} files as {key[1]} already: {self._models[key]!r}",
                hint="pass replace=True to put this one in its place",
            )
        self._models[key] = model

    def model(self, file_format: str, object_model: str) -> FormatModel[Any]:
        """The model of a file format, whatever the case of its name, in an object model."""
        found = self._models.get((file_format.lower(), object_model))
        if found is None:
            known = ", ".join(f"{name} as {kind}" for name, kind in sorted(self._models))
            raise UnsupportedFeature(
                f"there is no model of {file_format.lower()} files as {object_model}",
                hint=f"known are {known or 'none'}; others can be registered",
            )
        return found

    def __iter__(self) -> Iterator[FormatModel[Any]]:
        return iter(tuple(self._models.values()))

    def __len__(self) -> int:
        return len(self._models)

    def read(self, file_format: str, object_model: str, storage: Storage, location: str) -> ReadBuilder[Any]:
        """The builder that reads a file."""
        return ReadBuilder(self.model(file_format, object_model), storage, location)

    def write_data(self, file_format: str, object_model: str, storage: Storage, location: str) -> WriteBuilder[Any]:
        """The builder that writes a data file."""
        return data_writer(self.model(file_format, object_model), storage, location)

    def write_equality_deletes(
        self, file_format: str, object_model: str, storage: Storage, location: str
    ) -> DeleteKeys[Any]:
        """The builder that writes a file of equality deletes."""
        return equality_delete_writer(self.model(file_format, object_model), storage, location)

    def write_position_deletes(
        self, file_format: str, object_model: str, storage: Storage, location: str, *, row: StructType | None = None
    ) -> WriteBuilder[Any]:
        """The builder that writes a file of position deletes, with the deleted rows if their type is given."""
        return position_delete_writer(self.model(file_format, object_model), storage, location, row)

    def read_puffin(self, storage: Storage, location: str, *, file_size: int | None = None) -> PuffinReader:
        """A Puffin file, which holds deletion vectors or statistics in place of rows."""
        return PuffinReader(storage, location, file_size=file_size)

    def write_puffin(
        self, storage: Storage, location: str, *, overwrite: bool = False, properties: Mapping[str, str] | None = None
    ) -> PuffinWriter:
        """A new Puffin file for deletion vectors or statistics."""
        return PuffinWriter(storage, location, overwrite=overwrite, properties=properties)


def default_registry() -> Registry:
    """A new registry with Floe's own models: each format as Arrow batches and as plain rows.

    >>> sorted((model.file_format, model.object_model) for model in default_registry())[-2:]
    [('parquet', 'arrow'), ('parquet', 'rows')]
    """
    own: tuple[FormatModel[Any], ...] = (AvroAsArrow(), OrcAsArrow(), ParquetAsArrow())
    return Registry((*own, *(AsRows(model) for model in own)))
