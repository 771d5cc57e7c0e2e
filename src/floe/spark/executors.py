"""Work for executors, which says what an executor lacks.

What is pickled names its module, so that without `floe` there the work cannot even be opened, and Python says so in
words that tell nobody what to do. The few lines that open it therefore travel as code, not by name.

What goes to executors: with every task what it needs to know of a table, and on request Floe's own code.

Spark's Python workers made quick: what they do over and over between tasks, though nothing has changed.

Before each task a worker has Python forget what it knows about the places of modules, and Python then reads the
directories of PySpark's archives again, once for each package in them; after each task all objects of all modules are
looked through for garbage. Together that takes 0.14 s of CPU for each task, more than most tasks of a small write.
"""

from __future__ import annotations

import gc
import pickle
import platform
import py_compile
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from zipimport import zipimporter

from pyspark import cloudpickle

import floe
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.local import LocalStorage


class ExecutorFunction:
    """A function that travels to executors, and is looked at there before it is called."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.__name__ = type(work).__name__  # which plans show

    def __call__(self, *given: Any) -> Any:
        """What the function gives."""
        return self._work(*given)

    def __reduce__(self) -> Any:
        return _opened, (pickle.dumps(self._work, protocol=pickle.HIGHEST_PROTOCOL), floe.__version__)


def _opened(pickled: bytes, version: str) -> Any:
    """The function; runs in an executor, where only Python itself is known to be."""

    def lacking(what: str, hint: str) -> Exception:
        kind: Any = type("InvalidSettings", (Exception,), {"__module__": "floe.errors"})  # which may be missing
        made: Exception = kind(f"{sys.executable} on {platform.node()}, an executor, {what}; {hint}")
        return made

    install = "pip install 'floe[spark]' there, or name another Python by PYSPARK_PYTHON"
    try:
        found = import_module("floe")
        if found.__version__ != version:
            raise lacking(
                f"has floe {found.__version__}, and the driver has {version}",
                "install the same there, or send it along: floe.spark(…, ship=True)",
            )
        return pickle.loads(pickled)
    except ModuleNotFoundError as error:
        if error.name == "floe":
            install = f"send it along: floe.spark(…, ship=True), or {install}"
        raise lacking(f"has no package {error.name}", install) from None


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

# What goes to executors: with every task what it needs to know of a table, and on request Floe's own code.

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The oldest time that such an archive knows: equal code makes equal archives."""


def executor_metadata(metadata: TableMetadata) -> TableMetadata:
    """What readers and writers in executors need to know of a table: its layout, not its history."""
    return replace(
        metadata,
        snapshots=(),
        refs={},
        snapshot_log=(),
        metadata_log=(),
        current_snapshot_id=None,
        statistics=(),
        partition_statistics=(),
    )


def ship_code(context: Any) -> None:
    """Send Floe's own code to the executors of a Spark context, now and those that come later."""
    name = f"floe-{floe.__version__}.zip"
    if any(str(path).endswith("/" + name) for path in context.listFiles):
        return
    # executors fetch it whenever they come, so it stays where Spark has what lives as long as the application
    context.addPyFile(str(packed_code(Path(tempfile.mkdtemp(dir=context._temp_dir)) / name)))


def packed_code(target: Path) -> Path:
    """Write Floe's own code as an archive from which Python can import it.

    It has the compiled modules too, for Python does not keep what it compiles of an archive.
    """
    root = Path(floe.__file__).parent
    if not root.is_dir():  # it came in an archive itself
        shutil.copyfile(root.parent, target)
        return target
    storage = LocalStorage()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent)
            archive.writestr(zipfile.ZipInfo(str(name), _EPOCH), storage.read(str(path)), zipfile.ZIP_DEFLATED)
            archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _compiled(path, str(name)), zipfile.ZIP_DEFLATED)
    return target


def _compiled(path: Path, name: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".pyc") as made:
        py_compile.compile(
            str(path),
            cfile=made.name,
            dfile=name,
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        return LocalStorage().read(made.name)  # it has taken the place of the file that was opened


# Spark's Python workers made quick: what they do over and over between tasks, though nothing has changed.

_ARCHIVES = re.compile(r"[/\\](?:pyspark\.zip|py4j-[^/\\]+\.zip|spark-core_[^/\\]+\.jar)(?:[/\\]|$)")
"""The archives of PySpark itself, which do not change while it runs."""

_state = {"settled": False}


def reduce_worker_overhead() -> None:
    """Have this process do less between tasks; to be called by a worker when it has imported what it needs."""
    if _state["settled"]:
        return
    _state["settled"] = True
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and _ARCHIVES.search(place):
            sys.path_importer_cache[place] = _Lasting(finder)
    gc.collect()
    gc.freeze()  # modules are not garbage


class _Lasting:
    """Finds modules in an archive, and does not forget what is in it."""

    def __init__(self, finder: zipimporter) -> None:
        self._finder = finder

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is, as the import system asks."""
        return self._finder.find_spec(name, target)
