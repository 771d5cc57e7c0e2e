package org.apache.iceberg.data;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Files;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.formats.ReadBuilder;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.DateTimeUtil;
import org.apache.iceberg.util.JsonUtil;
import org.apache.iceberg.variants.Variant;

/**
 * Single data files as Java's own file-format API reads and writes them. Values travel as JSON without loss: moments and dates as numbers, floating
 * point numbers by their bits, bytes in hexadecimal, decimals by their digits, structs and lists as arrays, maps as arrays of pairs.
 */
public class FloeDataFiles {
  private FloeDataFiles() {}

  /** The rows of a file, in its order, in the columns of a schema. */
  public static String read(String format, String location, String schemaJson, String optionsJson) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    JsonNode options = tree(optionsJson);
    ReadBuilder<Record, ?> builder =
        FormatModelRegistry.readBuilder(FileFormat.fromString(format), Record.class, Files.localInput(location));
    builder = builder.project(schema);
    if (options.has("filter")) {
      builder = builder.filter(ExpressionParser.fromJson(options.get("filter").toString(), schema));
    }
    if (options.has("split")) {
      builder = builder.split(options.get("split").get(0).asLong(), options.get("split").get(1).asLong());
    }
    if (options.has("mapping")) {
      builder = builder.withNameMapping(NameMappingParser.fromJson(options.get("mapping").toString()));
    }
    ArrayNode rows = JsonUtil.mapper().createArrayNode();
    try (CloseableIterable<Record> found = builder.build()) {
      for (Record row : found) {
        rows.add(toJson(schema.asStruct(), row));
      }
    }
    return rows.toString();
  }

  /** Writes a data file, and tells how a manifest describes it. */
  public static String write(String format, String location, String schemaJson, String propertiesJson, String rowsJson)
      throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    Map<String, String> properties = strings(propertiesJson);
    DataWriter<Record> writer =
        FormatModelRegistry.<Record, Object>dataWriteBuilder(FileFormat.fromString(format), Record.class, output(location))
            .schema(schema)
            .setAll(properties)
            .metricsConfig(MetricsConfig.from(properties, schema, SortOrder.unsorted()))
            .spec(PartitionSpec.unpartitioned())
            .overwrite()
            .build();
    try (DataWriter<Record> open = writer) {
      for (JsonNode row : tree(rowsJson)) {
        open.write((Record) fromJson(schema.asStruct(), row));
      }
    }
    DataFile file = writer.toDataFile();
    return described(file).toString();
  }

  public static String writeEqualityDeletes(String format, String location, String schemaJson, String idsJson, String rowsJson)
      throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    List<Integer> ids = new ArrayList<>();
    tree(idsJson).forEach(id -> ids.add(id.asInt()));
    EqualityDeleteWriter<Record> writer =
        FormatModelRegistry.<Record, Object>equalityDeleteWriteBuilder(FileFormat.fromString(format), Record.class, output(location))
            .schema(schema)
            .spec(PartitionSpec.unpartitioned())
            .equalityFieldIds(ids)
            .overwrite()
            .build();
    try (EqualityDeleteWriter<Record> open = writer) {
      for (JsonNode row : tree(rowsJson)) {
        open.write((Record) fromJson(schema.asStruct(), row));
      }
    }
    return described(writer.toDeleteFile()).toString();
  }

  public static String writePositionDeletes(String format, String location, String rowsJson) throws Exception {
    PositionDeleteWriter<Record> writer =
        FormatModelRegistry.<Record>positionDeleteWriteBuilder(FileFormat.fromString(format), output(location))
            .spec(PartitionSpec.unpartitioned())
            .overwrite()
            .build();
    try (PositionDeleteWriter<Record> open = writer) {
      for (JsonNode row : tree(rowsJson)) {
        open.write(PositionDelete.<Record>create().set(row.get(0).asText(), row.get(1).asLong()));
      }
    }
    return described(writer.toDeleteFile()).toString();
  }

  private static EncryptedOutputFile output(String location) {
    return EncryptedFiles.plainAsEncryptedOutput(Files.localOutput(location));
  }

  private static ObjectNode described(ContentFile<?> file) {
    ObjectNode out = JsonUtil.mapper().createObjectNode();
    out.put("records", file.recordCount());
    out.put("size", file.fileSizeInBytes());
    counts(out, "values", file.valueCounts());
    counts(out, "nulls", file.nullValueCounts());
    counts(out, "nans", file.nanValueCounts());
    counts(out, "sizes", file.columnSizes());
    bounds(out, "lower", file.lowerBounds());
    bounds(out, "upper", file.upperBounds());
    if (file.splitOffsets() != null) {
      ArrayNode offsets = out.putArray("splits");
      file.splitOffsets().forEach(offsets::add);
    }
    return out;
  }

  private static void counts(ObjectNode out, String name, Map<Integer, Long> counts) {
    if (counts != null) {
      ObjectNode one = out.putObject(name);
      counts.forEach((id, count) -> one.put(String.valueOf(id), count));
    }
  }

  private static void bounds(ObjectNode out, String name, Map<Integer, ByteBuffer> bounds) {
    if (bounds != null) {
      ObjectNode one = out.putObject(name);
      bounds.forEach((id, bound) -> one.put(String.valueOf(id), hex(bound)));
    }
  }

  // values ------------------------------------------------------------------------------------------------------------

  private static JsonNode toJson(Type type, Object value) {
    if (value == null) {
      return JsonUtil.mapper().nullNode();
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return JsonUtil.mapper().valueToTree(value);
      case INTEGER:
        return number(((Integer) value).longValue());
      case LONG:
        return number((Long) value);
      case FLOAT:
        return number(Float.floatToIntBits((Float) value));
      case DOUBLE:
        return number(Double.doubleToLongBits((Double) value));
      case DATE:
        return number(DateTimeUtil.daysFromDate((LocalDate) value));
      case TIME:
        return number(DateTimeUtil.microsFromTime((LocalTime) value));
      case TIMESTAMP:
        return number(
            value instanceof OffsetDateTime
                ? DateTimeUtil.microsFromTimestamptz((OffsetDateTime) value)
                : DateTimeUtil.microsFromTimestamp((LocalDateTime) value));
      case TIMESTAMP_NANO:
        return number(
            value instanceof OffsetDateTime
                ? DateTimeUtil.nanosFromTimestamptz((OffsetDateTime) value)
                : DateTimeUtil.nanosFromTimestamp((LocalDateTime) value));
      case DECIMAL:
        return text(((BigDecimal) value).unscaledValue().toString());
      case FIXED:
        return text(hex(ByteBuffer.wrap((byte[]) value)));
      case BINARY:
      case GEOMETRY:
      case GEOGRAPHY:
        return text(hex((ByteBuffer) value));
      case VARIANT:
        Variant variant = (Variant) value;
        ByteBuffer metadata = ByteBuffer.allocate(variant.metadata().sizeInBytes()).order(ByteOrder.LITTLE_ENDIAN);
        variant.metadata().writeTo(metadata, 0);
        ByteBuffer content = ByteBuffer.allocate(variant.value().sizeInBytes()).order(ByteOrder.LITTLE_ENDIAN);
        variant.value().writeTo(content, 0);
        return text(hex(metadata) + hex(content));
      case STRUCT:
        ArrayNode fields = JsonUtil.mapper().createArrayNode();
        int at = 0;
        for (Types.NestedField field : type.asStructType().fields()) {
          fields.add(toJson(field.type(), ((StructLike) value).get(at, Object.class)));
          at += 1;
        }
        return fields;
      case LIST:
        ArrayNode items = JsonUtil.mapper().createArrayNode();
        ((Iterable<?>) value).forEach(item -> items.add(toJson(type.asListType().elementType(), item)));
        return items;
      case MAP:
        ArrayNode pairs = JsonUtil.mapper().createArrayNode();
        ((Map<?, ?>) value)
            .forEach(
                (key, item) ->
                    pairs
                        .addArray()
                        .add(toJson(type.asMapType().keyType(), key))
                        .add(toJson(type.asMapType().valueType(), item)));
        return pairs;
      default:
        return text(value.toString());
    }
  }

  private static Object fromJson(Type type, JsonNode json) {
    if (json.isNull()) {
      return null;
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return json.asBoolean();
      case INTEGER:
        return json.asInt();
      case LONG:
        return json.asLong();
      case FLOAT:
        return Float.intBitsToFloat(json.asInt());
      case DOUBLE:
        return Double.longBitsToDouble(json.asLong());
      case DATE:
        return DateTimeUtil.dateFromDays(json.asInt());
      case TIME:
        return DateTimeUtil.timeFromMicros(json.asLong());
      case TIMESTAMP:
        return ((Types.TimestampType) type).shouldAdjustToUTC()
            ? DateTimeUtil.timestamptzFromMicros(json.asLong())
            : DateTimeUtil.timestampFromMicros(json.asLong());
      case TIMESTAMP_NANO:
        return ((Types.TimestampNanoType) type).shouldAdjustToUTC()
            ? DateTimeUtil.timestamptzFromNanos(json.asLong())
            : DateTimeUtil.timestampFromNanos(json.asLong());
      case DECIMAL:
        return new BigDecimal(new BigInteger(json.asText()), ((Types.DecimalType) type).scale());
      case UUID:
        return UUID.fromString(json.asText());
      case FIXED:
        return bytes(json.asText());
      case BINARY:
      case GEOMETRY:
      case GEOGRAPHY:
        return ByteBuffer.wrap(bytes(json.asText()));
      case VARIANT:
        return Variant.from(ByteBuffer.wrap(bytes(json.asText())).order(ByteOrder.LITTLE_ENDIAN));
      case STRUCT:
        GenericRecord record = GenericRecord.create(type.asStructType());
        for (int at = 0; at < record.size(); at += 1) {
          record.set(at, fromJson(type.asStructType().fields().get(at).type(), json.get(at)));
        }
        return record;
      case LIST:
        List<Object> items = new ArrayList<>();
        json.forEach(item -> items.add(fromJson(type.asListType().elementType(), item)));
        return items;
      case MAP:
        Map<Object, Object> map = new LinkedHashMap<>();
        json.forEach(
            pair ->
                map.put(
                    fromJson(type.asMapType().keyType(), pair.get(0)), fromJson(type.asMapType().valueType(), pair.get(1))));
        return map;
      default:
        return json.asText();
    }
  }

  private static JsonNode number(long number) {
    return JsonUtil.mapper().getNodeFactory().numberNode(number);
  }

  private static JsonNode text(String text) {
    return JsonUtil.mapper().getNodeFactory().textNode(text);
  }

  private static String hex(ByteBuffer buffer) {
    ByteBuffer bytes = buffer.duplicate();
    StringBuilder out = new StringBuilder();
    while (bytes.hasRemaining()) {
      out.append(String.format("%02x", bytes.get()));
    }
    return out.toString();
  }

  private static byte[] bytes(String hex) {
    byte[] out = new byte[hex.length() / 2];
    for (int at = 0; at < out.length; at += 1) {
      out[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
    }
    return out;
  }

  private static JsonNode tree(String json) throws Exception {
    return JsonUtil.mapper().readTree(json);
  }

  private static Map<String, String> strings(String json) throws Exception {
    Map<String, String> out = new HashMap<>();
    tree(json).properties().forEach(entry -> out.put(entry.getKey(), entry.getValue().asText()));
    return out;
  }
}
