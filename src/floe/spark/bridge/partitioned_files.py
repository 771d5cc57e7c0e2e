"""Many files for Spark's own readers, made in one call.

An object of the JVM takes a call or more to make, so that a hundred thousand of them would take minutes. Here the JVM
writes three of them down by its own serialization; the third is a template, which is filled in here as often as there
are files, and the JVM reads the whole. What varies is found by values that occur nowhere else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

from floe.spark.bridge.jvm import Jvm

__all__ = ["FilePart", "partitioned_files", "url_of"]

FilePart = tuple[str, int, int, int, Sequence[str | int]]
"""The URL of a file, where the part begins, how long it is, how long the file is, and what its rows all have."""

_FILES: Final = "org.apache.spark.sql.execution.datasources.PartitionedFile"
_SAFE: Final = "/:@&=+$,;-_.!~*'()"
_BLOCK_DATA, _LONG_BLOCK_DATA = 0x77, 0x7A


def url_of(path: str) -> str:
    """The URL of a path as Hadoop writes it: what may not stand in a URL is escaped.

    >>> url_of("file:/wh/day=2024-01-01/a b%.parquet")
    'file:/wh/day=2024-01-01/a%20b%25.parquet'
    """
    return quote(path, safe=_SAFE)


def partitioned_files(jvm: Jvm, parts: Iterable[FilePart], kinds: Sequence[type]) -> Any:
    """The parts as a Scala sequence of `PartitionedFile`; `kinds` are the types of the constants of their rows."""
    key = ("partitioned files", *kinds)
    template: _Template | None = jvm.remembered.get(key)
    if template is None:
        template = jvm.remembered[key] = _Template(jvm, kinds)
    # the first of the array is a sample, which brings the descriptions of the classes
    source = jvm.named("java.io.ByteArrayInputStream")(bytearray(template.filled(list(parts))))
    found = jvm.named("java.io.ObjectInputStream")(source).readObject()
    files = jvm.module("scala.collection.immutable.ArraySeq").unsafeWrapArray(found).drop(1)
    method, setter = _setting_places(jvm)
    method.invoke(jvm.named("scala.jdk.javaapi.CollectionConverters").asJava(files), setter)
    return files


def _setting_places(jvm: Jvm) -> tuple[Any, Any]:
    """How to give all files of a list no preferred places: serialization leaves them out, and Spark asks for them.

    The function that does it to one file is made of a method handle, so that the loop over the files stays in the JVM.
    """
    made: tuple[Any, Any] | None = jvm.remembered.get("setting places")
    if made is None:
        field = jvm.reflected(_FILES).getDeclaredField("locations")
        field.setAccessible(True)
        handles = jvm.named("java.lang.invoke.MethodHandles")
        one = handles.insertArguments(
            handles.publicLookup().unreflectSetter(field), 1, jvm.array("java.lang.Object", [jvm.strings([])])
        )
        consumer = jvm.reflected("java.util.function.Consumer")
        function = jvm.named("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(consumer, one)
        for_each = jvm.reflected("java.lang.Iterable").getMethod("forEach", jvm.array("java.lang.Class", [consumer]))
        made = jvm.remembered["setting places"] = (for_each, jvm.array("java.lang.Object", [function]))
    return made


class _Template:
    """What the JVM writes for one file, cut where files differ."""

    def __init__(self, jvm: Jvm, kinds: Sequence[type]) -> None:
        samples = [_sample(number, kinds) for number in range(3)]
        raw = _serialized(jvm, jvm.array(_FILES, [_made(jvm, sample) for sample in samples]))
        second, third = (_variables(sample) for sample in samples[1:])
        steps = {raw.find(b) - raw.find(a) for a, b in zip(second, third, strict=True)}
        count = raw.find(struct.pack(">i", len(samples)) + b"sr")
        if len(steps) != 1 or raw.find(third[0]) < 0 or count < 0:
            raise AssertionError("the JVM writes files in a way that is not known")
        step = steps.pop()
        begin = len(raw) - step
        self._head, self._first = raw[:count], raw[count + 4 : begin - step]
        pieces = re.split(b"(" + b"|".join(map(re.escape, third)) + b")", raw[begin:])
        self._steps = [
            _step(before, found, third.index(found)) for before, found in zip(pieces[:-1:2], pieces[1::2], strict=True)
        ]
        self._end = pieces[-1]

    def filled(self, parts: list[FilePart]) -> bytes:
        """The array of these files, behind the first sample, as the JVM would have written it."""
        out = [self._head, struct.pack(">i", len(parts) + 1), self._first]
        add, pack = out.append, struct.pack
        for url, start, length, size, constants in parts:
            values = [
                url.encode(),
                pack(">q", start),
                pack(">q", length),
                pack(">q", size),
                *(one.encode() if isinstance(one, str) else pack(">i", one) for one in constants),
            ]
            for before, width, place in self._steps:
                value = values[place]
                add(before)
                if width == 4:
                    add(pack(">ii", len(value) + 4, len(value)))
                elif width == 2:
                    add(pack(">H", len(value)))
                add(value)
            add(self._end)
        return b"".join(out)


def _step(before: bytes, value: bytes, place: int) -> tuple[bytes, int, int]:
    """What stands before a value, how wide the value's length is that belongs there, and which value it is."""
    size = len(value)
    if not value.startswith(b"file:"):
        return before, 0, place
    if before[-4:] == struct.pack(">i", size) and before[-6:-4] == bytes([_BLOCK_DATA, size + 4]):
        return before[:-6] + bytes([_LONG_BLOCK_DATA]), 4, place  # a text of the rows, in a block of data of its own
    if before[-2:] != struct.pack(">H", size):
        raise AssertionError("the JVM writes texts in a way that is not known")
    return before[:-2], 2, place


def _sample(number: int, kinds: Sequence[type]) -> FilePart:
    constants = [
        f"file:/constant/{place}/{number:02d}" if kind is str else 0x44_44_00_00 + 256 * place + number
        for place, kind in enumerate(kinds)
    ]
    begin, length, size = (0x1111111111111100 * factor + number for factor in (1, 2, 3))
    return f"file:/sample/{number:02d}.parquet", begin, length, size, constants


def _variables(sample: FilePart) -> list[bytes]:
    url, start, length, size, constants = sample
    longs = [struct.pack(">q", number) for number in (start, length, size)]
    return [url.encode(), *longs, *(c.encode() if isinstance(c, str) else struct.pack(">i", c) for c in constants)]


def _made(jvm: Jvm, sample: FilePart) -> Any:
    url, start, length, size, constants = sample
    row = jvm.sql("catalyst.expressions.GenericInternalRow")(len(constants))
    for place, value in enumerate(constants):
        if isinstance(value, str):
            row.update(place, jvm.named("org.apache.spark.unsafe.types.UTF8String").fromString(value))
        else:
            row.setInt(place, value)
    path = jvm.named("org.apache.spark.paths.SparkPath").fromUrlString(url)
    places = jvm.remembered.setdefault("no places", jvm.strings([]))
    nothing = jvm.remembered.setdefault("empty map", jvm.scala_map({}))
    return jvm.named(_FILES)(row, path, start, length, places, 0, size, nothing)


def _serialized(jvm: Jvm, found: Any) -> bytes:
    target = jvm.named("java.io.ByteArrayOutputStream")()
    stream = jvm.named("java.io.ObjectOutputStream")(target)
    stream.writeObject(found)
    stream.close()
    return bytes(target.toByteArray())
