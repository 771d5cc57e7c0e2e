"""Many files for Spark's own readers, made in one call.

An object of the JVM takes a call or more to make, so that a hundred thousand of them would take minutes. Here the JVM
writes three of them down by its own serialization; the third is a template, which is filled in here as often as there
are files, and the JVM reads the whole. What varies is found by values that occur nowhere else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from floe.spark.bridge.jvm import Jvm

__all__ = ["FilePart", "Kind", "partitioned_files", "url_of"]

FilePart = tuple[str, int, int, int, Sequence[str | int | bytes | None]]
"""The URL of a file, where the part begins, how long it is, how long the file is, and what its rows all have."""

Kind = Literal["text", "int", "long", "bytes"]
"""What a constant of the rows of a file is; each may be null."""

_FILES: Final = "org.apache.spark.sql.execution.datasources.PartitionedFile"
_SAFE: Final = "/:@&=+$,;-_.!~*'()"
_BLOCK_DATA, _LONG_BLOCK_DATA, _END_OF_BLOCK = 0x77, 0x7A, 0x78
_OBJECT, _ARRAY, _REFERENCE, _NULL = 0x73, 0x75, 0x71, b"\x70"
_HEADER: Final = 6
"""How many bytes say that an object of a class that has been described follows."""


def url_of(path: str) -> str:
    """The URL of a path as Hadoop writes it: what may not stand in a URL is escaped.

    >>> url_of("file:/wh/day=2024-01-01/a b%.parquet")
    'file:/wh/day=2024-01-01/a%20b%25.parquet'
    """
    return quote(path, safe=_SAFE)


def partitioned_files(jvm: Jvm, parts: Iterable[FilePart], kinds: Sequence[Kind]) -> Any:
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


class _Step(NamedTuple):
    """A value in a template, and what stands around it."""

    before: bytes
    header: bytes
    """What says that a value follows; null has another."""

    width: int
    """How wide the number is that says how long the value is; 0 for values that all have one length."""

    place: int
    after: bytes = b""


class _Template:
    """What the JVM writes for one file, cut where files differ."""

    def __init__(self, jvm: Jvm, kinds: Sequence[Kind]) -> None:
        samples = [_sample(number, kinds) for number in range(3)]
        raw = _serialized(jvm, jvm.array(_FILES, [_made(jvm, sample, kinds) for sample in samples]))
        second, third = (_values(sample, kinds) for sample in samples[1:])
        steps = {raw.find(b) - raw.find(a) for a, b in zip(second, third, strict=True)}
        count = raw.find(struct.pack(">i", len(samples)) + b"sr")
        if len(steps) != 1 or raw.find(third[0]) < 0 or count < 0:
            raise AssertionError("the JVM writes files in a way that is not known")
        step = steps.pop()
        begin = len(raw) - step
        self._kinds = kinds
        self._head, self._first = raw[:count], raw[count + 4 : begin - step]
        pieces = re.split(b"(" + b"|".join(map(re.escape, third)) + b")", raw[begin:])
        self._steps: list[_Step] = []
        for place in range(1, len(pieces), 2):
            found = third.index(pieces[place])
            kind = kinds[found - _OWN] if found >= _OWN else None
            made, rest = _step(pieces[place - 1], found, kind, len(pieces[place]), pieces[place + 1])
            self._steps.append(made)
            pieces[place + 1] = rest
        self._end = pieces[-1]

    def filled(self, parts: list[FilePart]) -> bytes:
        """The array of these files, behind the first sample, as the JVM would have written it."""
        out = [self._head, struct.pack(">i", len(parts) + 1), self._first]
        add, pack, steps, end = out.append, struct.pack, self._steps, self._end
        for part in parts:
            values = _values(part, self._kinds)
            for before, header, width, place, after in steps:
                value = values[place]
                add(before)
                if value is None:
                    add(_NULL)
                    continue
                add(header)
                if width == _BLOCK:
                    add(pack(">ii", len(value) + 4, len(value)))
                elif width == 4:
                    add(pack(">i", len(value)))
                elif width == 2:
                    add(pack(">H", len(value)))
                add(value)
                add(after)
            add(end)
        return b"".join(out)


_BLOCK: Final = 8
_OWN: Final = 4
"""How many values every file has, before the constants of its rows."""


def _step(before: bytes, place: int, kind: Kind | None, size: int, behind: bytes) -> tuple[_Step, bytes]:
    """The step of a value, and what is left of what stands behind it."""
    if kind is None:
        if place > 0:
            return _Step(before, b"", 0, place), behind
        if before[-2:] != struct.pack(">H", size):
            raise AssertionError("the JVM writes texts in a way that is not known")
        return _Step(before[:-2], b"", 2, place), behind
    width, after, header_end = 0, b"", b""
    if kind == "text":  # in a block of data of its own
        if before[-6:] != bytes([_BLOCK_DATA, size + 4]) + struct.pack(">i", size) or behind[0] != _END_OF_BLOCK:
            raise AssertionError("the JVM writes texts in a way that is not known")
        width, after, header_end = _BLOCK, behind[:1], bytes([_LONG_BLOCK_DATA])
        before, behind = before[:-6], behind[1:]
    elif kind == "bytes":
        if before[-4:] != struct.pack(">i", size):
            raise AssertionError("the JVM writes bytes in a way that is not known")
        width, before = 4, before[:-4]
    header = before[-_HEADER:]
    if header[0] != (_ARRAY if kind == "bytes" else _OBJECT) or header[1] != _REFERENCE:
        raise AssertionError("the JVM writes objects in a way that is not known")
    return _Step(before[:-_HEADER], header + header_end, width, place, after), behind


def _sample(number: int, kinds: Sequence[Kind]) -> FilePart:
    constants: list[str | int | bytes | None] = []
    for place, kind in enumerate(kinds):
        match kind:
            case "text":
                constants.append(f"file:/constant/{place:03d}/{number:02d}")
            case "bytes":
                constants.append(f"bytes {place:03d} {number:02d}".encode())
            case "long":
                constants.append(0x5555_5555_0000_0000 + 256 * place + number)
            case "int":
                constants.append(0x44_44_00_00 + 256 * place + number)
    begin, length, size = (0x1111111111111100 * factor + number for factor in (1, 2, 3))
    return f"file:/sample/{number:02d}.parquet", begin, length, size, constants


def _values(part: FilePart, kinds: Sequence[Kind]) -> list[Any]:
    """What varies, as bytes; None for null."""
    url, start, length, size, constants = part
    pack = struct.pack
    found: list[Any] = [url.encode(), pack(">q", start), pack(">q", length), pack(">q", size)]
    for one, kind in zip(constants, kinds, strict=True):
        match one:
            case None | bytes():
                found.append(one)
            case str():
                found.append(one.encode())
            case _:
                found.append(pack(">q" if kind == "long" else ">i", one))
    return found


def _made(jvm: Jvm, sample: FilePart, kinds: Sequence[Kind]) -> Any:
    url, start, length, size, constants = sample
    row = jvm.sql("catalyst.expressions.GenericInternalRow")(len(constants))
    for place, (value, kind) in enumerate(zip(constants, kinds, strict=True)):
        match kind:
            case "text":
                row.update(place, jvm.named("org.apache.spark.unsafe.types.UTF8String").fromString(value))
            case "bytes":
                row.update(place, bytearray(value))  # type: ignore[arg-type]
            case "long":
                row.setLong(place, value)
            case "int":
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
