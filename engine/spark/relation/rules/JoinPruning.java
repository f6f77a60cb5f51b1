package icecore;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Planned files chosen by the rows that a query joins them with: Spark's dynamic partition pruning, for columns that come
 * from the files themselves.
 *
 * It is for joins of which Spark broadcasts one side, since then its values are those that are joined, and cost nothing.
 * What Spark has decided not to broadcast in the end, it does not prune by either.
 */
public class JoinPruning extends Rule {
  public TreeNode apply(TreeNode tree) {
    boolean isChange = tree instanceof DeleteFromTable || tree instanceof UpdateTable || tree instanceof MergeIntoTable;
    // A correlated one is part of another query, which comes yet.
    if (isChange || (tree instanceof Subquery && ((Subquery) tree).correlated())) return tree;
    SQLConf conf = SQLConf.get();
    if (!conf.dynamicPartitionPruningEnabled() || !conf.exchangeReuseEnabled()) return tree;
    try {
      return (TreeNode) ((LogicalPlan) tree).transformUpWithSubqueries(new Joins(conf));
    } catch (RuntimeException e) {
      return tree;
    } catch (LinkageError e) {
      return tree;
    }
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }

  private static Expression part(Expression e, int i) {
    return (Expression) e.children().apply(i);
  }

  private static boolean areDeterministic(Seq expressions) {
    for (int i = 0; i < expressions.length(); i++) {
      if (!((Expression) expressions.apply(i)).deterministic()) return false;
    }
    return true;
  }

  /** The planned files that a leaf of a plan reads; null where it reads none. */
  private static PlannedFiles planned(Object leaf) {
    Object relation = leaf instanceof LogicalRelation ? ((LogicalRelation) leaf).relation() : null;
    Object files = relation instanceof HadoopFsRelation ? ((HadoopFsRelation) relation).location() : null;
    return files instanceof PlannedFiles ? (PlannedFiles) files : null;
  }

  /** Joins of which one side can be pruned by the other. */
  private static class Joins extends AbstractPartialFunction {
    private final SQLConf conf;

    Joins(SQLConf conf) {
      this.conf = conf;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Join && ((Join) node).condition().isDefined();
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Join join = (Join) node;
      if (!hasPlanned(join.collectLeaves())) return join;
      PartitionPruning$ spark = PartitionPruning$.MODULE$;
      scala.Option side = spark.getBroadcastBuildSide(join, true, conf);
      if (side.isEmpty()) side = spark.getBroadcastBuildSide(join, false, conf);
      if (side.isEmpty()) return join;
      boolean isRight = side.get() == BuildRight$.MODULE$;
      if (!(isRight ? spark.canPruneLeft(join.joinType()) : spark.canPruneRight(join.joinType()))) return join;
      LogicalPlan build = isRight ? join.right() : join.left();
      if (build.isStreaming() || !build.deterministic()) return join;
      scala.Option found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
      if (found.isEmpty()) return join;
      Seq leftKeys = (Seq) ((Product) found.get()).productElement(1);
      Seq rightKeys = (Seq) ((Product) found.get()).productElement(2);
      Seq keys = isRight ? leftKeys : rightKeys;
      Seq others = isRight ? rightKeys : leftKeys;
      LogicalPlan pruned = isRight ? join.left() : join.right();
      for (int i = 0; i < keys.length(); i++) {
        Expression key = (Expression) keys.apply(i);
        Expression other = (Expression) others.apply(i);
        // A key of <=> is none of rows alone, as nulls would be joined by it.
        if (!areEqual((Expression) join.condition().get(), key, other)) continue;
        if (!key.dataType().equals(other.dataType())) continue;
        LogicalPlan made = new Values(build, others, i).prune(pruned, key);
        if (made != null) pruned = made;
      }
      if (pruned == (isRight ? join.left() : join.right())) return join;
      LogicalPlan[] sides = new LogicalPlan[] {isRight ? pruned : join.left(), isRight ? join.right() : pruned};
      return join.withNewChildren(seq(Arrays.asList(sides)));
    }

    /** Whether there are files to choose: of other plans no statistics are asked for. */
    private static boolean hasPlanned(Seq leaves) {
      for (int i = 0; i < leaves.length(); i++) if (planned(leaves.apply(i)) != null) return true;
      return false;
    }

    /** Whether a condition says of two expressions that they are equal, and neither null. */
    private static boolean areEqual(Expression condition, Expression a, Expression b) {
      if (condition instanceof And) return areEqual(part(condition, 0), a, b) || areEqual(part(condition, 1), a, b);
      if (!(condition instanceof EqualTo)) return false;
      Expression left = part(condition, 0);
      Expression right = part(condition, 1);
      return (left.semanticEquals(a) && right.semanticEquals(b)) || (left.semanticEquals(b) && right.semanticEquals(a));
    }
  }

  /** The values of one of the keys of the side that is broadcast. */
  private static class Values {
    private final LogicalPlan build;
    private final Seq keys;
    private final int place;

    Values(LogicalPlan build, Seq keys, int place) {
      this.build = build;
      this.keys = keys;
      this.place = place;
    }

    /**
     * The plan without files that have no row of these values in a column; null where it stays as it is. It goes down
     * through what rows can be left out below of, as they would be above it.
     */
    LogicalPlan prune(LogicalPlan plan, Expression key) {
      if (!FilterText.isKey(key)) return null;
      if (plan instanceof LogicalRelation) return pruned((LogicalRelation) plan, Literal.TrueLiteral(), key);
      if (plan instanceof Filter) {
        Filter filter = (Filter) plan;
        if (!filter.condition().deterministic()) return null;
        if (filter.child() instanceof LogicalRelation) {
          return pruned((LogicalRelation) filter.child(), filter.condition(), key);
        }
        return below(plan, 0, key);
      }
      if (plan instanceof Project) {
        Seq columns = ((Project) plan).projectList();
        return areDeterministic(columns) ? below(plan, 0, (Expression) key.transformUp(new Definitions(columns))) : null;
      }
      if (plan instanceof Aggregate) return grouped((Aggregate) plan, key);
      if (plan instanceof Union) return united((Union) plan, key);
      return plan instanceof Join ? joined((Join) plan, key) : null;
    }

    private LogicalPlan below(LogicalPlan plan, int child, Expression key) {
      Seq children = plan.children();
      LogicalPlan made = prune((LogicalPlan) children.apply(child), key);
      return made == null ? null : (LogicalPlan) plan.withNewChildren((Seq) children.updated(child, made));
    }

    /** All rows of a group have its key, so that groups are there as a whole or not at all. */
    private LogicalPlan grouped(Aggregate plan, Expression key) {
      if (!areDeterministic(plan.aggregateExpressions())) return null;
      Expression inner = (Expression) key.transformUp(new Definitions(plan.aggregateExpressions()));
      Seq groups = plan.groupingExpressions();
      for (int i = 0; i < groups.length(); i++) {
        if (((Expression) groups.apply(i)).semanticEquals(inner)) return below(plan, 0, inner);
      }
      return null;
    }

    private LogicalPlan united(Union plan, Expression key) {
      ArrayList children = new ArrayList();
      boolean isPruned = false;
      for (int c = 0; c < plan.children().length(); c++) {
        LogicalPlan child = (LogicalPlan) plan.children().apply(c);
        LogicalPlan made = prune(child, (Expression) key.transformUp(new Definitions(plan.output(), child.output())));
        isPruned |= made != null;
        children.add(made == null ? child : made);
      }
      return isPruned ? (LogicalPlan) plan.withNewChildren(seq(children)) : null;
    }

    private LogicalPlan joined(Join plan, Expression key) {
      Object type = plan.joinType();
      boolean isInner = type == Inner$.MODULE$;
      boolean keepsLeft = type == LeftOuter$.MODULE$ || type == LeftSemi$.MODULE$ || type == LeftAnti$.MODULE$;
      if ((isInner || keepsLeft) && key.references().subsetOf(plan.left().outputSet())) return below(plan, 0, key);
      return isInner && key.references().subsetOf(plan.right().outputSet()) ? below(plan, 1, key) : null;
    }

    private LogicalPlan pruned(LogicalRelation leaf, Expression condition, Expression key) {
      PlannedFiles files = planned(leaf);
      if (files == null || !files.canChoose() || isConstant(key, files)) return null;
      ArrayList conditions = new ArrayList();
      if (!collect(condition, key, conditions)) return null;
      LogicalRelation numbered = numbered(leaf, (HadoopFsRelation) leaf.relation(), files.numbered());
      Attribute number = (Attribute) numbered.output().last();
      Expression all = new JoinedFiles(number, subquery(key), files, key);
      for (int i = 0; i < conditions.size(); i++) all = new And(all, (Expression) conditions.get(i));
      return new Project(leaf.output(), new Filter(all, numbered));
    }

    /** Whether it is a constant of files, which Spark prunes by itself. */
    private static boolean isConstant(Expression key, PlannedFiles files) {
      Attribute column = (Attribute) key.references().head();
      return Arrays.asList(files.partitionSchema().fieldNames()).contains(column.name());
    }

    /**
     * Notes the parts of a condition but what is there of these values, of the side as it was before it was pruned itself;
     * false where it has them already, as when the rule comes again.
     */
    private boolean collect(Expression condition, Expression key, ArrayList parts) {
      if (condition instanceof And) {
        return collect(part(condition, 0), key, parts) && collect(part(condition, 1), key, parts);
      }
      if (!isOfThese(condition, key)) {
        parts.add(condition);
        return true;
      }
      LogicalPlan known = ((DynamicPruningSubquery) ((JoinedFiles) condition).right()).buildQuery();
      return known != build && !known.sameResult(build);
    }

    private boolean isOfThese(Expression condition, Expression key) {
      if (!(condition instanceof JoinedFiles)) return false;
      JoinedFiles known = (JoinedFiles) condition;
      if (!(known.right() instanceof DynamicPruningSubquery) || !known.key().semanticEquals(key)) return false;
      DynamicPruningSubquery asked = (DynamicPruningSubquery) known.right();
      return Integer.valueOf(place).equals(asked.broadcastKeyIndices().head()) && asked.buildKeys().equals(keys);
    }

    private static LogicalRelation numbered(LogicalRelation leaf, HadoopFsRelation relation, PlannedFiles files) {
      if (relation.location() == files) return leaf;
      HadoopFsRelation made = new HadoopFsRelation(
          files,
          files.partitionSchema(),
          relation.dataSchema(),
          relation.bucketSpec(),
          relation.fileFormat(),
          relation.options(),
          relation.sparkSession());
      Attribute number = new AttributeReference(
          PlannedFiles.NUMBER,
          DataTypes.IntegerType,
          false,
          Metadata.empty(),
          NamedExpression$.MODULE$.newExprId(),
          seq(new ArrayList()));
      Object[] parts = new Object[leaf.productArity()];
      for (int i = 0; i < parts.length; i++) parts[i] = leaf.productElement(i);
      parts[0] = made;
      parts[1] = leaf.output().appended(number);
      return (LogicalRelation) leaf.makeCopy(parts);
    }

    /** Only with what is broadcast, whatever the session says: computed again the values might be others. */
    private Expression subquery(Expression key) {
      Object[] known = new Object[] {
        new Literal(null, key.dataType()),
        build,
        keys,
        seq(Arrays.asList(new Object[] {Integer.valueOf(place)})),
        Boolean.TRUE,
        NamedExpression$.MODULE$.newExprId()
      };
      java.lang.reflect.Constructor maker = DynamicPruningSubquery.class.getConstructors()[0];
      Object[] parts = Arrays.copyOf(known, maker.getParameterTypes().length);
      for (int i = known.length; i < parts.length; i++) parts[i] = scala.Option.empty();
      try {
        return (Expression) maker.newInstance(parts);
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** The columns of a plan by what they are of the columns below it. */
  private static class Definitions extends AbstractPartialFunction {
    private final HashMap known = new HashMap();

    Definitions(Seq columns) {
      for (int i = 0; i < columns.length(); i++) {
        if (!(columns.apply(i) instanceof Alias)) continue;
        known.put(((Alias) columns.apply(i)).exprId(), ((Alias) columns.apply(i)).child());
      }
    }

    Definitions(Seq columns, Seq places) {
      for (int i = 0; i < columns.length(); i++) known.put(((Attribute) columns.apply(i)).exprId(), places.apply(i));
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference && known.containsKey(((AttributeReference) node).exprId());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? known.get(((AttributeReference) node).exprId()) : otherwise.apply(node);
    }
  }
}
