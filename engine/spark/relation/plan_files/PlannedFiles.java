package icecore;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * The files of a plan, as an index from which Spark takes what it reads: no folder is listed, no name is hidden, and
 * the constants of each file come as its partition columns.
 *
 * Sizes are asked of the file system, in parallel and only for files that a query reads: with a size that is too small
 * Spark would leave out row groups without a word. It lives in the driver alone.
 */
public class PlannedFiles implements FileIndex {
  /** The constant of `numbered` files. */
  public static final String NUMBER = "__icecore_planned";

  private final PlanFiles files;
  private final FileStatuses statuses;
  private final FilePruning pruning;
  private final StructType constants;
  private final InternalRow[] values;
  private PlannedFiles numbered;

  /** `pruning` may be null. */
  public PlannedFiles(SparkSession session, PlanFiles files, FilePruning pruning) {
    this.files = files;
    this.statuses = new FileStatuses(session, files);
    this.pruning = pruning;
    this.constants = files.constants();
    this.values = files.values();
  }

  private PlannedFiles(PlannedFiles of) {
    this.files = of.files;
    this.statuses = of.statuses;
    this.pruning = of.pruning;
    this.constants = of.constants.add(NUMBER, DataTypes.IntegerType);
    int known = of.constants.length();
    this.values = new InternalRow[files.count()];
    for (int i = 0; i < values.length; i++) {
      Object[] row = Arrays.copyOf(((GenericInternalRow) of.values[i]).values(), known + 1);
      row[known] = Integer.valueOf(i);
      this.values[i] = new GenericInternalRow(row);
    }
    this.numbered = this;
  }

  /** The same files, each with its place among them as a constant, by which `JoinedFiles` chooses. */
  public synchronized PlannedFiles numbered() {
    if (numbered == null) numbered = new PlannedFiles(this);
    return numbered;
  }

  /** Whether a filter may leave some of the files. */
  public boolean canChoose() {
    return pruning != null && files.count() > 1;
  }

  /** The numbers of files that may hold rows of a filter in the words of `FilterText`; null where that is not known. */
  public BitSet chosenBy(String filter) {
    return pruning == null ? null : pruning.joined(files.count(), filter);
  }

  public Seq rootPaths() {
    return seq(new ArrayList());
  }

  public StructType partitionSchema() {
    return constants;
  }

  public long sizeInBytes() {
    return files.size();
  }

  /** Nothing, since data files never change. */
  public void refresh() {}

  public String[] inputFiles() {
    String[] out = new String[files.count()];
    for (int i = 0; i < out.length; i++) out[i] = files.path(i).toUri().toString();
    return out;
  }

  /** The files that a query reads. Spark does not test partition filters again, so they are applied exactly. */
  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    int[] chosen = matching(partitionFilters);
    if (pruning != null && !dataFilters.isEmpty()) chosen = pruning.pruned(chosen, files.count(), dataFilters);
    FileStatus[] found = statuses.of(chosen);
    // Spark goes by each directory, so that neighbours with the same constants are in one.
    ArrayList out = new ArrayList();
    for (int start = 0, end = 0; start < chosen.length; start = end) {
      InternalRow row = values[chosen[start]];
      while (end < chosen.length && values[chosen[end]] == row) end++;
      out.add(PartitionDirectory.apply(row, (FileStatus[]) Arrays.copyOfRange(found, start, end)));
    }
    return seq(out);
  }

  /** The answers to aggregates of all rows that a filter keeps, as `KnownAggregates.Source` has it. */
  public List answers(String filter, List questions) {
    return pruning == null ? null : pruning.answers(filter, questions);
  }

  private int[] matching(Seq filters) {
    int[] chosen = new int[files.count()];
    int count = 0;
    BasePredicate predicate = filters.isEmpty() ? null : predicate(filters);
    for (int i = 0; i < files.count(); i++) {
      if (predicate == null || predicate.eval(values[i])) chosen[count++] = i;
    }
    return Arrays.copyOf(chosen, count);
  }

  private BasePredicate predicate(Seq filters) {
    Expression all = (Expression) filters.apply(0);
    for (int i = 1; i < filters.length(); i++) all = new And(all, (Expression) filters.apply(i));
    HashMap used = new HashMap();
    scala.collection.Iterator references = all.references().iterator();
    while (references.hasNext()) {
      Attribute a = (Attribute) references.next();
      used.put(a.name(), a);
    }
    ArrayList input = new ArrayList();
    StructField[] fields = constants.fields();
    for (int i = 0; i < fields.length; i++) {
      Object a = used.get(fields[i].name());
      input.add(a != null ? a : unused(fields[i]));
    }
    BasePredicate out = Predicate$.MODULE$.create(all, seq(input));
    out.initialize(0);
    return out;
  }

  private static Attribute unused(StructField f) {
    return new AttributeReference(
        f.name(), f.dataType(), true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()));
  }

  public String toString() {
    return "PlannedFiles(" + files.count() + " files)";
  }

  public boolean equals(Object o) {
    return o instanceof PlannedFiles
        && ((PlannedFiles) o).constants.equals(constants)
        && ((PlannedFiles) o).files.key().equals(files.key());
  }

  public int hashCode() {
    return files.key().hashCode();
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }
}
