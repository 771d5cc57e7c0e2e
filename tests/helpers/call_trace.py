"""Traces of calls: which modules of Floe are entered in this process, also by calls from Spark's JVM to Python."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import floe

SOURCE = Path(floe.__file__).parent


@functools.cache
def module_of(filename: str) -> str | None:
    """The module of a source file, such as `floe.table.scan`; None for files that are not Floe's."""
    path = Path(filename)
    if not path.is_relative_to(SOURCE):
        return None
    return ".".join(("floe", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


@dataclass
class CallTrace:
    """The modules that were entered, in the order of their first call; `entries` has every change of module."""

    calls: int = 0
    modules: dict[str, None] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)

    def record(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call: a profile function, see `sys.setprofile`."""
        if event != "call" or frame.f_code.co_name == "<module>":
            return
        module = module_of(frame.f_code.co_filename)
        if module is None:
            return
        self.calls += 1
        self.modules.setdefault(module)
        if not self.entries or self.entries[-1] != module:
            self.entries.append(module)

    def first_missing(self, chain: list[str]) -> str | None:
        """The first module of `chain` that is not entered after those before it; None if the order is right."""
        entries = iter(self.entries)
        return next((module for module in chain if module not in entries), None)


@contextmanager
def traced() -> Iterator[CallTrace]:
    """Trace this thread, threads that are started meanwhile, and calls from the JVM to Python objects."""
    trace = CallTrace()
    with _traced_callbacks(trace.record):
        threading.setprofile(trace.record)
        sys.setprofile(trace.record)
        try:
            yield trace
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


@contextmanager
def _traced_callbacks(record: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Trace the threads that answer the JVM. They exist already, so `threading.setprofile` does not reach them."""
    if "py4j" not in sys.modules:
        yield
        return
    from py4j.clientserver import ClientServerConnection
    from py4j.java_gateway import CallbackConnection

    originals = {cls: cls._call_proxy for cls in (CallbackConnection, ClientServerConnection)}

    def profiled(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            before = sys.getprofile()
            sys.setprofile(record)
            try:
                return original(*arguments)
            finally:
                sys.setprofile(before)

        return call

    for cls, original in originals.items():
        cls._call_proxy = profiled(original)
    try:
        yield
    finally:
        for cls, original in originals.items():
            cls._call_proxy = original
