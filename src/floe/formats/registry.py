"""The registry of format models: which file formats can be read and written, and as which objects.

`default_registry` has Floe's models, and tables are read and written with it. Another package adds a format, or an
object model, with one call of `register`, or with an entry point in the group `floe.formats`, which any process that
has the package installed finds by itself:

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
from typing import Any

from floe.errors import InvalidInput, InvalidSettings, UnsupportedFeature
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
from floe.plugins import load_entry_point
from floe.spec.manifests.file_formats import ENTRY_POINT_GROUP, add_file_format
from floe.spec.types import StructType
from floe.storage.protocol import Storage


class Registry:
    """Format models by file format and object model; with `entry_points`, those of installed packages too."""

    def __init__(self, models: Iterable[FormatModel[Any]] = (), *, entry_points: bool = False) -> None:
        self._entry_points = entry_points
        self._models: dict[tuple[str, str], FormatModel[Any]] = {}
        for model in models:
            self.register(model)

    def register(self, model: FormatModel[Any], *, replace: bool = False) -> None:
        """Add a model; `InvalidInput` if its format and object model have one already, unless `replace` is set."""
        key = (model.file_format.lower(), model.object_model)
        if key in self._models and not replace:
            raise InvalidInput(
                f"there is a model of {key[0]} files as {key[1]} already: {self._models[key]!r}",
                hint="pass replace=True to replace it",
            )
        self._models[key] = model
        add_file_format(key[0])

    def unregister(self, file_format: str, object_model: str) -> None:
        """Remove a model; nothing happens if it is not registered."""
        self._models.pop((file_format.lower(), object_model), None)

    def has_format(self, file_format: str) -> bool:
        """Whether files of a format can be read and written as any objects."""
        self._load(file_format.lower())
        return any(name == file_format.lower() for name, _ in self._models)

    def model(self, file_format: str, object_model: str) -> FormatModel[Any]:
        """The model of a file format, whatever the case of its name, in an object model."""
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
        offer = load_entry_point(ENTRY_POINT_GROUP, file_format)
        if offer is None:
            return
        model = offer if isinstance(offer, FormatModel) and not isinstance(offer, type) else offer()
        if not isinstance(model, FormatModel) or model.file_format.lower() != file_format:
            raise InvalidSettings(
                f"the entry point {file_format!r} of {ENTRY_POINT_GROUP} is not a model of {file_format} files",
                hint="update the package that offers it",
                found=repr(model),
            )
        self.register(model, replace=True)

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


@cache
def default_registry() -> Registry:
    """The registry that tables are read and written with, one for the process: Floe's models and those added to it.

    Floe has models of Parquet, ORC and Avro files, each as Arrow batches and as plain rows.

    >>> sorted((model.file_format, model.object_model) for model in default_registry())[-2:]
    [('parquet', 'arrow'), ('parquet', 'rows')]
    """
    arrow_models: tuple[FormatModel[Any], ...] = (AvroAsArrow(), OrcAsArrow(), ParquetAsArrow())
    return Registry((*arrow_models, *(AsRows(model) for model in arrow_models)), entry_points=True)
