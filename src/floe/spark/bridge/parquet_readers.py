"""Spark's own Parquet reader: what makes it in executors, and the parts of files that it gets, each in one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from floe.spark.bridge.compiling import made_of_source
from floe.spark.bridge.jvm import Jvm

__all__ = ["file_partitions", "parquet_factory"]

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
    return jvm.once(_NAME, lambda: made_of_source(jvm, _SOURCE, _NAME, []))
