package org.apache.iceberg.data;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.MetadataTableType;
import org.apache.iceberg.MetadataTableUtils;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.catalog.ViewCatalog;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.JsonUtil;

/**
 * Catalogs and tables as Java Iceberg sees and changes them, with JSON text in and out. Rows are in the canonical form of the corpus, each a text. It
 * lives in the package of the reader that needs no engine.
 */
public class FloeTables {
  private static final Map<String, Catalog> CATALOGS = new ConcurrentHashMap<>();

  private FloeTables() {}

  // catalogs ------------------------------------------------------------------------------------------------------

  /** Opens a catalog under a key; `catalog-impl` is among the properties. */
  public static void open(String key, String name, String propertiesJson) throws Exception {
    CATALOGS.put(key, CatalogUtil.buildIcebergCatalog(name, strings(read(propertiesJson)), new Configuration()));
  }

  public static void close(String key) throws Exception {
    Catalog catalog = CATALOGS.remove(key);
    if (catalog instanceof AutoCloseable) {
      ((AutoCloseable) catalog).close();
    }
  }

  /** All namespaces with properties, tables with their uuid and schema, and views with their SQL. */
  public static String list(String key) throws Exception {
    Catalog catalog = CATALOGS.get(key);
    ObjectNode out = JsonUtil.mapper().createObjectNode();
    list(catalog, Namespace.empty(), out);
    return out.toString();
  }

  private static void list(Catalog catalog, Namespace parent, ObjectNode out) {
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    List<Namespace> children = parent.isEmpty() ? namespaces.listNamespaces() : namespaces.listNamespaces(parent);
    for (Namespace namespace : children) {
      ObjectNode one = out.putObject(namespace.toString());
      ObjectNode properties = one.putObject("properties");
      namespaces.loadNamespaceMetadata(namespace).forEach(properties::put);
      ObjectNode tables = one.putObject("tables");
      for (TableIdentifier id : catalog.listTables(namespace)) {
        tables.put(id.name(), catalog.loadTable(id).uuid().toString());
      }
      ObjectNode views = one.putObject("views");
      try {
        if (catalog instanceof ViewCatalog) {
          for (TableIdentifier id : ((ViewCatalog) catalog).listViews(namespace)) {
            views.put(id.name(), ((ViewCatalog) catalog).loadView(id).sqlFor("spark").sql());
          }
        }
      } catch (UnsupportedOperationException e) {
        one.putNull("views"); // a database of the first version, which has none
      }
      list(catalog, namespace, out);
    }
  }

  public static void createNamespace(String key, String name, String propertiesJson) throws Exception {
    ((SupportsNamespaces) CATALOGS.get(key)).createNamespace(Namespace.of(name.split("\\.")), strings(read(propertiesJson)));
  }

  public static void createTable(String key, String name, String schemaJson, String specJson, String propertiesJson)
      throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    PartitionSpec spec = PartitionSpecParser.fromJson(schema, specJson);
    CATALOGS.get(key).createTable(TableIdentifier.parse(name), schema, spec, strings(read(propertiesJson)));
  }

  public static void createView(String key, String name, String schemaJson, String sql, String propertiesJson)
      throws Exception {
    TableIdentifier id = TableIdentifier.parse(name);
    ((ViewCatalog) CATALOGS.get(key))
        .buildView(id)
        .withSchema(SchemaParser.fromJson(schemaJson))
        .withDefaultNamespace(id.namespace())
        .withQuery("spark", sql)
        .withProperties(strings(read(propertiesJson)))
        .create();
  }

  public static void replaceView(String key, String name, String schemaJson, String sql) throws Exception {
    TableIdentifier id = TableIdentifier.parse(name);
    ((ViewCatalog) CATALOGS.get(key))
        .loadView(id)
        .replaceVersion()
        .withSchema(SchemaParser.fromJson(schemaJson))
        .withDefaultNamespace(id.namespace())
        .withQuery("spark", sql)
        .commit();
  }

  public static void setNamespace(String key, String name, String propertiesJson) throws Exception {
    ((SupportsNamespaces) CATALOGS.get(key)).setProperties(Namespace.of(name.split("\\.")), strings(read(propertiesJson)));
  }

  public static void rename(String key, String from, String to) {
    CATALOGS.get(key).renameTable(TableIdentifier.parse(from), TableIdentifier.parse(to));
  }

  public static void renameView(String key, String from, String to) {
    ((ViewCatalog) CATALOGS.get(key)).renameView(TableIdentifier.parse(from), TableIdentifier.parse(to));
  }

  public static boolean drop(String key, String name, boolean purge) {
    return CATALOGS.get(key).dropTable(TableIdentifier.parse(name), purge);
  }

  // reading -------------------------------------------------------------------------------------------------------

  /** What the table is, and its rows: of now, of every snapshot, branch and tag. */
  public static String rows(String key, String name) throws Exception {
    Table table = load(key, name);
    TableMetadata metadata = ((BaseTable) table).operations().current();
    ObjectNode out = JsonUtil.mapper().createObjectNode();
    out.set("metadata", read(TableMetadataParser.toJson(metadata)));
    scanned(out.putObject("now"), table.newScan());
    ObjectNode snapshots = out.putObject("snapshots");
    for (Snapshot snapshot : table.snapshots()) {
      scanned(snapshots.putObject(String.valueOf(snapshot.snapshotId())), table.newScan().useSnapshot(snapshot.snapshotId()));
    }
    ObjectNode refs = out.putObject("refs");
    for (Map.Entry<String, SnapshotRef> ref : table.refs().entrySet()) {
      scanned(refs.putObject(ref.getKey()), table.newScan().useRef(ref.getKey()));
    }
    return out.toString();
  }

  /** Where each row is, its id in the table and the sequence number of its last change: rows of id and these. */
  public static String lineage(String key, String name) throws Exception {
    Table table = load(key, name);
    ObjectNode out = JsonUtil.mapper().createObjectNode();
    Schema columns =
        new Schema(
            table.schema().findField("id"),
            MetadataColumns.FILE_PATH,
            MetadataColumns.ROW_POSITION,
            MetadataColumns.ROW_ID,
            MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER);
    scanned(out, table.newScan().project(columns));
    return out.toString();
  }

  private static void scanned(ObjectNode out, TableScan scan) throws Exception {
    out.set("schema", read(SchemaParser.toJson(scan.schema())));
    ArrayNode rows = out.putArray("rows");
    try (CloseableIterable<Record> found = new TableScanIterable(scan, false)) {
      for (Record row : found) {
        rows.add(text(scan.schema().asStruct(), row));
      }
    }
  }

  /** The rows of metadata tables: of now, and those that can travel in time for every snapshot too. */
  public static String metadataTables(String key, String name, String namesJson, String travellingJson) throws Exception {
    Table table = load(key, name);
    ObjectNode out = JsonUtil.mapper().createObjectNode();
    ObjectNode now = out.putObject("now");
    for (JsonNode which : read(namesJson)) {
      described(now.putObject(which.asText()), metadataTable(table, which.asText()).newScan());
    }
    ObjectNode snapshots = out.putObject("snapshots");
    for (Snapshot snapshot : table.snapshots()) {
      ObjectNode then = snapshots.putObject(String.valueOf(snapshot.snapshotId()));
      for (JsonNode which : read(travellingJson)) {
        TableScan scan = metadataTable(table, which.asText()).newScan().useSnapshot(snapshot.snapshotId());
        described(then.putObject(which.asText()), scan);
      }
    }
    return out.toString();
  }

  private static Table metadataTable(Table table, String name) {
    return MetadataTableUtils.createMetadataTableInstance(table, MetadataTableType.from(name));
  }

  private static void described(ObjectNode out, TableScan scan) throws Exception {
    out.set("schema", read(SchemaParser.toJson(scan.schema())));
    ArrayNode rows = out.putArray("rows");
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        try (CloseableIterable<StructLike> found = task.asDataTask().rows()) {
          for (StructLike row : found) {
            rows.add(text(scan.schema().asStruct(), row));
          }
        }
      }
    }
  }

  /** For each question, an object with a filter and perhaps a snapshot: the data files, and the deletes that belong to each. */
  public static String plans(String key, String name, String questionsJson) throws Exception {
    Table table = load(key, name);
    ArrayNode out = JsonUtil.mapper().createArrayNode();
    for (JsonNode question : read(questionsJson)) {
      TableScan scan = table.newScan();
      boolean then = question.hasNonNull("snapshot");
      plan(out.addObject(), then ? scan.useSnapshot(question.get("snapshot").asLong()) : scan, question.get("filter"));
    }
    return out.toString();
  }

  private static void plan(ObjectNode out, TableScan scan, JsonNode filter) throws Exception {
    try (CloseableIterable<FileScanTask> tasks =
        scan.filter(ExpressionParser.fromJson(filter.toString(), scan.schema())).planFiles()) {
      for (FileScanTask task : tasks) {
        List<String> deletes = new ArrayList<>();
        for (DeleteFile file : task.deletes()) {
          deletes.add(file.location() + "@" + file.contentOffset());
        }
        Collections.sort(deletes);
        ArrayNode listed = out.putArray(task.file().location());
        deletes.forEach(listed::add);
      }
    }
  }

  // changing ------------------------------------------------------------------------------------------------------

  /** Makes one change: an object with `do` and what it needs. */
  public static void change(String key, String name, String changeJson) throws Exception {
    change(load(key, name), read(changeJson));
  }

  private static void change(Table table, JsonNode change) throws Exception {
    switch (change.get("do").asText()) {
      case "append":
        org.apache.iceberg.AppendFiles append = table.newAppend();
        write(table, change.get("rows")).forEach(append::appendFile);
        append.commit();
        break;
      case "fast append":
        org.apache.iceberg.AppendFiles fast = table.newFastAppend();
        write(table, change.get("rows")).forEach(fast::appendFile);
        fast.commit();
        break;
      case "overwrite":
        org.apache.iceberg.OverwriteFiles overwrite = table.newOverwrite();
        overwrite.overwriteByRowFilter(ExpressionParser.fromJson(change.get("where").toString(), table.schema()));
        write(table, change.get("rows")).forEach(overwrite::addFile);
        overwrite.commit();
        break;
      case "delete":
        table.newDelete().deleteFromRowFilter(ExpressionParser.fromJson(change.get("where").toString(), table.schema())).commit();
        break;
      case "position deletes":
        positionDeletes(table, change).commit();
        break;
      case "properties":
        org.apache.iceberg.UpdateProperties properties = table.updateProperties();
        strings(change.get("set")).forEach(properties::set);
        properties.commit();
        break;
      case "add column":
        table.updateSchema().addColumn(change.get("name").asText(), Types.StringType.get()).commit();
        break;
      case "tag":
        table.manageSnapshots().createTag(change.get("name").asText(), table.currentSnapshot().snapshotId()).commit();
        break;
      case "rewrite manifests":
        table.rewriteManifests().clusterBy(file -> "all").commit();
        break;
      case "expire":
        table.expireSnapshots().expireOlderThan(Long.MAX_VALUE).retainLast(1).cleanExpiredFiles(true).commit();
        break;
      case "rollback":
        table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit();
        break;
      default:
        throw new IllegalArgumentException(change.toString());
    }
  }

  /** Merge-on-read deletes, and rows to go with them; `validate` names what Spark's isolation levels ask for. */
  private static RowDelta positionDeletes(Table table, JsonNode change) throws Exception {
    RowDelta delta = table.newRowDelta();
    List<CharSequence> referenced = new ArrayList<>();
    Long from = change.has("from") ? change.get("from").asLong() : null;
    for (JsonNode target : change.get("deletes")) {
      String path = target.get("file").asText();
      referenced.add(path);
      delta.addDeletes(positionDeletes(table, path, target.get("positions")));
    }
    if (change.has("rows")) {
      write(table, change.get("rows")).forEach(delta::addRows);
    }
    if (from != null) {
      delta.validateFromSnapshot(from);
    }
    for (JsonNode what : change.path("validate")) {
      switch (what.asText()) {
        case "data files exist":
          delta.validateDataFilesExist(referenced);
          break;
        case "deleted files":
          delta.validateDeletedFiles();
          break;
        case "no conflicting deletes":
          delta.validateNoConflictingDeleteFiles();
          break;
        default:
          throw new IllegalArgumentException(what.asText());
      }
    }
    return delta;
  }

  private static DeleteFile positionDeletes(Table table, String path, JsonNode positions) throws Exception {
    GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table).deleteFileFormat(FileFormat.PARQUET).build();
    PositionDeleteWriter<Record> writer =
        factory.newPositionDeleteWriter(newFiles(table).newOutputFile(), table.spec(), null);
    try (PositionDeleteWriter<Record> open = writer) {
      for (JsonNode position : positions) {
        open.write(PositionDelete.<Record>create().set(path, position.asLong()));
      }
    }
    return writer.toDeleteFile();
  }

  /** Rows as data files, one for each partition. */
  private static List<DataFile> write(Table table, JsonNode rows) throws Exception {
    Schema schema = table.schema();
    PartitionSpec spec = table.spec();
    OutputFileFactory files = newFiles(table);
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table).dataFileFormat(FileFormat.PARQUET).dataSchema(schema).build();
    Map<PartitionKey, DataWriter<Record>> writers = new LinkedHashMap<>();
    PartitionKey partition = new PartitionKey(spec, schema);
    InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
    for (JsonNode row : rows) {
      Record record = GenericRecord.create(schema);
      for (Types.NestedField field : schema.columns()) {
        JsonNode value = row.get(field.name());
        record.setField(field.name(), value == null || value.isNull() ? null : parsed(field.type(), value));
      }
      partition.partition(wrapper.wrap(record));
      DataWriter<Record> writer = writers.get(partition);
      if (writer == null) {
        PartitionKey copy = partition.copy();
        writer =
            spec.isUnpartitioned()
                ? factory.newDataWriter(files.newOutputFile(), spec, null)
                : factory.newDataWriter(files.newOutputFile(spec, copy), spec, copy);
        writers.put(copy, writer);
      }
      writer.write(record);
    }
    List<DataFile> out = new ArrayList<>();
    for (DataWriter<Record> writer : writers.values()) {
      writer.close();
      out.add(writer.toDataFile());
    }
    return out;
  }

  private static Object parsed(Type type, JsonNode value) {
    Object internal = SingleValueParser.fromJson(type, value);
    return type.typeId() == Type.TypeID.STRING ? internal.toString() : IdentityPartitionConverters.convertConstant(type, internal);
  }

  private static OutputFileFactory newFiles(Table table) {
    return OutputFileFactory.builderFor(table, 1, 1L).format(FileFormat.PARQUET).operationId(UUID.randomUUID().toString()).build();
  }

  // a commit that stops just before it publishes --------------------------------------------------------------------

  private static Held held;

  /** Begins a change in a thread of its own, and returns when its first attempt is ready to be published. */
  public static void begin(String key, String name, String changeJson) throws Exception {
    held = new Held(load(key, name), read(changeJson));
    held.start();
    if (!held.ready.await(60, TimeUnit.SECONDS)) {
      throw new IllegalStateException("the change did not come to its commit: " + held.result);
    }
  }

  /** Lets the change go on, and tells what became of it: "done", or the error; and how often it tried. */
  public static String finish() throws Exception {
    held.go.countDown();
    held.join(120_000);
    return JsonUtil.mapper().createArrayNode().add(held.result).add(held.attempts).toString();
  }

  private static class Held extends Thread {
    private final Table table;
    private final JsonNode change;
    private final CountDownLatch ready = new CountDownLatch(1);
    private final CountDownLatch go = new CountDownLatch(1);
    private volatile String result = "not done";
    private volatile int attempts = 0;

    Held(Table table, JsonNode change) {
      this.table = new BaseTable(new Waiting(((BaseTable) table).operations()), table.name());
      this.change = change;
    }

    @Override
    public void run() {
      try {
        change(table, change);
        result = "done";
      } catch (Throwable e) {
        result = e.getClass().getSimpleName() + ": " + e.getMessage();
      } finally {
        ready.countDown();
      }
    }

    /** The table's own operations, which wait before each commit until they may go on. */
    private class Waiting implements TableOperations {
      private final TableOperations inner;

      Waiting(TableOperations inner) {
        this.inner = inner;
      }

      @Override
      public void commit(TableMetadata base, TableMetadata metadata) {
        attempts += 1;
        ready.countDown();
        try {
          go.await();
        } catch (InterruptedException e) {
          throw new RuntimeException(e);
        }
        inner.commit(base, metadata);
      }

      @Override
      public TableMetadata current() {
        return inner.current();
      }

      @Override
      public TableMetadata refresh() {
        return inner.refresh();
      }

      @Override
      public FileIO io() {
        return inner.io();
      }

      @Override
      public EncryptionManager encryption() {
        return inner.encryption();
      }

      @Override
      public String metadataFileLocation(String fileName) {
        return inner.metadataFileLocation(fileName);
      }

      @Override
      public LocationProvider locationProvider() {
        return inner.locationProvider();
      }

      @Override
      public TableOperations temp(TableMetadata uncommitted) {
        return inner.temp(uncommitted);
      }

      @Override
      public long newSnapshotId() {
        return inner.newSnapshotId();
      }

      @Override
      public boolean requireStrictCleanup() {
        return inner.requireStrictCleanup();
      }
    }
  }

  // the canonical form ------------------------------------------------------------------------------------------------

  private static String text(Types.StructType type, StructLike row) {
    StringBuilder out = new StringBuilder();
    value(out, type, row);
    return out.toString();
  }

  private static void value(StringBuilder out, Type type, Object value) {
    if (value == null) {
      out.append("null");
      return;
    }
    switch (type.typeId()) {
      case BOOLEAN:
        out.append(value);
        break;
      case STRUCT:
        List<String> fields = new ArrayList<>();
        int at = 0;
        for (Types.NestedField field : type.asStructType().fields()) {
          fields.add(text(field.type(), ((StructLike) value).get(at, Object.class)));
          at += 1;
        }
        array(out, fields);
        break;
      case LIST:
        List<String> items = new ArrayList<>();
        for (Object item : (Iterable<?>) value) {
          items.add(text(type.asListType().elementType(), item));
        }
        array(out, items);
        break;
      case MAP:
        List<String> pairs = new ArrayList<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
          String k = text(type.asMapType().keyType(), entry.getKey());
          pairs.add("[" + k + "," + text(type.asMapType().valueType(), entry.getValue()) + "]");
        }
        Collections.sort(pairs);
        array(out, pairs);
        break;
      default:
        quote(out, plain(type, value));
    }
  }

  private static String text(Type type, Object value) {
    StringBuilder out = new StringBuilder();
    value(out, type, value);
    return out.toString();
  }

  private static void array(StringBuilder out, List<String> items) {
    out.append('[').append(String.join(",", items)).append(']');
  }

  private static final DateTimeFormatter MICROS = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS");

  private static String plain(Type type, Object value) {
    switch (type.typeId()) {
      case FLOAT:
        return Double.toString(((Float) value).doubleValue());
      case DECIMAL:
        return ((BigDecimal) value).toPlainString();
      case DATE:
        return (value instanceof LocalDate ? (LocalDate) value : LocalDate.ofEpochDay((Integer) value)).toString();
      case TIMESTAMP:
        boolean zoned = ((Types.TimestampType) type).shouldAdjustToUTC();
        return MICROS.format(moment(value)) + (zoned ? "+00:00" : "");
      case FIXED:
      case BINARY:
        ByteBuffer bytes = value instanceof byte[] ? ByteBuffer.wrap((byte[]) value) : ((ByteBuffer) value).duplicate();
        StringBuilder hex = new StringBuilder();
        while (bytes.hasRemaining()) {
          hex.append(String.format("%02x", bytes.get()));
        }
        return hex.toString();
      default:
        return value.toString();
    }
  }

  private static LocalDateTime moment(Object value) {
    if (value instanceof Long) {
      return LocalDateTime.ofEpochSecond(0, 0, ZoneOffset.UTC).plus((Long) value, ChronoUnit.MICROS);
    }
    return value instanceof OffsetDateTime
        ? ((OffsetDateTime) value).withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()
        : (LocalDateTime) value;
  }

  private static void quote(StringBuilder out, String text) {
    out.append('"');
    for (char c : text.toCharArray()) {
      int known = "\"\\\n\r\t\b\f".indexOf(c);
      if (known >= 0) {
        out.append('\\').append("\"\\nrtbf".charAt(known));
      } else if (c < ' ' || c > '~') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  // small parts -------------------------------------------------------------------------------------------------------

  private static Table load(String key, String name) {
    return CATALOGS.get(key).loadTable(TableIdentifier.parse(name));
  }

  private static JsonNode read(String json) throws Exception {
    return JsonUtil.mapper().readTree(json);
  }

  private static Map<String, String> strings(JsonNode node) {
    Map<String, String> out = new HashMap<>();
    node.properties().forEach(e -> out.put(e.getKey(), e.getValue().asText()));
    return out;
  }
}
