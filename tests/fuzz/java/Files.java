package org.apache.iceberg.data;

import java.io.IOException;
import java.util.List;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.FanoutDataWriter;
import org.apache.iceberg.io.OutputFileFactory;

/** Data files written by Iceberg's generic writer. */
final class Files {
  private static int number = 0;

  private Files() {}

  static OutputFileFactory factory(Table table, FileFormat format) {
    return OutputFileFactory.builderFor(table, number++, 1).format(format).build();
  }

  static List<DataFile> write(Table table, Schema schema, Iterable<Record> rows) throws IOException {
    GenericFileWriterFactory writers = GenericFileWriterFactory.builderFor(table).dataSchema(schema).build();
    FanoutDataWriter<Record> writer =
        new FanoutDataWriter<>(writers, factory(table, FileFormat.PARQUET), table.io(), 1L << 30);
    PartitionKey key = new PartitionKey(table.spec(), schema);
    InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
    try (writer) {
      for (Record row : rows) {
        key.partition(wrapper.wrap(row));
        writer.write(row, table.spec(), key);
      }
    }
    return writer.result().dataFiles();
  }
}
