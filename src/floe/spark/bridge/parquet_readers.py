"""Spark's own Parquet reader: its factory, and the input partitions that it reads.

`parquet_factory` creates the `PartitionReaderFactory`; `file_partitions` creates the `InputPartition[]` of many splits.
Each takes one call of the JVM.

Creating an object in the JVM takes at least one call, so a hundred thousand `PartitionedFile` would take minutes.
Instead, the JVM serializes three sample files once. The bytes of the third are the template (`_Template`): the values
that vary are found in it by contents that occur nowhere else. Filling in the template for each split, with Arrow, gives
the bytes of the whole array, which the JVM deserializes in one call.
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

_PARQUET_READERS: Final = "floe.ParquetReaders"
_PARQUET_READERS_SOURCE: Final = """
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
  private final Field locations;

  public ParquetReaders() throws Exception {
    locations = PartitionedFile.class.getDeclaredField("locations");
    locations.setAccessible(true);
  }

  public Object factory(String columns, String constants, Object predicates, String json) throws Exception {
    Map parameters = (Map) mapper.readValue(json, Map.class);
    SparkSession session = (SparkSession) SparkSession.active();
    SQLConf conf = session.sessionState().conf();
    StructType schema = (StructType) DataType.fromJson(columns);
    Configuration hadoop = session.sessionState().newHadoopConf();
    Iterator settings = ((Map) parameters.get("settings")).entrySet().iterator();
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
        filters((Object[]) predicates, (List) parameters.get("predicates")),
        scala.Option.empty(),
        new ParquetOptions(PythonUtils.toScalaMap((Map) parameters.get("options")), conf));
  }

  private static Filter[] filters(Object[] predicates, List indexes) {
    ArrayList filters = new ArrayList();
    for (int i = 0; i < indexes.size(); i++) {
      scala.Option filter = PredicateUtils.toV1((Predicate) predicates[((Integer) indexes.get(i)).intValue()]);
      if (filter.isDefined()) filters.add(filter.get());
    }
    return (Filter[]) filters.toArray(new Filter[0]);
  }

  public InputPartition[] partitions(byte[] compressed, long targetSize, long openCost) throws Exception {
    ObjectInputStream input = new ObjectInputStream(
        new BufferedInputStream(new ZstdInputStreamNoFinalizer(new ByteArrayInputStream(compressed))));
    PartitionedFile[] files = (PartitionedFile[]) input.readObject();
    String[] noLocations = new String[0];
    ArrayList partitions = new ArrayList();
    long size = 0;
    int begin = 1;  // the first file is the sample with the class descriptions
    for (int i = 1; i < files.length; i++) {
      locations.set(files[i], noLocations);  // transient, and so null; Spark's scheduler reads it
      long weight = Math.max(files[i].length(), openCost);
      if (i > begin && size + weight > targetSize) {
        partitions.add(new FilePartition(partitions.size(), (PartitionedFile[]) Arrays.copyOfRange(files, begin, i)));
        begin = i;
        size = 0;
      }
      size += weight;
    }
    if (begin < files.length) {
      PartitionedFile[] last = (PartitionedFile[]) Arrays.copyOfRange(files, begin, files.length);
      partitions.add(new FilePartition(partitions.size(), last));
    }
    return (InputPartition[]) partitions.toArray(new InputPartition[0]);
  }
}
"""


def parquet_factory(
    jvm: Jvm,
    columns: Any,
    constants: Any,
    predicates: Any,
    indexes: Sequence[int],
    *,
    settings: Mapping[str, str],
    options: Mapping[str, str],
) -> Any:
    """Create the factory of Spark's Parquet readers for the columns of a file and the constants of its rows.

    Both schemas are Spark's JSON; `settings` are Hadoop's, `options` those of Spark's Parquet source. `predicates` is a
    `Predicate[]`; those at `indexes` prune row groups, if Spark can convert them to its older filters.
    """
    parameters = {"settings": settings, "options": options, "predicates": indexes}
    return _readers(jvm).factory(json.dumps(columns), json.dumps(constants), predicates, json.dumps(parameters))


def _readers(jvm: Jvm) -> Any:
    return jvm.once(_PARQUET_READERS, lambda: instantiate_source(jvm, _PARQUET_READERS_SOURCE, _PARQUET_READERS, []))


READS_RENAMED_FIELDS: Final = tuple(int(part) for part in pyspark.__version__.split(".")[:2]) >= (4, 1)
"""Whether this Spark's Parquet reader finds fields of structs by id where a file has other names for them."""


# Input partitions -----------------------------------------------------------------------------------------------------

ConstantType = Literal["text", "int", "long", "bytes"]
"""The type of a constant of the rows of a file; all of them can be null."""

_PARTITIONED_FILE: Final = "org.apache.spark.sql.execution.datasources.PartitionedFile"

# codes of Java's Object Serialization Stream Protocol
_BLOCK_DATA, _LONG_BLOCK_DATA, _END_OF_BLOCK = 0x77, 0x7A, 0x78
_OBJECT, _ARRAY, _REFERENCE, _NULL = 0x73, 0x75, 0x71, b"\x70"
_HEADER: Final = 6
"""The length of an object's header if its class was described before: code, reference code, 4 bytes of handle."""


@dataclass(frozen=True, slots=True)
class FileSplits:
    """Splits of files, as columns."""

    urls: pa.Array
    begins: NDArray[np.int64]
    """The offsets at which the splits begin."""

    lengths: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """The sizes of the whole files."""

    constants: Sequence[pa.Array]
    """The constants that all rows of a split have, one column for each: strings, bytes or numbers."""

    def __len__(self) -> int:
        return len(self.urls)

    def largest_first(self) -> FileSplits:
        """The splits in descending order of their lengths."""
        order = np.argsort(-self.lengths, kind="stable")
        if np.array_equal(order, np.arange(len(order))):
            return self
        constants = [column.take(pa.array(order)) for column in self.constants]
        return FileSplits(
            self.urls.take(pa.array(order)), self.begins[order], self.lengths[order], self.sizes[order], constants
        )


def file_partitions(
    jvm: Jvm, splits: FileSplits, types: Sequence[ConstantType], target_size: int, open_cost: int
) -> Any:
    """Pack splits, in their order, into partitions of a target size in bytes; returns an `InputPartition[]`.

    Each split counts at least `open_cost` bytes. `types` are those of the constants.
    """
    template = jvm.once(("partitioned files", *types), lambda: _Template(jvm, types))
    compressed = pa.compress(template.fill(splits), "zstd", asbytes=True)  # py4j transfers bytes slowly
    return _readers(jvm).partitions(bytearray(compressed), target_size, open_cost)


class _Slot(NamedTuple):
    """The slot of a value in the template, and the bytes around it."""

    before: bytes
    header: bytes
    """The header of a value that is not null."""

    width: int
    """The width of the length that precedes the value; 0 for values of a fixed length."""

    column: int
    after: bytes = b""


class _Template:
    """The serialized form of one file, split at the values that differ between files."""

    def __init__(self, jvm: Jvm, types: Sequence[ConstantType]) -> None:
        samples = [_sample(number, types) for number in range(3)]
        java_files = jvm.array(_PARTITIONED_FILE, [_java_file(jvm, sample, types) for sample in samples])
        serialized = _serialize(jvm, java_files)
        second, third = ([column[0].as_py() for column in _value_columns(sample, types)] for sample in samples[1:])
        sizes = {serialized.find(b) - serialized.find(a) for a, b in zip(second, third, strict=True)}
        count = serialized.find(struct.pack(">i", len(samples)) + b"sr")
        if len(sizes) != 1 or serialized.find(third[0]) < 0 or count < 0:
            raise AssertionError("this JVM serializes PartitionedFile in an unknown layout")
        size = sizes.pop()
        begin = len(serialized) - size
        self._types = types
        self._head, self._first_file = serialized[:count], serialized[count + 4 : begin - size]
        # split with a group: bytes and values alternate
        pieces = re.split(b"(" + b"|".join(map(re.escape, third)) + b")", serialized[begin:])
        self._slots: list[_Slot] = []
        for index in range(1, len(pieces), 2):
            column = third.index(pieces[index])
            type_ = types[column - _FILE_COLUMNS] if column >= _FILE_COLUMNS else None
            slot, behind = _slot(pieces[index - 1], column, type_, len(pieces[index]), pieces[index + 1])
            self._slots.append(slot)
            pieces[index + 1] = behind
        self._end = pieces[-1]

    def fill(self, splits: FileSplits) -> bytes:
        """The array of the first sample and these splits, as the JVM would serialize it.

        The sample remains because the descriptions of the classes come with the first object.
        """
        columns = _value_columns(splits, self._types)
        cells: list[Any] = []
        for before, header, width, column, after in self._slots:
            values = columns[column]
            pieces = [header, *_length_prefixes(values, width), values, after]
            cells += [before, pc.fill_null(_join(pieces), _NULL) if values.null_count else _join(pieces)]
        head = self._head + struct.pack(">i", len(splits) + 1) + self._first_file
        return head + _concatenate(_join([*cells, self._end]))


_BLOCK: Final = 8
"""The width of the lengths of a long data block: that of the block, and that of the string in it."""

_FILE_COLUMNS: Final = 4
"""The number of columns before the constants: URL, begin, length and size."""


def _slot(before: bytes, column: int, type_: ConstantType | None, size: int, behind: bytes) -> tuple[_Slot, bytes]:
    """The slot of a value, and the bytes behind it that do not belong to it."""
    if type_ is None:
        if column > 0:
            return _Slot(before, b"", 0, column), behind
        if before[-2:] != struct.pack(">H", size):
            raise AssertionError("this JVM serializes strings in an unknown layout")
        return _Slot(before[:-2], b"", 2, column), behind
    width, after, header_end = 0, b"", b""
    if type_ == "text":  # UTF8String writes its bytes into a data block
        if before[-6:] != bytes([_BLOCK_DATA, size + 4]) + struct.pack(">i", size) or behind[0] != _END_OF_BLOCK:
            raise AssertionError("this JVM serializes UTF8String in an unknown layout")
        width, after, header_end = _BLOCK, behind[:1], bytes([_LONG_BLOCK_DATA])
        before, behind = before[:-6], behind[1:]
    elif type_ == "bytes":
        if before[-4:] != struct.pack(">i", size):
            raise AssertionError("this JVM serializes byte arrays in an unknown layout")
        width, before = 4, before[:-4]
    header = before[-_HEADER:]
    if header[0] != (_ARRAY if type_ == "bytes" else _OBJECT) or header[1] != _REFERENCE:
        raise AssertionError("this JVM serializes objects in an unknown layout")
    return _Slot(before[:-_HEADER], header + header_end, width, column, after), behind


def _sample(number: int, types: Sequence[ConstantType]) -> FileSplits:
    """One split whose values occur nowhere else in the serialized bytes."""
    constants: list[pa.Array] = []
    for index, type_ in enumerate(types):
        match type_:
            case "text":
                constants.append(pa.array([f"file:/constant/{index:03d}/{number:02d}"]))
            case "bytes":
                constants.append(pa.array([f"bytes {index:03d} {number:02d}".encode()]))
            case "long":
                constants.append(pa.array([0x5555_5555_0000_0000 + 256 * index + number]))
            case "int":
                constants.append(pa.array([0x44_44_00_00 + 256 * index + number]))
    begin, length, size = (np.array([0x1111111111111100 * factor + number]) for factor in (1, 2, 3))
    return FileSplits(pa.array([f"file:/sample/{number:02d}.parquet"]), begin, length, size, constants)


def _value_columns(splits: FileSplits, types: Sequence[ConstantType]) -> list[pa.Array]:
    """The values that differ between files, as columns of bytes."""
    numbers = (_big_endian(column, ">i8") for column in (splits.begins, splits.lengths, splits.sizes))
    columns = [splits.urls.cast(pa.large_binary()), *numbers]
    for constant, type_ in zip(splits.constants, types, strict=True):
        if type_ in ("text", "bytes"):
            columns.append(constant.cast(pa.large_binary()))
            continue
        encoded = _big_endian(np.asarray(constant.fill_null(0)), ">i8" if type_ == "long" else ">i4")
        columns.append(pc.if_else(constant.is_valid(), encoded, pa.scalar(None, pa.large_binary())))
    return columns


def _big_endian(numbers: NDArray[Any], dtype: str) -> pa.Array:
    data = numbers.astype(dtype)
    offsets = np.arange(len(data) + 1, dtype=np.int64) * data.itemsize
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _length_prefixes(values: pa.Array, width: int) -> list[pa.Array]:
    """The columns of lengths that precede values; none for values of a fixed length."""
    if not width:
        return []
    lengths = np.asarray(pc.binary_length(values).fill_null(0))
    if width == _BLOCK:
        return [_big_endian(lengths + 4, ">i4"), _big_endian(lengths, ">i4")]
    return [_big_endian(lengths, ">i4" if width == 4 else ">u2")]


def _join(pieces: Sequence[pa.Array | bytes]) -> pa.Array:
    """Join columns and constant bytes into one column, row by row; null where a column is null."""
    columns = [pa.scalar(piece, pa.large_binary()) if isinstance(piece, bytes) else piece for piece in pieces]
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))


def _concatenate(column: pa.Array) -> bytes:
    """The bytes of all rows of a column without nulls."""
    offsets = np.frombuffer(column.buffers()[1], np.int64)
    return bytes(memoryview(column.buffers()[2])[offsets[column.offset] : offsets[column.offset + len(column)]])


def _java_file(jvm: Jvm, sample: FileSplits, types: Sequence[ConstantType]) -> Any:
    """The `PartitionedFile` of a sample, created by the JVM."""
    start, length, size = (int(column[0]) for column in (sample.begins, sample.lengths, sample.sizes))
    constants = [column[0].as_py() for column in sample.constants]
    row = jvm.sql("catalyst.expressions.GenericInternalRow")(len(constants))
    for index, (value, type_) in enumerate(zip(constants, types, strict=True)):
        match type_:
            case "text":
                row.update(index, jvm.java_class("org.apache.spark.unsafe.types.UTF8String").fromString(value))
            case "bytes":
                row.update(index, bytearray(value))
            case "long":
                row.setLong(index, value)
            case "int":
                row.setInt(index, value)
    path = jvm.java_class("org.apache.spark.paths.SparkPath").fromUrlString(sample.urls[0].as_py())
    no_locations = jvm.once("no locations", lambda: jvm.strings([]))
    no_metadata = jvm.once("empty map", lambda: jvm.scala_map({}))
    return jvm.java_class(_PARTITIONED_FILE)(row, path, start, length, no_locations, 0, size, no_metadata)


def _serialize(jvm: Jvm, java_object: Any) -> bytes:
    target = jvm.java_class("java.io.ByteArrayOutputStream")()
    stream = jvm.java_class("java.io.ObjectOutputStream")(target)
    stream.writeObject(java_object)
    stream.close()
    return bytes(target.toByteArray())
