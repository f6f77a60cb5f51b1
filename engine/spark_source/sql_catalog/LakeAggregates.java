package icecore;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
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
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/** Counts, minima and maxima of a table's rows that metadata tells exactly, as constants: no row is read for them. */
public class LakeAggregates {
  /** One row with the answers, in place of an aggregate without groups; null where rows have to be read for it. */
  public static LogicalPlan answered(Aggregate plan) {
    if (plan.groupingExpressions().length() > 0) return null;
    ArrayList filters = new ArrayList();
    LogicalPlan at = plan.child();
    while (at instanceof Filter || at instanceof Project) {
      if (at instanceof Filter) filters.add(((Filter) at).condition());
      else if (!isPlain(((Project) at).projectList())) return null;
      at = (LogicalPlan) at.children().head();
    }
    if (!(at instanceof DataSourceV2ScanRelation)) return null;
    DataSourceV2ScanRelation scanned = (DataSourceV2ScanRelation) at;
    if (!(scanned.scan() instanceof LakeTable.LakeScan)) return null;
    ArrayList wanted = new ArrayList();
    ArrayList questions = new ArrayList();
    for (int i = 0; i < plan.aggregateExpressions().length(); i++) {
      if (!collect((Expression) plan.aggregateExpressions().apply(i), scanned.output(), wanted, questions)) return null;
    }
    if (questions.isEmpty()) return null;
    List told = ((LakeTable.LakeScan) scanned.scan()).aggregates(text(filters), questions);
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

  private static boolean isPlain(Seq columns) {
    for (int i = 0; i < columns.length(); i++) if (!(columns.apply(i) instanceof AttributeReference)) return false;
    return true;
  }

  /** Notes the aggregates inside of an expression, with the function and the column of each; false for others. */
  private static boolean collect(Expression e, Seq output, ArrayList wanted, ArrayList questions) {
    if (e instanceof Attribute) return false;
    if (!(e instanceof AggregateExpression)) {
      for (int i = 0; i < e.children().length(); i++) {
        if (!collect((Expression) e.children().apply(i), output, wanted, questions)) return false;
      }
      return true;
    }
    AggregateExpression asked = (AggregateExpression) e;
    Expression function = (Expression) asked.aggregateFunction();
    if (asked.isDistinct() || asked.filter().isDefined() || function.children().length() != 1) return false;
    Expression of = (Expression) function.children().head();
    String word = null;
    if (function instanceof Count) word = "count";
    if (function instanceof Min) word = "min";
    if (function instanceof Max) word = "max";
    if (word == null) return false;
    String column = null;
    if (of instanceof AttributeReference) {
      column = name((AttributeReference) of, output);
      if (column == null) return false;
      if (!word.equals("count") && !isTold(of.dataType())) return false;
    } else if (!word.equals("count") || !(of instanceof Literal) || ((Literal) of).value() == null) {
      return false;
    }
    wanted.add(asked);
    ArrayList question = new ArrayList();
    question.add(word);
    question.add(column);
    questions.add(question);
    return true;
  }

  /** The name of a column as the table has it, however the query writes it. */
  private static String name(AttributeReference column, Seq output) {
    for (int i = 0; i < output.length(); i++) {
      Attribute known = (Attribute) output.apply(i);
      if (known.exprId().equals(column.exprId())) return known.name();
    }
    return null;
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
