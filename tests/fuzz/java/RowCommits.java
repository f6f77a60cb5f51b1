package org.apache.iceberg.data;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.DeleteFiles;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.ReplacePartitions;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expression;

/** Commits that add data files and take away others. */
final class RowCommits {
  private RowCommits() {}

  static JsonNode append(Table table, JsonNode q) throws IOException {
    AppendFiles append = q.path("fast").asBoolean() ? table.newFastAppend() : table.newAppend();
    for (DataFile file : Files.write(table, table.schema(), Values.rows(table.schema(), q.get("rows")))) {
      append.appendFile(file);
    }
    if (q.hasNonNull("stage")) {
      append.set("wap.id", q.get("stage").asText()).stageOnly();
    } else {
      append.toBranch(branch(q));
    }
    append.commit();
    ObjectNode out = FuzzPeer.NODES.objectNode();
    table.refresh();
    for (Snapshot s : table.snapshots()) {
      if (q.hasNonNull("stage") && q.get("stage").asText().equals(s.summary().get("wap.id"))) {
        out.put("staged", s.snapshotId());
      }
    }
    return out;
  }

  /** Copy-on-write: files with rows that match are written again without them, and rows are added. */
  static JsonNode overwrite(Table table, JsonNode q) throws IOException {
    Schema schema = table.schema();
    Expression filter = Scans.filter(schema, q);
    Predicate<Record> gone = Scans.test(schema, filter);
    OverwriteFiles overwrite = table.newOverwrite().toBranch(branch(q));
    List<Record> rows = Values.rows(schema, q.get("rows"));
    int files = 0;
    for (List<Scans.Found> found : Scans.rowsByFile(table, branch(q))) {
      if (found.stream().noneMatch(f -> gone.test(f.row))) {
        continue;
      }
      files++;
      overwrite.deleteFile(found.get(0).task.file());
      found.stream().filter(f -> !gone.test(f.row)).forEach(f -> rows.add(f.row));
    }
    Files.write(table, schema, rows).forEach(overwrite::addFile);
    // Java can't validate a commit that makes its branch.
    if (table.snapshot(branch(q)) != null) {
      overwrite.validateFromSnapshot(table.snapshot(branch(q)).snapshotId());
      overwrite.conflictDetectionFilter(filter).validateNoConflictingData().validateNoConflictingDeletes();
    }
    overwrite.commit();
    return FuzzPeer.NODES.numberNode(files);
  }

  static JsonNode overwriteByFilter(Table table, JsonNode q) throws IOException {
    Schema schema = table.schema();
    OverwriteFiles overwrite = table.newOverwrite().toBranch(branch(q));
    overwrite.overwriteByRowFilter(Scans.filter(schema, q));
    Files.write(table, schema, Values.rows(schema, q.get("rows"))).forEach(overwrite::addFile);
    overwrite.commit();
    return FuzzPeer.NODES.nullNode();
  }

  static JsonNode deleteByFilter(Table table, JsonNode q) {
    DeleteFiles delete = table.newDelete().toBranch(branch(q));
    delete.deleteFromRowFilter(Scans.filter(table.schema(), q)).commit();
    return FuzzPeer.NODES.nullNode();
  }

  static JsonNode replacePartitions(Table table, JsonNode q) throws IOException {
    ReplacePartitions replace = table.newReplacePartitions().toBranch(branch(q));
    Files.write(table, table.schema(), Values.rows(table.schema(), q.get("rows"))).forEach(replace::addFile);
    replace.commit();
    return FuzzPeer.NODES.nullNode();
  }

  /** Compaction: the first files, with their deletes applied, written as few. */
  static JsonNode rewriteFiles(Table table, JsonNode q) throws IOException {
    String branch = branch(q);
    Snapshot base = Scans.base(table, branch);
    if (base == null) {
      return FuzzPeer.NODES.numberNode(0);
    }
    Set<DataFile> gone = new HashSet<>();
    Set<DeleteFile> vectors = new HashSet<>();
    List<Record> rows = new ArrayList<>();
    for (List<Scans.Found> found : Scans.rowsByFile(table, branch)) {
      if (gone.size() >= q.get("files").asInt() || found.isEmpty()) {
        continue;
      }
      gone.add(found.get(0).task.file());
      found.get(0).task.deletes().stream().filter(d -> d.contentOffset() != null).forEach(vectors::add);
      found.forEach(f -> rows.add(f.row));
    }
    if (gone.isEmpty()) {
      return FuzzPeer.NODES.numberNode(0);
    }
    RewriteFiles rewrite = table.newRewrite().toBranch(branch).validateFromSnapshot(base.snapshotId());
    gone.forEach(rewrite::deleteFile);
    vectors.forEach(rewrite::deleteFile);
    Files.write(table, table.schema(), rows).forEach(rewrite::addFile);
    if (table.spec().isUnpartitioned() || q.path("keep_sequence").asBoolean()) {
      rewrite.dataSequenceNumber(base.sequenceNumber());
    }
    rewrite.commit();
    return FuzzPeer.NODES.numberNode(gone.size());
  }

  static String branch(JsonNode q) {
    return q.path("branch").asText("main");
  }
}
