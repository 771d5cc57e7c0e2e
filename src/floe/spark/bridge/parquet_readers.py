"""Spark's own Parquet reader: what makes it in executors, and the parts of files that it gets, each in one call.

Many files for Spark's own readers, made in one call.

An object of the JVM takes a call or more to make, so that a hundred thousand of them would take minutes. Here the JVM
writes three of them down by its own serialization; the third is a template, which is filled in here as often as there
are files, and the JVM reads the whole. What varies is found by values that occur nowhere else.

What versions of Spark do differently, where no object of the JVM is at hand to be asked.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from numpy.typing import NDArray

from floe.spark.bridge.jvm import Jvm, instantiate_source

_NAME: Final = "floe.ParquetReaders"
_SOURCE: Final = """
package floe;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.github.luben.zstd.ZstdInputStreamNoFinalizer;
import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ObjectInputStream;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;

public class ParquetReaders {
  private final ObjectMapper mapper = new ObjectMapper();
  private final Field places;

  public ParquetReaders() throws Exception {
    places = PartitionedFile.class.getDeclaredField("locations");
    places.setAccessible(true);
  }

  public Object factory(String columns, String constants, Object predicates, String how) throws Exception {
    Map told = (Map) mapper.readValue(how, Map.class);
    SparkSession session = (SparkSession) SparkSession.active();
    SQLConf conf = session.sessionState().conf();
    StructType schema = (StructType) DataType.fromJson(columns);
    Configuration hadoop = session.sessionState().newHadoopConf();
    Iterator settings = ((Map) told.get("settings")).entrySet().iterator();
    while (settings.hasNext()) {
      Map.Entry setting = (Map.Entry) settings.next();
      hadoop.set((String) setting.getKey(), (String) setting.getValue());
    }
    hadoop.set("org.apache.spark.sql.parquet.row.requested_schema", columns);
    hadoop.set("org.apache.spark.sql.parquet.row.attributes", columns);
    hadoop.set("spark.sql.session.timeZone", conf.sessionLocalTimeZone());
    return new ParquetPartitionReaderFactory(
        conf,
        JavaSparkContext.fromSparkContext(session.sparkContext()).broadcast(new SerializableConfiguration(hadoop)),
        schema,
        schema,
        (StructType) DataType.fromJson(constants),
        filters((Object[]) predicates, (List) told.get("predicates")),
        scala.Option.empty(),
        new ParquetOptions(PythonUtils.toScalaMap((Map) told.get("options")), conf));
  }

  private static Filter[] filters(Object[] predicates, List chosen) {
    ArrayList made = new ArrayList();
    for (int place = 0; place < chosen.size(); place++) {
      scala.Option found = PredicateUtils.toV1((Predicate) predicates[((Integer) chosen.get(place)).intValue()]);
      if (found.isDefined()) made.add(found.get());
    }
    return (Filter[]) made.toArray(new Filter[0]);
  }

  public InputPartition[] partitions(byte[] written, long size, long cost) throws Exception {
    ObjectInputStream source = new ObjectInputStream(
        new BufferedInputStream(new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(written))));
    PartitionedFile[] all = (PartitionedFile[]) source.readObject();
    String[] nowhere = new String[0];
    ArrayList made = new ArrayList();
    long held = 0;
    int begin = 1;
    for (int place = 1; place < all.length; place++) {
      places.set(all[place], nowhere);
      long weight = Math.max(all[place].length(), cost);
      if (place > begin && held + weight > size) {
        made.add(new FilePartition(made.size(), (PartitionedFile[]) Arrays.copyOfRange(all, begin, place)));
        begin = place;
        held = 0;
      }
      held += weight;
    }
    if (begin < all.length)
      made.add(new FilePartition(made.size(), (PartitionedFile[]) Arrays.copyOfRange(all, begin, all.length)));
    return (InputPartition[]) made.toArray(new InputPartition[0]);
  }
}
"""


def parquet_factory(
    jvm: Jvm,
    columns: Any,
    constants: Any,
    predicates: Any,
    chosen: Sequence[int],
    *,
    settings: Mapping[str, str],
    options: Mapping[str, str],
) -> Any:
    """What makes readers of columns, and of what all rows of a file have, with Hadoop's settings and Parquet's options.

    Of a `Predicate[]` those at the chosen places leave out row groups, as far as they have the older form of filters.
    """
    how = {"settings": settings, "options": options, "predicates": chosen}
    return _readers(jvm).factory(json.dumps(columns), json.dumps(constants), predicates, json.dumps(how))


def file_partitions(jvm: Jvm, written: bytes, size: int, cost: int) -> Any:
    """An `InputPartition[]` of so many bytes each, of a serialized and compressed `PartitionedFile[]`.

    A file counts as many bytes at least as it costs to open one. The first of the array is left out. Serialization
    leaves out preferred places, and Spark asks for them, so that each file is given none.
    """
    return _readers(jvm).partitions(bytearray(written), size, cost)


def _readers(jvm: Jvm) -> Any:
    return jvm.once(_NAME, lambda: instantiate_source(jvm, _SOURCE, _NAME, []))


# Many files for Spark's own readers, made in one call.

Kind = Literal["text", "int", "long", "bytes"]
"""What a constant of the rows of a file is; each may be null."""

_FILES: Final = "org.apache.spark.sql.execution.datasources.PartitionedFile"
_BLOCK_DATA, _LONG_BLOCK_DATA, _END_OF_BLOCK = 0x77, 0x7A, 0x78
_OBJECT, _ARRAY, _REFERENCE, _NULL = 0x73, 0x75, 0x71, b"\x70"
_HEADER: Final = 6
"""How many bytes say that an object of a class that has been described follows."""


@dataclass(frozen=True, slots=True)
class FileParts:
    """Parts of files, as columns."""

    urls: pa.Array
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """How long the whole files are."""

    constants: Sequence[pa.Array]
    """What the rows of a part all have, a column for each: texts, bytes, or numbers."""

    def __len__(self) -> int:
        return len(self.urls)

    def largest_first(self) -> FileParts:
        """The same parts by their lengths."""
        order = np.argsort(-self.lengths, kind="stable")
        if np.array_equal(order, np.arange(len(order))):
            return self
        constants = [column.take(pa.array(order)) for column in self.constants]
        return FileParts(
            self.urls.take(pa.array(order)), self.begins[order], self.lengths[order], self.sizes[order], constants
        )


def partitioned_files(jvm: Jvm, parts: FileParts, kinds: Sequence[Kind], size: int, cost: int) -> Any:
    """The parts in partitions of so many bytes, as an `InputPartition[]`, in their order; each weighs `cost` at least.

    `kinds` are the types of their constants.
    """
    key = ("partitioned files", *kinds)
    template = jvm.once(key, lambda: _Template(jvm, kinds))
    # the first of the array is a sample, which brings the descriptions of the classes
    return file_partitions(jvm, pa.compress(template.filled(parts), "zstd", asbytes=True), size, cost)  # py4j is slow


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
        second, third = ([column[0].as_py() for column in _columns(sample, kinds)] for sample in samples[1:])
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

    def filled(self, parts: FileParts) -> bytes:
        """The array of these files, behind the first sample, as the JVM would have written it."""
        columns = _columns(parts, self._kinds)
        cells: list[Any] = []
        for before, header, width, place, after in self._steps:
            values = columns[place]
            pieces = [header, *_told_lengths(values, width), values, after]
            cells += [before, pc.fill_null(_joined(pieces), _NULL) if values.null_count else _joined(pieces)]
        head = self._head + struct.pack(">i", len(parts) + 1) + self._first
        return head + _bytes_of(_joined([*cells, self._end]))


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


def _sample(number: int, kinds: Sequence[Kind]) -> FileParts:
    constants: list[pa.Array] = []
    for place, kind in enumerate(kinds):
        match kind:
            case "text":
                constants.append(pa.array([f"file:/constant/{place:03d}/{number:02d}"]))
            case "bytes":
                constants.append(pa.array([f"bytes {place:03d} {number:02d}".encode()]))
            case "long":
                constants.append(pa.array([0x5555_5555_0000_0000 + 256 * place + number]))
            case "int":
                constants.append(pa.array([0x44_44_00_00 + 256 * place + number]))
    begin, length, size = (np.array([0x1111111111111100 * factor + number]) for factor in (1, 2, 3))
    return FileParts(pa.array([f"file:/sample/{number:02d}.parquet"]), begin, length, size, constants)


def _columns(parts: FileParts, kinds: Sequence[Kind]) -> list[pa.Array]:
    """What varies, as bytes."""
    numbers = (_big_endian(one, ">i8") for one in (parts.begins, parts.lengths, parts.sizes))
    found = [parts.urls.cast(pa.large_binary()), *numbers]
    for column, kind in zip(parts.constants, kinds, strict=True):
        if kind in ("text", "bytes"):
            found.append(column.cast(pa.large_binary()))
            continue
        known = _big_endian(np.asarray(column.fill_null(0)), ">i8" if kind == "long" else ">i4")
        found.append(pc.if_else(column.is_valid(), known, pa.scalar(None, pa.large_binary())))
    return found


def _big_endian(numbers: NDArray[Any], form: str) -> pa.Array:
    data = numbers.astype(form)
    offsets = np.arange(len(data) + 1, dtype=np.int64) * data.itemsize
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _told_lengths(values: pa.Array, width: int) -> list[pa.Array]:
    """What stands before values to say how long they are."""
    if not width:
        return []
    lengths = np.asarray(pc.binary_length(values).fill_null(0))
    if width == _BLOCK:
        return [_big_endian(lengths + 4, ">i4"), _big_endian(lengths, ">i4")]
    return [_big_endian(lengths, ">i4" if width == 4 else ">u2")]


def _joined(pieces: Sequence[pa.Array | bytes]) -> pa.Array:
    """One text of bytes for each row, of columns and of what is the same in all rows; null where a column is."""
    scalars = [pa.scalar(one, pa.large_binary()) if isinstance(one, bytes) else one for one in pieces]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.large_binary()))


def _bytes_of(column: pa.Array) -> bytes:
    """All rows of a column without nulls, one behind the other."""
    offsets = np.frombuffer(column.buffers()[1], np.int64)
    return bytes(memoryview(column.buffers()[2])[offsets[column.offset] : offsets[column.offset + len(column)]])


def _made(jvm: Jvm, sample: FileParts, kinds: Sequence[Kind]) -> Any:
    """The only file of a sample, made by the JVM."""
    start, length, size = (int(one[0]) for one in (sample.begins, sample.lengths, sample.sizes))
    constants = [column[0].as_py() for column in sample.constants]
    row = jvm.sql("catalyst.expressions.GenericInternalRow")(len(constants))
    for place, (value, kind) in enumerate(zip(constants, kinds, strict=True)):
        match kind:
            case "text":
                row.update(place, jvm.named("org.apache.spark.unsafe.types.UTF8String").fromString(value))
            case "bytes":
                row.update(place, bytearray(value))
            case "long":
                row.setLong(place, value)
            case "int":
                row.setInt(place, value)
    path = jvm.named("org.apache.spark.paths.SparkPath").fromUrlString(sample.urls[0].as_py())
    places = jvm.once("no places", lambda: jvm.strings([]))
    nothing = jvm.once("empty map", lambda: jvm.scala_map({}))
    return jvm.named(_FILES)(row, path, start, length, places, 0, size, nothing)


def _serialized(jvm: Jvm, found: Any) -> bytes:
    target = jvm.named("java.io.ByteArrayOutputStream")()
    stream = jvm.named("java.io.ObjectOutputStream")(target)
    stream.writeObject(found)
    stream.close()
    return bytes(target.toByteArray())


# What versions of Spark do differently, where no object of the JVM is at hand to be asked.

_VERSION: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

READS_RENAMED_FIELDS: Final = _VERSION >= (4, 1)
"""Whether Spark's Parquet reader takes fields of structs by their ids where a file has other names for them."""
