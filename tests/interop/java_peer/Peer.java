package org.apache.iceberg;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.expressions.Binder;
import org.apache.iceberg.expressions.Evaluator;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.ManifestEvaluator;
import org.apache.iceberg.expressions.Projections;
import org.apache.iceberg.expressions.ResidualEvaluator;
import org.apache.iceberg.expressions.StrictMetricsEvaluator;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.transforms.Transforms;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.BinaryUtil;
import org.apache.iceberg.util.TableScanUtil;
import org.apache.iceberg.util.UnicodeUtil;
import org.apache.iceberg.view.ViewMetadataParser;

/** Answers questions, one JSON object a line, with what Iceberg's own classes say: {"ok": ...} or {"error": "..."}. */
public final class Peer {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  private Peer() {}

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ObjectNode answer = NODES.objectNode();
      try {
        answer.set("ok", answer(MAPPER.readTree(line)));
      } catch (Throwable e) {
        answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
      }
      out.println(MAPPER.writeValueAsString(answer));
    }
  }

  private static JsonNode answer(JsonNode q) throws Exception {
    switch (q.get("op").asText()) {
      case "split":
        return split(q);
      case "expression":
        return expression(q);
      case "metrics":
        return metrics(q);
      case "partitions":
        return partitions(q);
      case "summaries":
        return summaries(q);
      case "value":
        return value(q);
      case "bytes":
        return json(type(q), Conversions.fromByteBuffer(type(q), bytes(q.get("bytes"))));
      case "truncate":
        return truncate(q);
      case "metadata":
        return MAPPER.readTree(TableMetadataParser.toJson(TableMetadataParser.fromJson("s3://b/m.json", text(q))));
      case "view":
        return MAPPER.readTree(ViewMetadataParser.toJson(ViewMetadataParser.fromJson("s3://b/m.json", text(q))));
      case "schema":
        return MAPPER.readTree(SchemaParser.toJson(SchemaParser.fromJson(text(q))));
      case "spec":
        return MAPPER.readTree(PartitionSpecParser.toJson(PartitionSpecParser.fromJson(schema(q), text(q))));
      case "sort":
        return MAPPER.readTree(SortOrderParser.toJson(SortOrderParser.fromJson(schema(q), text(q))));
      case "ref":
        return MAPPER.readTree(SnapshotRefParser.toJson(SnapshotRefParser.fromJson(text(q))));
      case "mapping":
        return MAPPER.readTree(NameMappingParser.toJson(NameMappingParser.fromJson(text(q))));
      default:
        throw new IllegalArgumentException("no such question: " + q);
    }
  }

  private static String text(JsonNode q) {
    return q.get("json").toString();
  }

  private static Schema schema(JsonNode q) {
    return SchemaParser.fromJson(q.get("schema").toString());
  }

  private static PartitionSpec spec(JsonNode q, Schema schema) {
    return q.hasNonNull("spec")
        ? PartitionSpecParser.fromJson(schema, q.get("spec").toString())
        : PartitionSpec.unpartitioned();
  }

  private static Expression filter(JsonNode q, Schema schema) {
    return ExpressionParser.fromJson(q.get("expression").toString(), schema);
  }

  private static Type type(JsonNode q) {
    return Types.fromPrimitiveString(q.get("type").asText());
  }

  private static ByteBuffer bytes(JsonNode node) {
    if (node == null || node.isNull()) {
      return null;
    }
    String hex = node.asText();
    byte[] out = new byte[hex.length() / 2];
    for (int i = 0; i < out.length; i++) {
      out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return ByteBuffer.wrap(out);
  }

  private static String hex(ByteBuffer buffer) {
    StringBuilder out = new StringBuilder();
    ByteBuffer copy = buffer.duplicate();
    while (copy.hasRemaining()) {
      out.append(String.format("%02x", copy.get()));
    }
    return out.toString();
  }

  private static JsonNode json(Type type, Object value) throws Exception {
    return value == null ? NODES.nullNode() : MAPPER.readTree(SingleValueParser.toJson(type, value));
  }

  // Splits: files as [path, size, split offsets, [[size of a delete file, part of it], ...]]

  private static JsonNode split(JsonNode q) {
    Schema schema = new Schema(Types.NestedField.required(1, "id", Types.LongType.get()));
    PartitionSpec spec = PartitionSpec.unpartitioned();
    List<FileScanTask> tasks = new ArrayList<>();
    for (JsonNode file : q.get("files")) {
      DataFiles.Builder data =
          DataFiles.builder(spec)
              .withPath(file.get(0).asText())
              .withFormat(FileFormat.PARQUET)
              .withFileSizeInBytes(file.get(1).asLong())
              .withRecordCount(1);
      if (!file.get(2).isNull()) {
        List<Long> offsets = new ArrayList<>();
        file.get(2).forEach(o -> offsets.add(o.asLong()));
        data.withSplitOffsets(offsets);
      }
      List<DeleteFile> deletes = new ArrayList<>();
      for (JsonNode d : file.get(3)) {
        FileMetadata.Builder delete =
            FileMetadata.deleteFileBuilder(spec)
                .ofPositionDeletes()
                .withPath("d" + deletes.size() + (d.get(1).isNull() ? ".parquet" : ".puffin"))
                .withFileSizeInBytes(d.get(0).asLong())
                .withRecordCount(1);
        if (!d.get(1).isNull()) {
          delete
              .withReferencedDataFile(file.get(0).asText())
              .withContentOffset(0)
              .withContentSizeInBytes(d.get(1).asLong());
        }
        deletes.add(delete.build());
      }
      tasks.add(
          new BaseFileScanTask(
              data.build(),
              deletes.toArray(new DeleteFile[0]),
              SchemaParser.toJson(schema),
              PartitionSpecParser.toJson(spec),
              ResidualEvaluator.unpartitioned(org.apache.iceberg.expressions.Expressions.alwaysTrue())));
    }
    ArrayNode groups = NODES.arrayNode();
    for (ScanTaskGroup<FileScanTask> group :
        TableScanUtil.planTaskGroups(
            tasks, q.get("target").asLong(), q.get("lookback").asInt(), q.get("cost").asLong())) {
      ArrayNode parts = groups.addArray();
      for (FileScanTask task : group.tasks()) {
        parts.addArray().add(task.file().location()).add(task.start()).add(task.length());
      }
    }
    return groups;
  }

  // Expressions

  private static JsonNode expression(JsonNode q) throws Exception {
    Schema schema = schema(q);
    boolean typed = q.get("typed").asBoolean();
    Expression parsed = typed ? filter(q, schema) : ExpressionParser.fromJson(q.get("expression").toString());
    ObjectNode out = NODES.objectNode();
    out.set("json", MAPPER.readTree(ExpressionParser.toJson(parsed)));
    out.set("bound", MAPPER.readTree(ExpressionParser.toJson(Binder.bind(schema.asStruct(), parsed, true))));
    return out;
  }

  private static JsonNode metrics(JsonNode q) {
    Schema schema = schema(q);
    Expression filter = filter(q, schema);
    InclusiveMetricsEvaluator inclusive = new InclusiveMetricsEvaluator(schema, filter, true);
    StrictMetricsEvaluator strict = new StrictMetricsEvaluator(schema, filter, true);
    ArrayNode out = NODES.arrayNode();
    for (JsonNode f : q.get("files")) {
      DataFile file =
          DataFiles.builder(PartitionSpec.unpartitioned())
              .withPath("a.parquet")
              .withFileSizeInBytes(10)
              .withMetrics(
                  new Metrics(
                      f.get("records").asLong(),
                      null,
                      counts(f.get("values")),
                      counts(f.get("nulls")),
                      counts(f.get("nans")),
                      bounds(f.get("lower")),
                      bounds(f.get("upper"))))
              .build();
      out.add(NODES.arrayNode().add(inclusive.eval(file)).add(strict.eval(file)));
    }
    return out;
  }

  private static Map<Integer, Long> counts(JsonNode node) {
    if (node == null || node.isNull()) {
      return null;
    }
    Map<Integer, Long> out = new HashMap<>();
    node.fields().forEachRemaining(e -> out.put(Integer.parseInt(e.getKey()), e.getValue().asLong()));
    return out;
  }

  private static Map<Integer, ByteBuffer> bounds(JsonNode node) {
    if (node == null || node.isNull()) {
      return null;
    }
    Map<Integer, ByteBuffer> out = new HashMap<>();
    node.fields().forEachRemaining(e -> out.put(Integer.parseInt(e.getKey()), bytes(e.getValue())));
    return out;
  }

  private static JsonNode partitions(JsonNode q) throws Exception {
    Schema schema = schema(q);
    PartitionSpec spec = spec(q, schema);
    Expression filter = filter(q, schema);
    Expression inclusive = Projections.inclusive(spec, true).project(filter);
    Expression strict = Projections.strict(spec, true).project(filter);
    Evaluator might = new Evaluator(spec.partitionType(), inclusive);
    Evaluator surely = new Evaluator(spec.partitionType(), strict);
    ResidualEvaluator residuals = ResidualEvaluator.of(spec, filter, true);
    ObjectNode out = NODES.objectNode();
    out.put("inclusive", inclusive.toString());
    out.put("strict", strict.toString());
    ArrayNode answers = out.putArray("partitions");
    for (JsonNode row : q.get("partitions")) {
      PartitionData partition = new PartitionData(spec.partitionType());
      for (int i = 0; i < row.size(); i++) {
        Type field = spec.partitionType().fields().get(i).type();
        partition.set(i, row.get(i).isNull() ? null : SingleValueParser.fromJson(field, row.get(i)));
      }
      Expression residual = residuals.residualFor(partition);
      answers.addArray().add(might.eval(partition)).add(surely.eval(partition)).add(residual.op().toString());
    }
    return out;
  }

  private static JsonNode summaries(JsonNode q) {
    Schema schema = schema(q);
    PartitionSpec spec = spec(q, schema);
    ManifestEvaluator evaluator = ManifestEvaluator.forRowFilter(filter(q, schema), spec, true);
    ArrayNode out = NODES.arrayNode();
    for (JsonNode manifest : q.get("manifests")) {
      List<ManifestFile.PartitionFieldSummary> fields = new ArrayList<>();
      for (JsonNode f : manifest) {
        fields.add(summary(f));
      }
      out.add(evaluator.eval(proxy(ManifestFile.class, Map.of("partitions", fields))));
    }
    return out;
  }

  private static ManifestFile.PartitionFieldSummary summary(JsonNode f) {
    Map<String, Object> found = new HashMap<>();
    found.put("containsNull", f.get("null").asBoolean());
    found.put("containsNaN", f.get("nan").isNull() ? null : f.get("nan").asBoolean());
    found.put("lowerBound", bytes(f.get("lower")));
    found.put("upperBound", bytes(f.get("upper")));
    return proxy(ManifestFile.PartitionFieldSummary.class, found);
  }

  private static <T> T proxy(Class<T> face, Map<String, ?> answers) {
    InvocationHandler handler =
        (self, method, args) -> {
          if (!answers.containsKey(method.getName())) {
            throw new UnsupportedOperationException(method.getName());
          }
          return answers.get(method.getName());
        };
    return face.cast(Proxy.newProxyInstance(face.getClassLoader(), new Class<?>[] {face}, handler));
  }

  // Values

  private static JsonNode value(JsonNode q) throws Exception {
    Type type = type(q);
    Object value = SingleValueParser.fromJson(type, q.get("json"));
    ObjectNode out = NODES.objectNode();
    out.put("bytes", hex(Conversions.toByteBuffer(type, value)));
    out.set("json", json(type, value));
    ObjectNode transformed = out.putObject("transforms");
    for (JsonNode name : q.get("transforms")) {
      Transform<Object, Object> transform = (Transform<Object, Object>) Transforms.fromString(name.asText());
      if (transform.canTransform(type)) {
        Object result = transform.bind(type).apply(value);
        transformed.set(name.asText(), json(transform.getResultType(type), result));
      }
    }
    return out;
  }

  private static JsonNode truncate(JsonNode q) throws Exception {
    Type type = type(q);
    int length = q.get("length").asInt();
    ArrayNode out = NODES.arrayNode();
    if (type.typeId() == Type.TypeID.STRING) {
      Literal<CharSequence> text = Literal.of(q.get("json").asText());
      Literal<CharSequence> upper = UnicodeUtil.truncateStringMax(text, length);
      out.add(json(type, UnicodeUtil.truncateStringMin(text, length).value()));
      return out.add(json(type, upper == null ? null : upper.value()));
    }
    Literal<ByteBuffer> data = Literal.of(bytes(q.get("json")));
    Literal<ByteBuffer> upper = BinaryUtil.truncateBinaryMax(data, length);
    out.add(hex(BinaryUtil.truncateBinaryMin(data, length).value()));
    return out.add(upper == null ? NODES.nullNode() : NODES.textNode(hex(upper.value())));
  }
}
