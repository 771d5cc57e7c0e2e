package org.apache.iceberg;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.expressions.Binder;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.Projections;
import org.apache.iceberg.expressions.StrictMetricsEvaluator;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.transforms.Transforms;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.JsonUtil;
import org.apache.iceberg.util.SerializableFunction;

/**
 * Asks Java Iceberg what it thinks, with JSON text in and out, because the bridge from Python turns boxed numbers into other ones. Lives in
 * Iceberg's package to reach what has no public door.
 */
public class FloeOracle {
  private FloeOracle() {}

  // many questions at once ----------------------------------------------------------------------------------------

  /** The answers to calls of the methods below: each an array of a method's name and its arguments; errors too are answers. */
  public static String ask(String callsJson) throws Exception {
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode call : read(callsJson)) {
      try {
        String value = answer(call);
        out.addObject().put("value", value);
      } catch (InvocationTargetException e) {
        Throwable cause = e.getCause();
        out.addObject().put("error", cause.getClass().getSimpleName()).put("message", cause.getMessage());
      }
    }
    return out.toString();
  }

  private static String answer(JsonNode call) throws Exception {
    for (Method method : FloeOracle.class.getDeclaredMethods()) {
      if (method.getName().equals(call.get(0).asText()) && method.getParameterCount() == call.size() - 1) {
        Object[] arguments = new Object[call.size() - 1];
        for (int i = 0; i < arguments.length; i += 1) {
          JsonNode node = call.get(i + 1);
          Class<?> type = method.getParameterTypes()[i];
          arguments[i] =
              type == boolean.class ? (Object) node.asBoolean()
                  : type == int.class ? (Object) node.asInt()
                  : type == long.class ? (Object) node.asLong()
                  : node.asText();
        }
        return String.valueOf(method.invoke(null, arguments));
      }
    }
    throw new IllegalArgumentException("no such method: " + call);
  }

  // single values and transforms ----------------------------------------------------------------------------------

  /** The single-value bytes of each value, in hexadecimal. */
  public static String encode(String typeJson, String valuesJson) throws Exception {
    Type type = type(typeJson);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode node : read(valuesJson)) {
      out.add(hex(Conversions.toByteBuffer(type, SingleValueParser.fromJson(type, node))));
    }
    return out.toString();
  }

  /** The value of each text of hexadecimal single-value bytes. */
  public static String decode(String typeJson, String hexJson) throws Exception {
    Type type = type(typeJson);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode node : read(hexJson)) {
      Object value = Conversions.fromByteBuffer(type, ByteBuffer.wrap(bytes(node.asText())));
      out.add(read(SingleValueParser.toJson(type, value)));
    }
    return out.toString();
  }

  /** A transform of each value; null stays null. */
  public static String transform(String typeJson, String text, String valuesJson) throws Exception {
    Type type = type(typeJson);
    Transform<Object, Object> transform = transformOf(type, text);
    Type resultType = transform.getResultType(type);
    SerializableFunction<Object, Object> function = transform.bind(type);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode node : read(valuesJson)) {
      Object result = function.apply(node.isNull() ? null : SingleValueParser.fromJson(type, node));
      out.add(result == null ? null : read(SingleValueParser.toJson(resultType, result)));
    }
    return out.toString();
  }

  /** What people see of each transformed value, as in partition paths before escaping. */
  public static String human(String typeJson, String text, String valuesJson) throws Exception {
    Type type = type(typeJson);
    Transform<Object, Object> transform = transformOf(type, text);
    Type resultType = transform.getResultType(type);
    SerializableFunction<Object, Object> function = transform.bind(type);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode node : read(valuesJson)) {
      Object value = node.isNull() ? null : SingleValueParser.fromJson(type, node);
      out.add(transform.toHumanString(resultType, function.apply(value)));
    }
    return out.toString();
  }

  // schemas and specs ---------------------------------------------------------------------------------------------

  /** A schema after changes, each an array: the operation and its arguments. */
  public static String evolve(String schemaJson, int lastColumnId, String changesJson) throws Exception {
    UpdateSchema update = new SchemaUpdate(SchemaParser.fromJson(schemaJson), lastColumnId);
    change(update, read(changesJson));
    return SchemaParser.toJson(update.apply());
  }

  /** A schema after changes that are each applied before the next is made. */
  public static String evolveInSteps(String schemaJson, int lastColumnId, String changesJson) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    int last = lastColumnId;
    for (JsonNode change : read(changesJson)) {
      UpdateSchema update = new SchemaUpdate(schema, last);
      change(update, JsonUtil.mapper().createArrayNode().add(change));
      schema = update.apply();
      last = Math.max(last, schema.highestFieldId());
    }
    return SchemaParser.toJson(schema);
  }

  private static void change(UpdateSchema update, JsonNode changes) throws Exception {
    update.allowIncompatibleChanges();
    for (JsonNode change : changes) {
      String name = change.path(1).asText();
      String argument = change.size() > 2 && change.get(2).isTextual() ? change.get(2).asText() : null;
      switch (change.get(0).asText()) {
        case "add":
          String parent = change.get(3).isNull() ? null : change.get(3).asText();
          addColumn(update, parent, name, type(change.get(2).toString()), change.get(4));
          break;
        case "drop":
          update.deleteColumn(name);
          break;
        case "rename":
          update.renameColumn(name, argument);
          break;
        case "promote":
          update.updateColumn(name, Types.fromPrimitiveString(argument));
          break;
        case "doc":
          update.updateColumnDoc(name, argument);
          break;
        case "optional":
          update.makeColumnOptional(name);
          break;
        case "any-case":
          update.caseSensitive(false);
          break;
        case "require":
          update.requireColumn(name);
          break;
        case "default":
          update.updateColumnDefault(name, literal(type(change.get(2).toString()), change.get(3)));
          break;
        case "identifiers":
          List<String> names = new ArrayList<>();
          change.get(1).forEach(node -> names.add(node.asText()));
          update.setIdentifierFields(names);
          break;
        case "first":
          update.moveFirst(name);
          break;
        case "before":
          update.moveBefore(name, argument);
          break;
        case "after":
          update.moveAfter(name, argument);
          break;
        case "union":
          update.unionByNameWith(SchemaParser.fromJson(change.get(1)));
          break;
        default:
          throw new IllegalArgumentException(change.toString());
      }
    }
  }

  private static void addColumn(UpdateSchema update, String parent, String name, Type type, JsonNode options) {
    String doc = options != null && options.has("doc") ? options.get("doc").asText() : null;
    Literal<?> value = options != null && options.has("default") ? literal(type, options.get("default")) : null;
    if (options != null && options.has("required")) {
      update.addRequiredColumn(parent, name, type, doc, value);
    } else {
      update.addColumn(parent, name, type, doc, value);
    }
  }

  private static Literal<?> literal(Type type, JsonNode value) {
    if (value.isNull()) {
      return null;
    }
    Object object = SingleValueParser.fromJson(type, value);
    boolean nanos = type.typeId() == Type.TypeID.TIMESTAMP_NANO; // a plain number would be taken for microseconds
    return (nanos ? Expressions.nanos((Long) object) : Expressions.lit(object)).to(type);
  }

  /** A partition spec after changes: ["add", "bucket[16]", "id", name or null], ["remove", name], ["rename", a, b]. */
  public static String evolveSpec(
      int formatVersion, String schemaJson, String specJson, int lastPartitionId, String changesJson) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    BaseUpdatePartitionSpec update = new BaseUpdatePartitionSpec(formatVersion, spec, lastPartitionId);
    change(update, schema, read(changesJson));
    return PartitionSpecParser.toJson(update.apply());
  }

  /** A table's metadata after updates of its partition spec, each an array of changes. */
  public static String evolveSpecs(String metadataJson, String updatesJson) throws Exception {
    InMemoryTable table = new InMemoryTable(TableMetadataParser.fromJson(metadataJson));
    for (JsonNode changes : read(updatesJson)) {
      BaseUpdatePartitionSpec update = new BaseUpdatePartitionSpec(table);
      change(update, table.current().schema(), changes);
      update.commit();
    }
    return TableMetadataParser.toJson(table.current());
  }

  private static void change(UpdatePartitionSpec update, Schema schema, JsonNode changes) {
    for (JsonNode change : changes) {
      switch (change.get(0).asText()) {
        case "add":
          String source = change.get(2).asText();
          update.addField(
              change.get(3).isNull() ? null : change.get(3).asText(),
              Expressions.transform(source, transformOf(schema.findType(source), change.get(1).asText())));
          break;
        case "remove":
          update.removeField(change.get(1).asText());
          break;
        case "rename":
          update.renameField(change.get(1).asText(), change.get(2).asText());
          break;
        default:
          throw new IllegalArgumentException(change.toString());
      }
    }
  }

  /** A table that is nothing but its metadata. */
  private static class InMemoryTable implements TableOperations {
    private TableMetadata metadata;

    InMemoryTable(TableMetadata metadata) {
      this.metadata = metadata;
    }

    @Override
    public TableMetadata current() {
      return metadata;
    }

    @Override
    public TableMetadata refresh() {
      return metadata;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata changed) {
      this.metadata = changed;
    }

    @Override
    public org.apache.iceberg.io.FileIO io() {
      throw new UnsupportedOperationException();
    }

    @Override
    public String metadataFileLocation(String fileName) {
      throw new UnsupportedOperationException();
    }

    @Override
    public org.apache.iceberg.io.LocationProvider locationProvider() {
      throw new UnsupportedOperationException();
    }
  }

  /** The path of a partition whose values are given as they are stored. */
  public static String partitionPath(String schemaJson, String specJson, String valuesJson) throws Exception {
    PartitionSpec spec = PartitionSpecParser.fromJson(SchemaParser.fromJson(schemaJson), specJson);
    PartitionData data = new PartitionData(spec.partitionType());
    JsonNode values = read(valuesJson);
    for (int i = 0; i < spec.fields().size(); i += 1) {
      Type type = spec.partitionType().fields().get(i).type();
      data.set(i, values.get(i).isNull() ? null : SingleValueParser.fromJson(type, values.get(i)));
    }
    return spec.partitionToPath(data);
  }

  // metadata ------------------------------------------------------------------------------------------------------

  /** Table metadata as Java writes it after reading it. */
  public static String metadata(String json) {
    return TableMetadataParser.toJson(TableMetadataParser.fromJson(json));
  }

  /** View metadata as Java writes it after reading it. */
  public static String viewMetadata(String json) {
    return org.apache.iceberg.view.ViewMetadataParser.toJson(
        org.apache.iceberg.view.ViewMetadataParser.fromJson(json));
  }

  /** Table metadata after updates in the JSON of the REST protocol. */
  public static String apply(String json, String updatesJson) throws Exception {
    TableMetadata base = TableMetadataParser.fromJson("/base.metadata.json", json);
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    for (JsonNode update : read(updatesJson)) {
      MetadataUpdateParser.fromJson(update).applyTo(builder);
    }
    return TableMetadataParser.toJson(builder.build());
  }

  /** The metadata of a new table. */
  public static String newTable(
      int formatVersion, String schemaJson, String specJson, String orderJson, String location) {
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    SortOrder order = SortOrderParser.fromJson(schema, orderJson);
    Map<String, String> properties = Map.of("format-version", String.valueOf(formatVersion));
    return TableMetadataParser.toJson(TableMetadata.newTableMetadata(schema, spec, order, location, properties));
  }

  /** The metadata of a table that takes the place of another. */
  public static String replaceTable(
      String json, String schemaJson, String specJson, String orderJson, String location, String propertiesJson)
      throws Exception {
    TableMetadata base = TableMetadataParser.fromJson("/base.metadata.json", json);
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    SortOrder order = SortOrderParser.fromJson(schema, orderJson);
    Map<String, String> properties = new HashMap<>();
    read(propertiesJson).properties().forEach(e -> properties.put(e.getKey(), e.getValue().asText()));
    return TableMetadataParser.toJson(base.buildReplacement(schema, spec, order, location, properties));
  }

  // filters -------------------------------------------------------------------------------------------------------

  /** A filter's projection on the partitions of a spec, bound to their struct, in Java's text. */
  public static String project(String schemaJson, String specJson, String filterJson, boolean strict) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    Expression filter = parsed(schema, filterJson);
    Expression projected = (strict ? Projections.strict(spec) : Projections.inclusive(spec)).project(filter);
    return Binder.bind(spec.partitionType(), projected, true).toString();
  }

  /** Whether a projected filter is true of each partition, given as arrays of values. */
  public static String partitions(
      String schemaJson, String specJson, String filterJson, boolean strict, String partitionsJson) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    Expression filter = parsed(schema, filterJson);
    Expression projected = (strict ? Projections.strict(spec) : Projections.inclusive(spec)).project(filter);
    org.apache.iceberg.expressions.Evaluator evaluator =
        new org.apache.iceberg.expressions.Evaluator(spec.partitionType(), projected, true);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode tuple : read(partitionsJson)) {
      PartitionData data = new PartitionData(spec.partitionType());
      for (int i = 0; i < spec.fields().size(); i += 1) {
        Type type = spec.partitionType().fields().get(i).type();
        data.set(i, tuple.get(i).isNull() ? null : SingleValueParser.fromJson(type, tuple.get(i)));
      }
      out.add(evaluator.eval(data));
    }
    return out.toString();
  }

  /** Whether a file with these metrics may match (or must match) a filter. Metrics are objects keyed by column id. */
  public static boolean metrics(
      String schemaJson, String filterJson, boolean strict, long rows, String countsJson, String boundsJson) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    Expression filter = parsed(schema, filterJson);
    JsonNode counts = read(countsJson);
    JsonNode bounds = read(boundsJson);
    Metrics metrics =
        new Metrics(
            rows, null, longs(counts.get("values")), longs(counts.get("nulls")), longs(counts.get("nans")),
            buffers(bounds.get("lower")), buffers(bounds.get("upper")));
    DataFile file =
        DataFiles.builder(PartitionSpec.unpartitioned())
            .withPath("/f.parquet").withFileSizeInBytes(1).withMetrics(metrics).build();
    return strict
        ? new StrictMetricsEvaluator(schema, filter).eval(file)
        : new InclusiveMetricsEvaluator(schema, filter).eval(file);
  }

  /** A filter as Java writes it after reading it. */
  public static String filter(String schemaJson, String filterJson) throws Exception {
    return ExpressionParser.toJson(parsed(SchemaParser.fromJson(schemaJson), filterJson));
  }

  /** Whether each row, an array of the values of a flat schema, passes a filter. */
  public static String rows(String schemaJson, String filterJson, String rowsJson) throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    Expression filter = parsed(schema, filterJson);
    org.apache.iceberg.expressions.Evaluator evaluator =
        new org.apache.iceberg.expressions.Evaluator(schema.asStruct(), filter, true);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode values : read(rowsJson)) {
      PartitionData row = new PartitionData(schema.asStruct());
      for (int i = 0; i < schema.columns().size(); i += 1) {
        Type type = schema.columns().get(i).type();
        row.set(i, values.get(i).isNull() ? null : SingleValueParser.fromJson(type, values.get(i)));
      }
      out.add(evaluator.eval(row));
    }
    return out.toString();
  }

  /** Java takes numbers of nanoseconds for microseconds when it reads literals with a schema, so there it gets text. */
  private static Expression parsed(Schema schema, String filterJson) {
    boolean nanos = schema.columns().stream().anyMatch(c -> c.type().typeId() == Type.TypeID.TIMESTAMP_NANO);
    return ExpressionParser.fromJson(filterJson, nanos ? null : schema);
  }

  // small parts ---------------------------------------------------------------------------------------------------

  private static JsonNode read(String json) throws Exception {
    return JsonUtil.mapper().readTree(json);
  }

  private static String wrap(JsonNode type) {
    return "{\"type\":\"struct\",\"fields\":[{\"id\":2147480000,\"name\":\"x\",\"required\":false,\"type\":" + type + "}]}";
  }

  private static Type type(String typeJson) throws Exception {
    return SchemaParser.fromJson(wrap(read(typeJson))).columns().get(0).type();
  }

  @SuppressWarnings("unchecked")
  private static Transform<Object, Object> transformOf(Type type, String text) {
    return (Transform<Object, Object>) Transforms.fromString(type, text);
  }

  private static Map<Integer, Long> longs(JsonNode node) {
    if (node == null || node.isNull()) {
      return null;
    }
    Map<Integer, Long> out = new HashMap<>();
    node.properties().forEach(e -> out.put(Integer.valueOf(e.getKey()), e.getValue().asLong()));
    return out;
  }

  private static Map<Integer, ByteBuffer> buffers(JsonNode node) {
    if (node == null || node.isNull()) {
      return null;
    }
    Map<Integer, ByteBuffer> out = new HashMap<>();
    node.properties().forEach(e -> out.put(Integer.valueOf(e.getKey()), ByteBuffer.wrap(bytes(e.getValue().asText()))));
    return out;
  }

  private static String hex(ByteBuffer buffer) {
    StringBuilder out = new StringBuilder();
    ByteBuffer copy = buffer.duplicate();
    while (copy.hasRemaining()) {
      out.append(String.format("%02x", copy.get()));
    }
    return out.toString();
  }

  private static byte[] bytes(String hex) {
    byte[] out = new byte[hex.length() / 2];
    for (int i = 0; i < out.length; i += 1) {
      out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return out;
  }
}
