package icecore;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteAction;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * An analysed command as Python takes it when it is run, in an array: the name of a change and what it needs. Expressions
 * are Columns that find their columns by name; subqueries are run, and what they found stands in their place.
 */
public class LakeChanges {
  private static final int MOST_VALUES = 10000;
  /** What Spark marks columns with that `*` leaves out. */
  private static final String HIDDEN = "__metadata_col";
  private static final String UNCHANGED =
      " is a metadata column, which a change can't name, but MERGE INTO can have it as a column of its source";
  private static final String INSTEAD = "it can't say which rows change, but MERGE INTO can have it as its source";

  private final SparkSession session;
  private final LogicalPlan plan;
  private final PartialFunction planned;
  private final LakeAssignments given;
  private final String options;

  /**
   * `planned` puts rows in the place of our tables, in the source of a merge and in subqueries; `given` has the values
   * that are set; `options` are those that the command gives the table that it changes.
   */
  public LakeChanges(
      SparkSession session, LogicalPlan plan, PartialFunction planned, LakeAssignments given, Map options) {
    this.session = session;
    this.plan = plan;
    this.planned = planned;
    this.given = given;
    this.options = LakeCalls.text(options);
  }

  public Object[] call() {
    if (plan instanceof DeleteFromTable) return delete((DeleteFromTable) plan);
    return plan instanceof UpdateTable ? update((UpdateTable) plan) : merge((MergeIntoTable) plan);
  }

  /** The condition, of it what `FilterText` has words for, and the options. */
  private Object[] delete(DeleteFromTable plan) {
    if (plan.condition().equals(Literal.TrueLiteral())) return new Object[] {"delete-all", options};
    Expression where = condition(plan.condition());
    return new Object[] {"delete", column(where, null), filter(where), options};
  }

  /** The paths of columns and their values, then what a delete has. */
  private Object[] update(UpdateTable plan) {
    Expression where = plan.condition().isDefined() ? (Expression) plan.condition().get() : Literal.TrueLiteral();
    where = condition(where);
    Object[][] set = assigned(plan.assignments(), null);
    return new Object[] {"update", set[0], set[1], column(where, null), filter(where), options};
  }

  /** The source, the condition or names of key columns, and clauses; columns are called `target.x` and `source.x`. */
  private Object[] merge(MergeIntoTable plan) {
    AttributeSet target = plan.targetTable().outputSet();
    ArrayList keys = new ArrayList();
    boolean byKeys = keys(plan.mergeCondition(), target, keys);
    ArrayList clauses = new ArrayList();
    add(clauses, "matched", plan.matchedActions(), target);
    add(clauses, "not matched", plan.notMatchedActions(), target);
    add(clauses, "not matched by source", plan.notMatchedBySourceActions(), target);
    Object on = byKeys ? (Object) keys.toArray() : (Object) column(condition(plan.mergeCondition()), target);
    return new Object[] {"merge", rows(plan.sourceTable()), Boolean.valueOf(byKeys), on, clauses.toArray(), options};
  }

  private Dataset rows(LogicalPlan query) {
    return Dataset.ofRows(session, (LogicalPlan) query.transformDownWithSubqueries(planned));
  }

  private static boolean keys(Expression e, AttributeSet target, ArrayList keys) {
    if (e instanceof And) return keys(child(e, 0), target, keys) && keys(child(e, 1), target, keys);
    if (!(e instanceof EqualTo)) return false;
    if (!(child(e, 0) instanceof AttributeReference) || !(child(e, 1) instanceof AttributeReference)) return false;
    AttributeReference a = (AttributeReference) child(e, 0);
    AttributeReference b = (AttributeReference) child(e, 1);
    keys.add(a.name());
    return a.name().equals(b.name()) && target.contains(a) != target.contains(b);
  }

  private void add(ArrayList clauses, String when, Seq actions, AttributeSet target) {
    for (int i = 0; i < actions.length(); i++) {
      Object action = actions.apply(i);
      Object[][] set = new Object[2][];
      String then = "delete";
      Option condition;
      if (action instanceof DeleteAction) {
        condition = ((DeleteAction) action).condition();
      } else if (action instanceof UpdateAction) {
        then = "update";
        condition = ((UpdateAction) action).condition();
        set = assigned(((UpdateAction) action).assignments(), target);
      } else if (action instanceof InsertAction) {
        then = "insert";
        condition = ((InsertAction) action).condition();
        set = assigned(((InsertAction) action).assignments(), target);
      } else {
        throw new UnsupportedOperationException(action + " is not done by SQL here, table.spark.merge(...) of Python is");
      }
      Object where = condition.isDefined() ? column(condition((Expression) condition.get()), target) : null;
      clauses.add(new Object[] {when, then, where, set[0], set[1]});
    }
  }

  private Object[][] assigned(Seq assignments, AttributeSet target) {
    Object[] names = new Object[assignments.length()];
    Object[] values = new Object[names.length];
    for (int i = 0; i < names.length; i++) {
      Assignment a = (Assignment) assignments.apply(i);
      ArrayList path = new ArrayList();
      addPath(a.key(), path);
      names[i] = path.toArray();
      values[i] = column(given.next(a), target);
    }
    return new Object[][] {names, values};
  }

  /** The names on the way to a column, or to a field of structs. */
  private static void addPath(Expression key, ArrayList path) {
    if (key instanceof AttributeReference) {
      path.add(((AttributeReference) key).name());
      return;
    }
    if (!(key instanceof GetStructField)) throw new UnsupportedOperationException(key + " can't be set");
    addPath(child(key, 0), path);
    path.add(((StructType) child(key, 0).dataType()).fields()[((GetStructField) key).ordinal()].name());
  }

  private Object column(Expression e, AttributeSet target) {
    return ExpressionUtils.column((Expression) known(e).transform(new Names(target)));
  }

  /** A condition with the values of subqueries in their place; a lone NULL has no type, but is one as well. */
  private Expression condition(Expression e) {
    return e.dataType() instanceof NullType ? new Literal(null, DataTypes.BooleanType) : known(e);
  }

  /** The expression with the values of subqueries in their place. */
  private Expression known(Expression e) {
    return SubqueryExpression.hasSubquery(e) ? (Expression) e.transform(new Found(this)) : e;
  }

  /** What a subquery found: of IN all values, of EXISTS whether there is a row, else the value of the only row. */
  private Expression found(Expression e) {
    if (e instanceof InSubquery) {
      InSubquery in = (InSubquery) e;
      if (in.values().length() != 1) throw new UnsupportedOperationException("IN of several columns: " + INSTEAD);
      return new In((Expression) in.values().head(), seq(values(in.query(), MOST_VALUES)));
    }
    if (e instanceof Exists) return new Literal(Boolean.valueOf(rows((Exists) e, 1).length > 0), e.dataType());
    List found = values((SubqueryExpression) e, 1);
    return found.isEmpty() ? new Literal(null, e.dataType()) : (Expression) found.get(0);
  }

  /** The values of a subquery's only column, as literals. */
  private List values(SubqueryExpression query, int most) {
    InternalRow[] found = rows(query, most + 1);
    if (found.length > most) throw new UnsupportedOperationException("a subquery of more than " + most + " rows: " + INSTEAD);
    DataType type = ((Expression) ((LogicalPlan) query.plan()).output().head()).dataType();
    ArrayList out = new ArrayList();
    for (int i = 0; i < found.length; i++) out.add(new Literal(found[i].get(0, type), type));
    return out;
  }

  /** As Spark has them inside: those of `java.sql` have no days that the Julian calendar lacks. */
  private InternalRow[] rows(SubqueryExpression query, int most) {
    if (query.isCorrelated()) throw new UnsupportedOperationException("a subquery of columns outside of it: " + INSTEAD);
    return rows((LogicalPlan) query.plan()).limit(most).queryExecution().executedPlan().executeCollect();
  }

  private static String filter(Expression condition) {
    ArrayList all = new ArrayList();
    all.add(condition);
    try {
      return FilterText.of(seq(all));
    } catch (StackOverflowError e) {
      return null;
    }
  }

  private static Expression child(Expression e, int i) {
    return (Expression) e.children().apply(i);
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }

  /** Subqueries as what they found. */
  private static class Found extends AbstractPartialFunction {
    private final LakeChanges change;

    Found(LakeChanges change) {
      this.change = change;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof InSubquery || node instanceof Exists || node instanceof ScalarSubquery;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? change.found((Expression) node) : otherwise.apply(node);
    }
  }

  /** Columns by name, of a merge with the side that they are of. */
  private static class Names extends AbstractPartialFunction {
    private final AttributeSet target;

    Names(AttributeSet target) {
      this.target = target;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!(node instanceof AttributeReference)) return otherwise.apply(node);
      AttributeReference a = (AttributeReference) node;
      boolean isOurs = target == null || target.contains(a);
      if (isOurs && a.metadata().contains(HIDDEN)) throw new UnsupportedOperationException(a.name() + UNCHANGED);
      ArrayList name = new ArrayList();
      if (target != null) name.add(target.contains(a) ? "target" : "source");
      name.add(a.name());
      return new UnresolvedAttribute(seq(name));
    }
  }
}
