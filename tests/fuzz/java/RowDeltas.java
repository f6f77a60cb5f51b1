package org.apache.iceberg.data;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.StructLikeMap;

/** Deletes of rows beside the data files, with rows that come at once. */
final class RowDeltas {
  private RowDeltas() {}

  static JsonNode byPosition(Table table, JsonNode q) throws IOException {
    Schema schema = table.schema();
    Predicate<Record> gone = Scans.test(schema, Scans.filter(schema, q));
    List<List<Scans.Found>> files = new ArrayList<>();
    for (List<Scans.Found> found : Scans.rowsByFile(table, RowCommits.branch(q))) {
      List<Scans.Found> hits = found.stream().filter(f -> gone.test(f.row)).collect(Collectors.toList());
      if (!hits.isEmpty()) {
        files.add(hits);
      }
    }
    RowDelta delta = table.newRowDelta().toBranch(RowCommits.branch(q));
    Snapshot base = table.snapshot(RowCommits.branch(q));
    if (base != null) {
      delta.validateFromSnapshot(base.snapshotId());
    }
    if (!files.isEmpty()) {
      if (TableUtil.formatVersion(table) >= 3) {
        vectors(table, files, delta);
      } else {
        positions(table, files, delta);
      }
      if (base != null) {
        delta.validateDataFilesExist(
            files.stream().map(f -> f.get(0).task.file().location()).collect(Collectors.toList()));
      }
    }
    Files.write(table, schema, Values.rows(schema, q.get("rows"))).forEach(delta::addRows);
    delta.commit();
    return FuzzPeer.NODES.numberNode(files.size());
  }

  private static void positions(Table table, List<List<Scans.Found>> files, RowDelta delta) throws IOException {
    GenericFileWriterFactory writers = GenericFileWriterFactory.builderFor(table).build();
    OutputFileFactory names = Files.factory(table, FileFormat.PARQUET);
    Map<Integer, StructLikeMap<List<Scans.Found>>> groups = new HashMap<>();
    for (List<Scans.Found> hits : files) {
      FileScanTask task = hits.get(0).task;
      groups
          .computeIfAbsent(task.spec().specId(), k -> StructLikeMap.create(task.spec().partitionType()))
          .computeIfAbsent(task.file().partition(), k -> new ArrayList<>())
          .addAll(hits);
    }
    for (Map.Entry<Integer, StructLikeMap<List<Scans.Found>>> bySpec : groups.entrySet()) {
      PartitionSpec spec = table.specs().get(bySpec.getKey());
      for (List<Scans.Found> hits : bySpec.getValue().values()) {
        StructLike partition = hits.get(0).task.file().partition();
        hits.sort(
            (a, b) -> {
              int c = a.task.file().location().compareTo(b.task.file().location());
              return c != 0 ? c : Long.compare(a.position, b.position);
            });
        PositionDeleteWriter<Record> writer =
            writers.newPositionDeleteWriter(names.newOutputFile(spec, partition), spec, partition);
        try (writer) {
          for (Scans.Found f : hits) {
            writer.write(PositionDelete.<Record>create().set(f.task.file().location(), f.position));
          }
        }
        delta.addDeletes(writer.toDeleteFile());
      }
    }
  }

  private static void vectors(Table table, List<List<Scans.Found>> files, RowDelta delta) throws IOException {
    Map<String, FileScanTask> tasks = new HashMap<>();
    files.forEach(f -> tasks.put(f.get(0).task.file().location(), f.get(0).task));
    BaseDeleteLoader loader = new BaseDeleteLoader(d -> table.io().newInputFile(d));
    BaseDVFileWriter writer =
        new BaseDVFileWriter(
            Files.factory(table, FileFormat.PUFFIN),
            path -> {
              List<DeleteFile> before = new ArrayList<>();
              for (DeleteFile d : tasks.get(path).deletes()) {
                if (ContentFileUtil.isDV(d) || d.content() == org.apache.iceberg.FileContent.POSITION_DELETES) {
                  before.add(d);
                }
              }
              PositionDeleteIndex none = null;
              return before.isEmpty() ? none : loader.loadPositionDeletes(before, path);
            });
    try (writer) {
      for (List<Scans.Found> hits : files) {
        FileScanTask task = hits.get(0).task;
        for (Scans.Found f : hits) {
          writer.delete(task.file().location(), f.position, task.spec(), task.file().partition());
        }
      }
    }
    DeleteWriteResult result = writer.result();
    result.deleteFiles().forEach(delta::addDeletes);
    result.rewrittenDeleteFiles().forEach(delta::removeDeletes);
  }

  /** Deletes by the values of key columns: global where a spec without fields is given, else in each row's partition. */
  static JsonNode byKeys(Table table, JsonNode q) throws IOException {
    Schema schema = table.schema();
    int[] ids = new int[q.get("fields").size()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = q.get("fields").get(i).asInt();
    }
    List<Integer> wanted = java.util.Arrays.stream(ids).boxed().collect(Collectors.toList());
    Schema keys = org.apache.iceberg.types.TypeUtil.select(schema, new java.util.HashSet<>(wanted));
    PartitionSpec spec = table.specs().get(q.get("spec").asInt());
    GenericFileWriterFactory writers =
        GenericFileWriterFactory.builderFor(table).equalityFieldIds(ids).equalityDeleteRowSchema(keys).build();
    OutputFileFactory names = Files.factory(table, FileFormat.PARQUET);
    RowDelta delta = table.newRowDelta().toBranch(RowCommits.branch(q));
    StructLikeMap<List<Record>> groups = StructLikeMap.create(spec.partitionType());
    PartitionKey key = new PartitionKey(spec, schema);
    InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
    for (Record row : Values.rows(schema, q.get("gone"))) {
      key.partition(wrapper.wrap(row));
      groups.computeIfAbsent(key.copy(), k -> new ArrayList<>()).add(row);
    }
    for (Map.Entry<StructLike, List<Record>> group : groups.entrySet()) {
      StructLike partition = spec.isUnpartitioned() ? null : group.getKey();
      EqualityDeleteWriter<Record> writer =
          writers.newEqualityDeleteWriter(names.newOutputFile(spec, partition), spec, partition);
      try (writer) {
        for (Record row : group.getValue()) {
          Record narrow = GenericRecord.create(keys);
          keys.columns().forEach(c -> narrow.setField(c.name(), row.getField(c.name())));
          writer.write(narrow);
        }
      }
      delta.addDeletes(writer.toDeleteFile());
    }
    Files.write(table, schema, Values.rows(schema, q.get("rows"))).forEach(delta::addRows);
    delta.commit();
    return FuzzPeer.NODES.numberNode(groups.size());
  }
}
