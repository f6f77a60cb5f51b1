package icecore;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** Aggregates of all rows of a plan that metadata tells, as constants, in the queries of a session. */
public class PlannedAggregates extends Rule {
  public TreeNode apply(TreeNode tree) {
    // Subqueries come again with the query that they are of; those of a change are run before it.
    boolean isChange = tree instanceof DeleteFromTable || tree instanceof UpdateTable || tree instanceof MergeIntoTable;
    if (isChange || tree instanceof Subquery) return tree;
    return (TreeNode) ((LogicalPlan) tree).transformDownWithSubqueries(new Answers());
  }

  /** Aggregates by their answers. */
  private static class Answers extends AbstractPartialFunction implements KnownAggregates.Source {
    public boolean isDefinedAt(Object node) {
      return node instanceof Aggregate;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      LogicalPlan answered = node instanceof Aggregate ? KnownAggregates.answered((Aggregate) node, this) : null;
      return answered == null ? otherwise.apply(node) : answered;
    }

    public List answers(LogicalPlan leaf, String filter, List questions) {
      if (!(leaf instanceof LogicalRelation)) return null;
      Object relation = ((LogicalRelation) leaf).relation();
      FileIndex files = relation instanceof HadoopFsRelation ? ((HadoopFsRelation) relation).location() : null;
      return files instanceof PlannedFiles ? ((PlannedFiles) files).answers(filter, questions) : null;
    }
  }
}
