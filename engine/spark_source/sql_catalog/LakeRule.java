package icecore;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.DataType$;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * The rows of our tables, as `to_spark` plans them, in place of what Spark's source of version 2 would read.
 *
 * A scan is optimised again together with the filters and columns right above it, so that these reach the planned files.
 */
public class LakeRule extends Rule {
  /** What selects no row and no one writes: should it ever be taken as it is said, nothing is deleted. */
  private static final Expression MADE_ALREADY = new And(Literal.FalseLiteral(), Literal.FalseLiteral());

  private final SparkSession session;

  public LakeRule(SparkSession session) {
    this.session = session;
  }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    LakeTable table = null;
    LogicalPlan target = null;
    if (plan instanceof DeleteFromTable) target = ((DeleteFromTable) plan).table();
    if (plan instanceof UpdateTable) target = ((UpdateTable) plan).table();
    if (plan instanceof MergeIntoTable) target = ((MergeIntoTable) plan).targetTable();
    if (target != null) table = changed(target);
    if (table != null) return change(plan, target, table);
    // With the query that it is of, which may be a change that takes none: it must not have become a constant by then.
    if (plan instanceof Subquery) return plan;
    if (plan instanceof OverwritePartitionsDynamic) plan = handedOver((OverwritePartitionsDynamic) plan);
    return (TreeNode) plan.transformDownWithSubqueries(new Swap(session));
  }

  /** The command, once the table knows what it asks for; all go on as a DELETE, as Spark asks tables for nothing else. */
  private LogicalPlan change(LogicalPlan plan, LogicalPlan target, LakeTable table) {
    if (plan instanceof DeleteFromTable && ((DeleteFromTable) plan).condition().equals(MADE_ALREADY)) return plan;
    LakeAssignments assigned = LakeAssignments.of(session);
    Map options = relation(target).options().asCaseSensitiveMap();
    LogicalPlan asked = (LogicalPlan) plan.transformExpressions(new Functions(target));
    table.change(new LakeChanges(session, asked, new Swap(session), assigned, options));
    return new DeleteFromTable(leaf(target), MADE_ALREADY);
  }

  /** As an append, since Spark hands nothing else over as rows; what the write does with them it knows. */
  private static LogicalPlan handedOver(OverwritePartitionsDynamic plan) {
    // Janino can't choose among the methods by which the table, the first part, could be had.
    if (changed((LogicalPlan) plan.productElement(0)) == null) return plan;
    Object[] parts = new Object[plan.productArity() + 1];
    for (int i = 0; i < parts.length - 1; i++) parts[i] = plan.productElement(i);
    parts[parts.length - 1] = scala.Option.apply(plan.query());
    try {
      return (LogicalPlan) AppendData.class.getConstructors()[0].newInstance(parts);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static LakeTable changed(LogicalPlan target) {
    DataSourceV2Relation relation = relation(target);
    Object table = relation == null ? null : relation.table();
    return table instanceof LakeTable ? (LakeTable) table : null;
  }

  private static DataSourceV2Relation relation(LogicalPlan target) {
    LogicalPlan plan = leaf(target);
    if (plan instanceof DataSourceV2Relation) return (DataSourceV2Relation) plan;
    return plan instanceof DataSourceV2ScanRelation ? ((DataSourceV2ScanRelation) plan).relation() : null;
  }

  private static LogicalPlan leaf(LogicalPlan target) {
    LogicalPlan plan = target;
    while (plan.children().length() == 1) plan = (LogicalPlan) plan.children().head();
    return plan;
  }

  /** Functions of Python in the place of their values, which Spark has had computed below the command. */
  private static class Functions extends AbstractPartialFunction {
    private final HashMap known = new HashMap();

    Functions(LogicalPlan target) {
      for (LogicalPlan at = target; at.children().length() == 1; at = (LogicalPlan) at.children().head()) {
        if (!(at instanceof BaseEvalPython)) continue;
        Seq values = ((BaseEvalPython) at).resultAttrs();
        for (int i = 0; i < values.length(); i++) {
          known.put(((Attribute) values.apply(i)).exprId(), ((BaseEvalPython) at).udfs().apply(i));
        }
      }
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference && known.containsKey(((AttributeReference) node).exprId());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? known.get(((AttributeReference) node).exprId()) : otherwise.apply(node);
    }
  }

  /** A scan of ours and what filters and projects it, replaced. */
  private static class Swap extends AbstractPartialFunction implements KnownAggregates.Source {
    private final SparkSession session;

    Swap(SparkSession session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Aggregate || scan((LogicalPlan) node) != null;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      LogicalPlan plan = (LogicalPlan) node;
      if (plan instanceof Aggregate) {
        LogicalPlan answered = KnownAggregates.answered((Aggregate) plan, this);
        return answered == null ? otherwise.apply(node) : answered;
      }
      if (scan(plan) == null) return otherwise.apply(node);
      // As a correlated subquery its attributes stay what they are.
      LogicalPlan whole = new Subquery(replaced(plan, new ArrayList()), true);
      LogicalPlan optimised = (LogicalPlan) session.sessionState().optimizer().execute(whole);
      return ((Subquery) optimised).child();
    }

    public List answers(LogicalPlan leaf, String filter, List questions) {
      DataSourceV2ScanRelation scanned = scan(leaf);
      return scanned == null ? null : ((LakeTable.LakeScan) scanned.scan()).aggregates(filter, questions);
    }

    private static DataSourceV2ScanRelation scan(LogicalPlan plan) {
      LogicalPlan at = plan;
      while (at instanceof Project || at instanceof Filter) at = (LogicalPlan) at.children().head();
      if (!(at instanceof DataSourceV2ScanRelation)) return null;
      DataSourceV2ScanRelation found = (DataSourceV2ScanRelation) at;
      return found.scan() instanceof LakeTable.LakeScan ? found : null;
    }

    /** `filters` are those that are met on the way down since the last projection, so that they are on columns. */
    private static LogicalPlan replaced(LogicalPlan plan, ArrayList filters) {
      if (plan instanceof DataSourceV2ScanRelation) return rows((DataSourceV2ScanRelation) plan, filters);
      LogicalPlan child = (LogicalPlan) plan.children().head();
      if (!(plan instanceof Filter)) return new Project(((Project) plan).projectList(), replaced(child, new ArrayList()));
      filters.add(((Filter) plan).condition());
      return new Filter(((Filter) plan).condition(), replaced(child, filters));
    }

    /** The planned rows with the attributes that the query knows. */
    private static LogicalPlan rows(DataSourceV2ScanRelation scanned, ArrayList filters) {
      LogicalPlan plan = ((LakeTable.LakeScan) scanned.scan()).plan(text(filters));
      HashMap found = new HashMap();
      for (int i = 0; i < plan.output().length(); i++) {
        Attribute a = (Attribute) plan.output().apply(i);
        found.put(a.name(), a);
      }
      ArrayList named = new ArrayList();
      for (int i = 0; i < scanned.output().length(); i++) {
        AttributeReference wanted = (AttributeReference) scanned.output().apply(i);
        Expression value = (Expression) found.get(wanted.name());
        if (value == null) throw new IllegalStateException(scanned.name() + " has no column " + wanted.name());
        if (!DataType$.MODULE$.equalsIgnoreNullability(value.dataType(), wanted.dataType())) {
          throw new IllegalStateException(scanned.name() + " has " + value.dataType() + " as " + wanted.name());
        }
        named.add(new Alias(
            value,
            wanted.name(),
            wanted.exprId(),
            wanted.qualifier(),
            scala.Option.apply(wanted.metadata()),
            seq(new ArrayList())));
      }
      return new Project(seq(named), plan);
    }
  }

  private static String text(ArrayList filters) {
    try {
      return FilterText.of(seq(filters));
    } catch (StackOverflowError e) {
      return null;
    }
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }
}
