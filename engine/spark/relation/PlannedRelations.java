package icecore;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/** What Python calls: a DataFrame of planned files, in few calls, since each one costs. */
public class PlannedRelations {
  private static final int MOST_KEPT_FILES = 100000;

  private final KeptPlans kept = new KeptPlans(MOST_KEPT_FILES);

  /**
   * A session with all settings of the one given, but those of `pinned` (lines of key=value), and those of `defaults`
   * that it doesn't have: the last one made, where nothing has changed since.
   */
  public SparkSession pinnedSession(SparkSession session, SparkSession last, String pinned, String defaults) {
    HashMap wanted = settings(session);
    Map pins = lines(defaults);
    pins.keySet().removeAll(wanted.keySet());
    pins.putAll(lines(pinned));
    wanted.putAll(pins);
    if (last != null && settings(last).equals(wanted)) return last;
    SparkSession made = session.cloneSession();
    for (Iterator i = pins.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry e = (Map.Entry) i.next();
      made.sessionState().conf().setConfString((String) e.getKey(), (String) e.getValue());
    }
    return made;
  }

  /**
   * The columns `fields` of the files of a plan as a DataFrame, with their constants; both types are given as JSON. `key`
   * tells the plan and the constants: where `plan` is null it is one that is kept, and the answer null if there is none.
   * `asked` chooses files by filters and knows aggregates, as `FilePruning` has it, as `isFiltered`; it may be null.
   * `isLocal` is of `PlannedParquet`.
   */
  public Object frame(
      SparkSession session,
      SparkSession pinned,
      String key,
      byte[] plan,
      String constants,
      String fields,
      String options,
      boolean isLocal,
      Function asked,
      boolean isFiltered) {
    PlanFiles planFiles = kept.get(key);
    if (planFiles == null) {
      if (plan == null) return null;
      planFiles = new PlanFiles(key, (StructType) DataType$.MODULE$.fromJson(constants), plan);
      kept.keep(planFiles);
    }
    StructType dataType = (StructType) DataType$.MODULE$.fromJson(fields);
    FilePruning pruning = asked == null ? null : new FilePruning(asked, isFiltered);
    HadoopFsRelation relation = new HadoopFsRelation(
        new PlannedFiles(pinned, planFiles, pruning),
        planFiles.constants(),
        dataType,
        scala.Option.empty(),
        new PlannedParquet(isLocal),
        org.apache.spark.api.python.PythonUtils.toScalaMap(lines(options)),
        pinned);
    return session.baseRelationToDataFrame(relation);
  }

  /**
   * A frame of the columns that fields given as JSON say: the SQL of each is in its metadata, which is the column's
   * otherwise, with whether it is cast to the field's type.
   */
  public Object shown(Dataset frame, String fields) {
    StructField[] found = ((StructType) DataType$.MODULE$.fromJson(fields)).fields();
    Column[] columns = new Column[found.length];
    for (int i = 0; i < columns.length; i++) {
      Metadata told = found[i].metadata();
      Column made = functions.expr(told.getString("sql"));
      if (told.getBoolean("cast")) made = made.cast(found[i].dataType());
      Metadata own = new MetadataBuilder().withMetadata(told).remove("sql").remove("cast").build();
      columns[i] = made.as(found[i].name(), own);
    }
    return frame.select(columns);
  }

  /** Has the queries of a session go by a rule, unless one of its class is there already. */
  public void keep(SparkSession session, Rule rule) {
    // As long as others keep rules of theirs.
    synchronized (session.experimental()) {
      Seq rules = session.experimental().extraOptimizations();
      for (int i = 0; i < rules.length(); i++) if (rules.apply(i).getClass() == rule.getClass()) return;
      session.experimental().extraOptimizations_$eq((Seq) rules.appended(rule));
    }
  }

  /** The name of a column that Spark's Parquet reader fills with the position of each row. */
  public String positionColumn() {
    return ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();
  }

  /** As `DeletedRows` has it. */
  public Object isDeleted(JavaSparkContext context, Column number, Column position, byte[] bits) {
    return new DeletedRows().isDeleted(context, number, position, bits);
  }

  private static HashMap settings(SparkSession session) {
    HashMap out = new HashMap();
    scala.collection.Iterator all = session.sessionState().conf().getAllConfs().iterator();
    while (all.hasNext()) {
      scala.Tuple2 pair = (scala.Tuple2) all.next();
      out.put(pair._1(), pair._2());
    }
    return out;
  }

  private static HashMap lines(String text) {
    HashMap out = new HashMap();
    String[] lines = text.split("\n");
    for (int i = 0; i < lines.length; i++) {
      int at = lines[i].indexOf('=');
      if (at > 0) out.put(lines[i].substring(0, at), lines[i].substring(at + 1));
    }
    return out;
  }
}
