package icecore;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/** Streams from a table and into it, by its name in a catalog: they are those of `format("icecore")`. */
public class LakeStreams {
  private static final String FORMAT = "icecore";

  private final SparkSession session;
  private final Map own;

  /** `own` are the options of the format that say which table it is. */
  public LakeStreams(SparkSession session, Map own) {
    this.session = session;
    this.own = own;
  }

  /** What is appended to the table; the columns are those of `schema`. */
  public MicroBatchStream read(CaseInsensitiveStringMap given, StructType schema, String checkpoint) {
    CaseInsensitiveStringMap options = with(given);
    TableProvider source = source();
    StructType found = source.inferSchema(options);
    if (!found.sameType(schema)) {
      throw new IllegalArgumentException(
          "a stream by a table's name has all of its columns, " + schema.simpleString() + ", but the options give "
              + found.simpleString());
    }
    SupportsRead table = (SupportsRead) table(source, found, options);
    return table.newScanBuilder(options).build().toMicroBatchStream(checkpoint);
  }

  /** The commit of each micro-batch; where it is to truncate, a batch replaces all rows. */
  public StreamingWrite write(LogicalWriteInfo info, boolean truncates) {
    CaseInsensitiveStringMap options = with(info.options());
    SupportsWrite table = (SupportsWrite) table(source(), info.schema(), options);
    WriteBuilder builder = table.newWriteBuilder(new Write(info, options));
    if (truncates) builder = ((SupportsTruncate) builder).truncate();
    return builder.build().toStreaming();
  }

  private TableProvider source() {
    Option found = DataSource$.MODULE$.lookupDataSourceV2(FORMAT, session.sessionState().conf());
    if (found.isEmpty()) throw new IllegalStateException("the session does not know format(\"" + FORMAT + "\")");
    return (TableProvider) found.get();
  }

  private static Table table(TableProvider source, StructType schema, CaseInsensitiveStringMap options) {
    return source.getTable(schema, new Transform[0], options.asCaseSensitiveMap());
  }

  private CaseInsensitiveStringMap with(CaseInsensitiveStringMap given) {
    HashMap all = new HashMap(given.asCaseSensitiveMap());
    all.putAll(own);
    return new CaseInsensitiveStringMap(all);
  }

  /** A write with those options. */
  private static class Write implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final CaseInsensitiveStringMap options;

    Write(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
      this.info = info;
      this.options = options;
    }

    public CaseInsensitiveStringMap options() {
      return options;
    }

    public String queryId() {
      return info.queryId();
    }

    public StructType schema() {
      return info.schema();
    }
  }
}
