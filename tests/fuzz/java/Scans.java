package org.apache.iceberg.data;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.expressions.Evaluator;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.ExpressionParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/** Rows of a table, as Iceberg's generic reader gives them. */
final class Scans {
  private Scans() {}

  /** One row of a data file, with its position there. */
  static final class Found {
    final FileScanTask task;
    final Record row;
    final long position;

    Found(FileScanTask task, Record row, long position) {
      this.task = task;
      this.row = row;
      this.position = position;
    }
  }

  static JsonNode read(Table table, JsonNode q) throws IOException {
    TableScan scan = table.newScan();
    if (q.hasNonNull("ref")) {
      scan = scan.useRef(q.get("ref").asText());
    } else if (q.hasNonNull("snapshot")) {
      scan = scan.useSnapshot(q.get("snapshot").asLong());
    }
    Schema schema = scan.schema();
    scan = scan.filter(filter(schema, q));
    ObjectNode out = FuzzPeer.NODES.objectNode();
    ArrayNode columns = out.putArray("columns");
    for (Types.NestedField f : schema.columns()) {
      columns.addArray().add(f.fieldId()).add(f.name()).add(f.type().toString());
    }
    ArrayNode rows = out.putArray("rows");
    GenericReader reader = new GenericReader(scan, false);
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        try (CloseableIterable<Record> records = reader.open(task)) {
          records.forEach(r -> rows.add(Values.json(schema.asStruct(), r)));
        }
      }
    }
    ObjectNode refs = out.putObject("refs");
    table.refs().forEach((name, ref) -> refs.put(name, ref.snapshotId()));
    return out;
  }

  static Expression filter(Schema schema, JsonNode q) {
    return q.hasNonNull("filter")
        ? ExpressionParser.fromJson(q.get("filter").toString(), schema)
        : Expressions.alwaysTrue();
  }

  /** What a commit to a branch builds on: one that is not there is made from main. */
  static Snapshot base(Table table, String branch) {
    return table.snapshot(branch) == null ? table.currentSnapshot() : table.snapshot(branch);
  }

  /** The rows that a commit to a branch builds on, by file, with those that were deleted left out. */
  static List<List<Found>> rowsByFile(Table table, String branch) throws IOException {
    List<List<Found>> out = new ArrayList<>();
    if (base(table, branch) == null) {
      return out;
    }
    Schema columns = table.schema();
    Schema wide = TypeUtil.join(columns, new Schema(MetadataColumns.ROW_POSITION));
    String ref = table.snapshot(branch) == null ? "main" : branch;
    TableScan scan = table.newScan().useRef(ref).project(wide);
    GenericReader reader = new GenericReader(scan, false);
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        List<Found> found = new ArrayList<>();
        try (CloseableIterable<Record> records = reader.open(task)) {
          for (Record r : records) {
            Record row = GenericRecord.create(columns);
            for (int i = 0; i < columns.columns().size(); i++) {
              row.set(i, r.get(i));
            }
            long position = (Long) r.getField(MetadataColumns.ROW_POSITION.name());
            found.add(new Found(task, row, position));
          }
        }
        out.add(found);
      }
    }
    return out;
  }

  static java.util.function.Predicate<Record> test(Schema schema, Expression filter) {
    Evaluator evaluator = new Evaluator(schema.asStruct(), filter);
    InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
    return row -> evaluator.eval(wrapper.wrap(row));
  }
}
