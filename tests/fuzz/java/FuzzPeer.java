package org.apache.iceberg.data;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.jdbc.JdbcCatalog;

/** Reads and commits with Iceberg's own classes as told, one JSON object a line: {"ok": ...} or {"error": "..."}. */
public final class FuzzPeer {
  static final ObjectMapper MAPPER = new ObjectMapper();
  static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  private static JdbcCatalog catalog;
  /** A table as it was loaded by "hold". */
  private static Table held;

  private FuzzPeer() {}

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    System.setOut(System.err);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ObjectNode answer = NODES.objectNode();
      try {
        answer.set("ok", answer(MAPPER.readTree(line)));
      } catch (Throwable e) {
        answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
        answer.put("trace", trace(e));
      }
      out.println(MAPPER.writeValueAsString(answer));
    }
  }

  private static String trace(Throwable e) {
    StringBuilder out = new StringBuilder();
    for (Throwable t = e; t != null; t = t.getCause()) {
      out.append(t).append('\n');
      for (int i = 0; i < Math.min(12, t.getStackTrace().length); i++) {
        out.append("  ").append(t.getStackTrace()[i]).append('\n');
      }
    }
    return out.toString();
  }

  private static JsonNode answer(JsonNode q) throws Exception {
    String op = q.get("op").asText();
    if (op.equals("close")) {
      return close();
    }
    if (op.equals("open")) {
      return open(q.get("warehouse").asText());
    }
    TableIdentifier name = TableIdentifier.parse(q.get("table").asText());
    if (op.equals("rename")) {
      catalog.renameTable(name, TableIdentifier.parse(q.get("to").asText()));
      return NODES.nullNode();
    }
    if (op.equals("drop")) {
      return NODES.booleanNode(catalog.dropTable(name, false));
    }
    Table table = q.path("held").asBoolean() ? held : load(name, q);
    switch (op) {
      case "hold":
        held = table;
        return NODES.nullNode();
      case "read":
        return Scans.read(table, q);
      case "append":
        return RowCommits.append(table, q);
      case "overwrite":
        return RowCommits.overwrite(table, q);
      case "overwrite_by_filter":
        return RowCommits.overwriteByFilter(table, q);
      case "delete_by_filter":
        return RowCommits.deleteByFilter(table, q);
      case "replace_partitions":
        return RowCommits.replacePartitions(table, q);
      case "row_delta":
        return RowDeltas.byPosition(table, q);
      case "equality_delta":
        return RowDeltas.byKeys(table, q);
      case "rewrite_files":
        return RowCommits.rewriteFiles(table, q);
      default:
        return ShapeCommits.commit(table, op, q);
    }
  }

  private static Table load(TableIdentifier name, JsonNode q) {
    return q.hasNonNull("location")
        ? new HadoopTables(new Configuration()).load(q.get("location").asText())
        : catalog.loadTable(name);
  }

  private static JsonNode close() throws Exception {
    if (catalog != null) {
      catalog.close();
    }
    catalog = null;
    held = null;
    return NODES.nullNode();
  }

  private static JsonNode open(String warehouse) throws Exception {
    close();
    catalog = new JdbcCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize(
        "icecore",
        Map.of(
            "uri", "jdbc:sqlite:" + warehouse + "/icecore.db?busy_timeout=20000",
            "warehouse", warehouse,
            "jdbc.schema-version", "V1",
            "clients", "1",
            "cache-enabled", "false"));
    return NODES.nullNode();
  }
}
