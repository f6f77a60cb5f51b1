package icecore;

import java.io.Serializable;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BinaryExpression;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.VariableValue;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whether a planned file may hold rows whose key is among the values on the other side of a join.
 *
 * Its children are the number of the file and Spark's own expression for those values: what Spark broadcasts for the
 * join, or nothing where it broadcasts none. Spark asks for each file in the driver, once it has the values; the planner
 * is asked once.
 */
public class JoinedFiles extends BinaryExpression implements CodegenFallback, Serializable {
  private final Expression number;
  private final Expression joined;
  private final PlannedFiles files;
  private final Expression key;
  private transient boolean isAsked;
  private transient BitSet chosen;

  /** `key` is a column of the files as `FilterText.isKey` has it. */
  public JoinedFiles(Expression number, Expression joined, PlannedFiles files, Expression key) {
    this.number = number;
    this.joined = joined;
    this.files = files;
    this.key = key;
  }

  public TreeNode left() {
    return number;
  }

  public TreeNode right() {
    return joined;
  }

  public Expression key() {
    return key;
  }

  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  public boolean nullable() {
    return false;
  }

  /** Where Spark has no values it is what Spark makes of its own such filters, which plans are compared without. */
  public TreeNode withNewChildrenInternal(TreeNode newLeft, TreeNode newRight) {
    boolean isNone = newRight instanceof DynamicPruningExpression
        && ((DynamicPruningExpression) newRight).child().equals(Literal.TrueLiteral());
    return isNone ? newRight : new JoinedFiles((Expression) newLeft, (Expression) newRight, files, key);
  }

  public Object eval(InternalRow row) {
    if (!isAsked) chosen = chosen();
    isAsked = true;
    return Boolean.valueOf(chosen == null || chosen.get(((Integer) number.eval(row)).intValue()));
  }

  /** The numbers of the files; null for all. */
  private BitSet chosen() {
    Object[] values = values();
    if (values == null) return null;
    List told = FilterText.valuesOf(key, values);
    if (told.isEmpty()) return new BitSet();
    String filter = FilterText.oneOf(key, told);
    return filter == null ? null : files.chosenBy(filter);
  }

  /** The values; null where Spark has none. */
  private Object[] values() {
    Expression planned = joined instanceof DynamicPruningExpression ? ((DynamicPruningExpression) joined).child() : null;
    if (!(planned instanceof InSubqueryExec)) return null;
    scala.Option found = ((InSubqueryExec) planned).values();
    return found.isDefined() ? (Object[]) found.get() : null;
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    // Janino does not compile the call of what CodegenFallback has for it.
    String self = context.addReferenceObj("files", this, Expression.class.getName());
    String value = "((Boolean) " + self + ".eval(" + context.INPUT_ROW() + ")).booleanValue()";
    return ExprCode.forNonNullValue(new VariableValue(value, Boolean.TYPE));
  }

  /** What is sent with a scan to executors, which choose no files and don't know this class. */
  public Object writeReplace() {
    return new DynamicPruningExpression(Literal.TrueLiteral());
  }

  public String toString() {
    Expression planned = joined instanceof DynamicPruningExpression ? ((DynamicPruningExpression) joined).child() : null;
    String values = planned instanceof InSubqueryExec ? ((InSubqueryExec) planned).plan().name() : joined.toString();
    return "files by " + key + " IN " + values;
  }

  public int productArity() {
    return 3;
  }

  public Object productElement(int i) {
    return i == 0 ? number : i == 1 ? joined : key;
  }

  public boolean canEqual(Object o) {
    return o instanceof JoinedFiles;
  }

  public boolean equals(Object o) {
    if (!(o instanceof JoinedFiles)) return false;
    JoinedFiles other = (JoinedFiles) o;
    return other.number.equals(number) && other.joined.equals(joined) && FilterText.named(key).equals(FilterText.named(other.key));
  }

  public int hashCode() {
    return 31 * number.hashCode() + joined.hashCode();
  }
}
