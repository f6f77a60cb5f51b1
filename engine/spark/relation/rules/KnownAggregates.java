package icecore;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/** Counts, minima and maxima of a table's rows that metadata tells exactly, as constants: no row is read for them. */
public class KnownAggregates {
  /** Rows in a plan that someone knows answers of. */
  public interface Source {
    /**
     * The answers as text to aggregates of all rows of a leaf that a filter keeps; null where rows have to be read, and of
     * other leaves. A question is a list of a function and the name of a column, null for rows.
     */
    List answers(LogicalPlan leaf, String filter, List questions);
  }

  /** One row with the answers, in place of an aggregate without groups; null where rows have to be read for it. */
  public static LogicalPlan answered(Aggregate plan, Source source) {
    if (plan.groupingExpressions().length() > 0) return null;
    ArrayList wanted = new ArrayList();
    for (int i = 0; i < plan.aggregateExpressions().length(); i++) {
      if (!collect((Expression) plan.aggregateExpressions().apply(i), wanted)) return null;
    }
    if (wanted.isEmpty()) return null;
    ArrayList inputs = new ArrayList();
    for (int i = 0; i < wanted.size(); i++) inputs.add(input((AggregateExpression) wanted.get(i)));
    ArrayList filters = new ArrayList();
    LogicalPlan at = plan.child();
    while (at instanceof Filter || at instanceof Project) {
      if (at instanceof Filter) {
        filters.add(((Filter) at).condition());
      } else {
        Definitions below = new Definitions(((Project) at).projectList());
        if (!below.putInto(inputs) || !below.putInto(filters)) return null;
      }
      at = (LogicalPlan) at.children().head();
    }
    for (int i = 0; i < filters.size(); i++) {
      if (!((Expression) filters.get(i)).references().subsetOf(at.outputSet())) return null;
    }
    ArrayList questions = new ArrayList();
    for (int i = 0; i < wanted.size(); i++) {
      List question = question((AggregateExpression) wanted.get(i), (Expression) inputs.get(i), at.output());
      if (question == null) return null;
      questions.add(question);
    }
    List told = source.answers(at, text(filters), questions);
    if (told == null) return null;
    ArrayList values = new ArrayList();
    for (int i = 0; i < wanted.size(); i++) {
      values.add(literal((String) told.get(i), ((AggregateExpression) wanted.get(i)).dataType()));
    }
    ArrayList row = new ArrayList();
    for (int i = 0; i < plan.aggregateExpressions().length(); i++) {
      row.add(((Expression) plan.aggregateExpressions().apply(i)).transform(new Answers(wanted, values)));
    }
    return new Project(seq(row), new OneRowRelation());
  }

  /** Notes the aggregates inside of an expression; false where it has others than are told, or columns beside them. */
  private static boolean collect(Expression e, ArrayList wanted) {
    if (e instanceof Attribute) return false;
    if (!(e instanceof AggregateExpression)) {
      for (int i = 0; i < e.children().length(); i++) {
        if (!collect((Expression) e.children().apply(i), wanted)) return false;
      }
      return true;
    }
    AggregateExpression asked = (AggregateExpression) e;
    if (asked.isDistinct() || asked.filter().isDefined() || word(asked) == null) return false;
    if (((Expression) asked.aggregateFunction()).children().length() != 1) return false;
    wanted.add(asked);
    return true;
  }

  private static String word(AggregateExpression asked) {
    Object function = asked.aggregateFunction();
    if (function instanceof Count) return "count";
    if (function instanceof Min) return "min";
    return function instanceof Max ? "max" : null;
  }

  private static Expression input(AggregateExpression asked) {
    return (Expression) ((Expression) asked.aggregateFunction()).children().head();
  }

  /** The function and the name of the column as the leaf has it, however the query writes it; null for what is none. */
  private static List question(AggregateExpression asked, Expression input, Seq output) {
    String word = word(asked);
    String column = null;
    if (input instanceof AttributeReference) {
      for (int i = 0; i < output.length(); i++) {
        Attribute known = (Attribute) output.apply(i);
        if (known.exprId().equals(((AttributeReference) input).exprId())) column = known.name();
      }
      if (column == null || !(word.equals("count") || isTold(input.dataType()))) return null;
    } else if (!word.equals("count") || !(input instanceof Literal) || ((Literal) input).value() == null) {
      return null;
    }
    ArrayList out = new ArrayList();
    out.add(word);
    out.add(column);
    return out;
  }

  /** Whether values of a type come as text and are ordered as Spark orders them; floats have NaN and two zeros. */
  private static boolean isTold(DataType type) {
    return isLong(type) || isInteger(type) || type instanceof DecimalType || type.equals(DataTypes.StringType);
  }

  private static boolean isLong(DataType type) {
    return type.equals(DataTypes.LongType)
        || type.equals(DataTypes.TimestampType)
        || type.equals(DataTypes.TimestampNTZType);
  }

  private static boolean isInteger(DataType type) {
    return type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType);
  }

  private static Literal literal(String text, DataType type) {
    if (text == null) return new Literal(null, type);
    if (isLong(type)) return new Literal(Long.valueOf(text), type);
    if (isInteger(type)) return new Literal(Integer.valueOf(text), type);
    if (type.equals(DataTypes.StringType)) return new Literal(UTF8String.fromString(text), type);
    DecimalType decimal = (DecimalType) type;
    return new Literal(Decimal.apply(new BigDecimal(text), decimal.precision(), decimal.scale()), type);
  }

  private static String text(ArrayList filters) {
    try {
      return FilterText.of(seq(filters));
    } catch (StackOverflowError e) {
      return "null";
    }
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }

  /** The columns of a projection by what they are of the columns below it. */
  private static class Definitions extends AbstractPartialFunction {
    private final HashMap known = new HashMap();
    private boolean mayDouble = false;

    Definitions(Seq columns) {
      for (int i = 0; i < columns.length(); i++) {
        if (!(columns.apply(i) instanceof Alias)) continue;
        known.put(((Alias) columns.apply(i)).exprId(), ((Alias) columns.apply(i)).child());
      }
    }

    /** Whether all could be put in: what is of two columns may double at each of many projections. */
    boolean putInto(List expressions) {
      for (int i = 0; i < expressions.size(); i++) {
        // Downwards it would go on inside of what it put in.
        expressions.set(i, ((Expression) expressions.get(i)).transformUp(this));
      }
      return !mayDouble;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference && known.containsKey(((AttributeReference) node).exprId());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Expression defined = (Expression) known.get(((AttributeReference) node).exprId());
      if (!isOfOneColumn(defined)) mayDouble = true;
      return mayDouble ? node : defined;
    }

    private static boolean isOfOneColumn(Expression e) {
      Seq leaves = e.collectLeaves();
      int columns = 0;
      for (int i = 0; i < leaves.length(); i++) if (!(leaves.apply(i) instanceof Literal)) columns++;
      return columns <= 1;
    }
  }

  /** Aggregates by their answers. */
  private static class Answers extends AbstractPartialFunction {
    private final List wanted;
    private final List values;

    Answers(List wanted, List values) {
      this.wanted = wanted;
      this.values = values;
    }

    public boolean isDefinedAt(Object node) {
      return wanted.contains(node);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      int place = wanted.indexOf(node);
      return place < 0 ? otherwise.apply(node) : values.get(place);
    }
  }
}
