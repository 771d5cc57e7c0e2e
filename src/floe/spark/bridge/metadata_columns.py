"""Metadata columns as objects of the JVM's own: Spark asks for all they say in every query, several times."""

from __future__ import annotations

import json
from typing import Any, Final

from floe.spark.bridge.compiling import made_of_source
from floe.spark.bridge.jvm import Jvm

__all__ = ["java_metadata_columns"]

_NAME: Final = "floe.MetadataColumns"
_SOURCE: Final = """
package floe;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

public class MetadataColumns {
  public MetadataColumns() {}

  public MetadataColumn[] made(String schema) {
    StructField[] fields = ((StructType) DataType.fromJson(schema)).fields();
    MetadataColumn[] made = new MetadataColumn[fields.length];
    for (int place = 0; place < fields.length; place++) made[place] = new Column(fields[place]);
    return made;
  }

  public static class Column implements MetadataColumn {
    private final StructField field;
    private final String told;

    public Column(StructField field) {
      this.field = field;
      Metadata rest = new MetadataBuilder().withMetadata(field.metadata()).remove("comment").build();
      this.told = rest.equals(Metadata.empty()) ? null : rest.json();
    }

    public String name() { return field.name(); }

    public DataType dataType() { return field.dataType(); }

    public boolean isNullable() { return field.nullable(); }

    public String comment() { return (String) (field.getComment().isDefined() ? field.getComment().get() : null); }

    public String metadataInJSON() { return told; }
  }
}
"""


def java_metadata_columns(jvm: Jvm, spark_schema: Any) -> Any:
    """A `MetadataColumn[]` of a schema's JSON; what the fields' metadata has but comments is what the columns tell."""
    return made_of_source(jvm, _SOURCE, _NAME, []).made(json.dumps(spark_schema))
