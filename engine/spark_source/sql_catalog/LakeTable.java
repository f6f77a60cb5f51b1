package icecore;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table, metadata table or view as of the moment that a query was analysed. Two of one state are equal, so that what
 * Spark has cached of one is used for the other, and never for a later state.
 */
public class LakeTable implements SupportsRead, SupportsMetadataColumns, SupportsWrite, SupportsDeleteV2 {
  private static final String OVERWRITE = "overwrite";

  private final LakeCalls calls;
  private final String name;
  private final String state;
  private final StructType schema;
  private final StructType metadata;
  private final Transform[] partitioning;
  private final Map properties;
  private final Number size;
  private final LakeStreams streams;
  private volatile LakeChanges change;
  private boolean isTarget;

  /** `facts` is what `named_rows.py` tells of it; `calls` answer for its rows and changes. */
  public LakeTable(LakeCalls calls, String facts) {
    Map told = (Map) LakeCalls.read(facts);
    this.calls = calls;
    this.name = (String) told.get("name");
    this.state = (String) told.get("state");
    this.schema = (StructType) DataType$.MODULE$.fromJson((String) told.get("schema"));
    this.metadata = (StructType) DataType$.MODULE$.fromJson((String) told.get("metadata"));
    this.properties = (Map) told.get("properties");
    this.size = (Number) told.get("size");
    Map streamed = (Map) told.get("streamed");
    this.streams = streamed == null ? null : new LakeStreams(calls.session(), streamed);
    List parts = (List) told.get("partitioning");
    this.partitioning = new Transform[parts.size()];
    for (int i = 0; i < partitioning.length; i++) partitioning[i] = transform((List) parts.get(i));
  }

  private static Transform transform(List told) {
    if ("identity".equals(told.get(0))) return Expressions.identity((String) told.get(1));
    ArrayList arguments = new ArrayList();
    for (int i = 1; i < told.size(); i++) {
      Object next = told.get(i);
      boolean isColumn = next instanceof String;
      arguments.add(isColumn ? (Object) Expressions.column((String) next) : (Object) Expressions.literal(next));
    }
    org.apache.spark.sql.connector.expressions.Expression[] all =
        new org.apache.spark.sql.connector.expressions.Expression[arguments.size()];
    return Expressions.apply(
        (String) told.get(0), (org.apache.spark.sql.connector.expressions.Expression[]) arguments.toArray(all));
  }

  public String name() {
    return name;
  }

  /** A text that another state does not have: what is cached under a table's name goes by it. */
  public String id() {
    return state;
  }

  public StructType schema() {
    return schema;
  }

  public Transform[] partitioning() {
    return partitioning;
  }

  public Map properties() {
    return properties;
  }

  public Set capabilities() {
    EnumSet out = EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.V1_BATCH_WRITE,
        // Spark asks for it as well where partitions are to be replaced.
        TableCapability.BATCH_WRITE,
        TableCapability.OVERWRITE_DYNAMIC,
        TableCapability.TRUNCATE);
    if (streams != null) out.addAll(EnumSet.of(TableCapability.MICRO_BATCH_READ, TableCapability.STREAMING_WRITE));
    return out;
  }

  public MetadataColumn[] metadataColumns() {
    StructField[] fields = metadata.fields();
    MetadataColumn[] out = new MetadataColumn[fields.length];
    for (int i = 0; i < out.length; i++) out[i] = new Hidden(fields[i]);
    return out;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new LakeScan(this, schema, options);
  }

  public OptionalLong size() {
    return size == null ? OptionalLong.empty() : OptionalLong.of(size.longValue());
  }

  /** The columns of those names, whole. */
  public StructType fields(String[] names) {
    HashMap known = new HashMap();
    StructField[] hidden = metadata.fields();
    for (int i = 0; i < hidden.length; i++) known.put(hidden[i].name(), hidden[i]);
    StructField[] own = schema.fields();
    for (int i = 0; i < own.length; i++) known.put(own[i].name(), own[i]);
    StructField[] out = new StructField[names.length];
    for (int i = 0; i < out.length; i++) out[i] = (StructField) known.get(names[i]);
    return new StructType(out);
  }

  /**
   * The rows with at least those columns, and at least those that a filter leaves (as `FilterText` has it, or null), by
   * the options of a read; analysed, and their attributes are no other plan's.
   */
  public LogicalPlan plan(String[] names, String filter, Map options) {
    Dataset rows = (Dataset) calls.ask(Arrays.asList(new Object[] {"rows", Arrays.asList(names), filter, options}));
    return rows.queryExecution().analyzed();
  }

  /** The answers to aggregates of all rows that a filter keeps, as text; null where rows have to be read. */
  public List aggregates(String filter, List asked, Map options) {
    return (List) calls.ask(Arrays.asList(new Object[] {"aggregates", filter, asked, options}));
  }

  // Changes

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new Insert(this, info, "append");
  }

  /** The change that the command in hand asks for, as `LakeChanges` has it: predicates can't always say it. */
  public void change(LakeChanges change) {
    this.change = change;
  }

  public void deleteWhere(Predicate[] predicates) {
    LakeChanges asked = change;
    change = null;
    if (asked == null) throw new IllegalStateException(name + ": it got lost what is to be changed");
    calls.change(asked.call());
  }

  public boolean truncateTable() {
    calls.change(new Object[] {"delete-all", "{}"});
    return true;
  }

  /** This table as the target of a change, which no other equals: Spark would put rows that it has cached in its place. */
  public LakeTable asTarget() {
    isTarget = true;
    return this;
  }

  public String toString() {
    return name;
  }

  public boolean equals(Object o) {
    if (o == this || isTarget || !(o instanceof LakeTable)) return o == this;
    LakeTable other = (LakeTable) o;
    return !other.isTarget && other.name.equals(name) && other.state.equals(state);
  }

  public int hashCode() {
    return state.hashCode();
  }

  /** The columns that a query needs of a table. `LakeRule` puts the planned rows in its place. */
  public static class LakeScan implements SupportsPushDownRequiredColumns, SupportsReportStatistics {
    private final LakeTable table;
    private final CaseInsensitiveStringMap options;
    private StructType fields;

    public LakeScan(LakeTable table, StructType fields, CaseInsensitiveStringMap options) {
      this.table = table;
      this.fields = fields;
      this.options = options;
    }

    /** Whole columns: of structs Spark takes parts when the rows are in their place. */
    public void pruneColumns(StructType required) {
      fields = table.fields(required.fieldNames());
    }

    public Scan build() {
      return new LakeScan(table, fields, options);
    }

    public StructType readSchema() {
      return fields;
    }

    public String description() {
      return table.name();
    }

    public LakeTable table() {
      return table;
    }

    public LogicalPlan plan(String filter) {
      return table.plan(fields.fieldNames(), filter, options.asCaseSensitiveMap());
    }

    /** Those of the table; null for metadata columns, with which deleted rows may come. */
    public List aggregates(String filter, List asked) {
      String[] names = fields.fieldNames();
      for (int i = 0; i < names.length; i++) {
        if (!Arrays.asList(table.schema().fieldNames()).contains(names[i])) return null;
      }
      return table.aggregates(filter, asked, options.asCaseSensitiveMap());
    }

    public Batch toBatch() {
      throw new IllegalStateException(
          table.name() + " can't be read: spark.experimental.extraOptimizations must keep icecore.LakeRule");
    }

    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      if (fields.length() > table.schema().length()) {
        throw new IllegalArgumentException(
            "a stream by a table's name has no metadata columns; format(\"icecore\") has those that its option columns "
                + "names");
      }
      return table.streams.read(options, fields, checkpoint);
    }

    public Statistics estimateStatistics() {
      return new Size(table.size());
    }

    public boolean equals(Object o) {
      if (!(o instanceof LakeScan)) return false;
      LakeScan other = (LakeScan) o;
      return other.table.equals(table) && other.fields.equals(fields) && other.options.equals(options);
    }

    public int hashCode() {
      return table.hashCode();
    }

    /** What is known without planning: the bytes of all files. */
    private static class Size implements Statistics {
      private final OptionalLong bytes;

      Size(OptionalLong bytes) {
        this.bytes = bytes;
      }

      public OptionalLong sizeInBytes() {
        return bytes;
      }

      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    }
  }

  /** A column that `*` leaves out. */
  private static class Hidden implements MetadataColumn {
    private final StructField field;

    Hidden(StructField field) {
      this.field = field;
    }

    public String name() {
      return field.name();
    }

    public DataType dataType() {
      return field.dataType();
    }
  }

  /** Rows that are added, or that replace all there are, or those of their partitions. */
  private static class Insert implements InsertableRelation, SupportsTruncate, SupportsDynamicOverwrite, V1Write {
    private final LakeTable table;
    private final LogicalWriteInfo info;
    private final String change;

    Insert(LakeTable table, LogicalWriteInfo info, String change) {
      this.table = table;
      this.info = info;
      this.change = change;
    }

    public WriteBuilder truncate() {
      return new Insert(table, info, OVERWRITE);
    }

    public WriteBuilder overwriteDynamicPartitions() {
      return new Insert(table, info, "overwrite-partitions");
    }

    public Write build() {
      return this;
    }

    public InsertableRelation toInsertableRelation() {
      return this;
    }

    public void insert(org.apache.spark.sql.Dataset rows, boolean overwrite) {
      table.calls.change(new Object[] {change, rows, LakeCalls.text(info.options().asCaseSensitiveMap())});
    }

    public StreamingWrite toStreaming() {
      return table.streams.write(info, change.equals(OVERWRITE));
    }
  }
}
