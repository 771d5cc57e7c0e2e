"""What goes to executors: functions, the metadata that they need, Floe's code on request; and cheaper Python workers.

A pickled function names its module. An executor without `floe` could not even load it, and Python's error would not
say what to do. So the few lines of `_load`, which loads the function and checks what is installed, travel by value.

Between two tasks a Python worker of Spark forgets where modules are, so that Python reads the directories of
PySpark's archives again, and it collects garbage among the objects of all modules. Together that takes 0.14 s of CPU
for each task, more than most tasks of a small write; `reduce_worker_overhead` avoids both.
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
from floe.formats.registry import default_registry
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.local import LocalStorage

# Functions ------------------------------------------------------------------------------------------------------------


class ExecutorFunction:
    """A function for executors; loading it there checks that Floe is installed in the version of the driver.

    Format models that the driver's program has registered travel with it, so that tasks read and write their files.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.__name__ = type(work).__name__  # shown in plans

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self._work(*arguments)

    def __reduce__(self) -> Any:
        models = default_registry().registered_models
        pickled_models = cloudpickle.dumps(models) if models else b""  # type: ignore[no-untyped-call]
        return _load, (pickle.dumps(self._work, protocol=pickle.HIGHEST_PROTOCOL), floe.__version__, pickled_models)


def _load(pickled: bytes, version: str, pickled_models: bytes) -> Any:
    """Load a function; runs in an executor, where nothing but Python itself is certain to be installed."""

    def lacking(what: str, hint: str) -> Exception:
        # floe.errors may be missing too
        error_class: Any = type("InvalidSettings", (Exception,), {"__module__": "floe.errors"})
        error: Exception = error_class(f"{sys.executable} on {platform.node()}, an executor, {what}; {hint}")
        return error

    install = "pip install 'floe[spark]' there, or name another Python by PYSPARK_PYTHON"
    try:
        installed = import_module("floe")
        if installed.__version__ != version:
            raise lacking(
                f"has floe {installed.__version__}, and the driver has {version}",
                "install the same there, or send it along: floe.spark(…, ship=True)",
            )
        if pickled_models:
            registry = import_module("floe.formats.registry").default_registry()
            for model in pickle.loads(pickled_models):
                registry.register(model, replace=True)
        return pickle.loads(pickled)
    except ModuleNotFoundError as error:
        if error.name == "floe":
            install = f"send it along: floe.spark(…, ship=True), or {install}"
        raise lacking(f"has no package {error.name}", install) from None


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def executor_metadata(metadata: TableMetadata) -> TableMetadata:
    """The part of a table's metadata that readers and writers in executors need: its layout, without its history."""
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


# Floe's code ----------------------------------------------------------------------------------------------------------

_OLDEST_ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all members, so that the same code gives the same archive."""


def ship_code(context: Any) -> None:
    """Send Floe's code to the executors of a Spark context, also to those that start later."""
    name = f"floe-{floe.__version__}.zip"
    if any(str(path).endswith("/" + name) for path in context.listFiles):
        return
    # Executors fetch it when they start, so it is kept with the other files of the application.
    context.addPyFile(str(pack_code(Path(tempfile.mkdtemp(dir=context._temp_dir)) / name)))


def pack_code(target: Path) -> Path:
    """Write Floe's code as a ZIP archive that Python can import from, and return its path.

    It contains the compiled modules too, because Python does not cache what it compiles from an archive.
    """
    root = Path(floe.__file__).parent
    if not root.is_dir():  # Floe itself was imported from such an archive
        shutil.copyfile(root.parent, target)
        return target
    storage = LocalStorage()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root.parent)
            source = zipfile.ZipInfo(str(name), _OLDEST_ZIP_TIME)
            archive.writestr(source, storage.read(str(path)), zipfile.ZIP_DEFLATED)
            bytecode = zipfile.ZipInfo(f"{name}c", _OLDEST_ZIP_TIME)
            archive.writestr(bytecode, _compile(path, str(name)), zipfile.ZIP_DEFLATED)
    return target


def _compile(path: Path, name: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".pyc") as file:
        py_compile.compile(
            str(path),
            cfile=file.name,
            dfile=name,
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        return LocalStorage().read(file.name)  # the compiler has replaced the file that is open here


# Python workers -------------------------------------------------------------------------------------------------------

_ARCHIVES = re.compile(r"[/\\](?:pyspark\.zip|py4j-[^/\\]+\.zip|spark-core_[^/\\]+\.jar)(?:[/\\]|$)")
"""The archives of PySpark itself, which do not change while it runs."""

_state = {"reduced": False}


def reduce_worker_overhead() -> None:
    """Make the time between two tasks of this process shorter; a worker calls it after it has imported its modules."""
    if _state["reduced"]:
        return
    _state["reduced"] = True
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and _ARCHIVES.search(path):
            sys.path_importer_cache[path] = _CachedArchive(finder)
    gc.collect()
    gc.freeze()  # the modules stay, so the collector need not look at them again


class _CachedArchive:
    """A finder of modules in an archive without `invalidate_caches`, so that the directory is read once."""

    def __init__(self, finder: zipimporter) -> None:
        self._finder = finder

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The location of a module, for Python's import system."""
        return self._finder.find_spec(name, target)
