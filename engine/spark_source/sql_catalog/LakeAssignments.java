package icecore;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * The values that an UPDATE or MERGE sets, as Spark's store assignment takes them for an INSERT. What it does not take,
 * Spark casts in a command of tables like ours all the same, and by the order of fields.
 */
public class LakeAssignments {
  private static final String POLICY = "spark.sql.storeAssignmentPolicy";

  private final String policy;
  private final boolean caseSensitive;

  private LakeAssignments(SparkSession session) {
    policy = session.sessionState().conf().getConfString(POLICY, "ANSI");
    caseSensitive = session.sessionState().conf().caseSensitiveAnalysis();
  }

  /** Throws where the command that the session runs sets a value of a type that does not fit. */
  public static void check(SparkSession session) {
    String id = session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution running = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    if (running == null) return;
    // Analysed only: the optimiser folds the casts that tell what was given.
    LogicalPlan plan = running.analyzed();
    LakeAssignments rules = new LakeAssignments(session);
    if (plan instanceof UpdateTable) rules.check(((UpdateTable) plan).assignments());
    if (!(plan instanceof MergeIntoTable)) return;
    rules.actions(((MergeIntoTable) plan).matchedActions());
    rules.actions(((MergeIntoTable) plan).notMatchedActions());
    rules.actions(((MergeIntoTable) plan).notMatchedBySourceActions());
  }

  private void actions(Seq actions) {
    for (int i = 0; i < actions.length(); i++) {
      Object action = actions.apply(i);
      if (action instanceof UpdateAction) check(((UpdateAction) action).assignments());
      if (action instanceof InsertAction) check(((InsertAction) action).assignments());
    }
  }

  private void check(Seq assignments) {
    for (int i = 0; i < assignments.length(); i++) {
      Assignment a = (Assignment) assignments.apply(i);
      // Casts that the statement itself has are no matter of assignment.
      if (!(a.value() instanceof Cast) || a.value().getTagValue(Cast.BY_TABLE_INSERTION()).isEmpty()) continue;
      if (policy.equalsIgnoreCase("LEGACY")) {
        throw new IllegalArgumentException(
            "ValidationError: LEGACY store assignment policy is disallowed in Spark data source V2, as for an INSERT");
      }
      DataType given = ((Cast) a.value()).child().dataType();
      DataType wanted = ((Expression) a.key()).dataType();
      String column = a.key().sql();
      if (!fits(given, wanted)) {
        throw new IllegalArgumentException(
            "ValidationError: column " + column + ": " + given.sql() + " is not stored as " + wanted.sql()
                + " unless the statement casts it");
      }
      if (!sameNames(given, wanted)) {
        throw new IllegalArgumentException(
            "ValidationError: column " + column + ": the fields of " + given.sql() + " are not those of " + wanted.sql()
                + " in their order, and would be taken for them");
      }
    }
  }

  private boolean fits(DataType given, DataType wanted) {
    if (policy.equalsIgnoreCase("STRICT")) return Cast.canUpCast(given, wanted);
    return Cast.canANSIStoreAssign(given, wanted);
  }

  private boolean sameNames(DataType given, DataType wanted) {
    if (given instanceof ArrayType && wanted instanceof ArrayType) {
      return sameNames(((ArrayType) given).elementType(), ((ArrayType) wanted).elementType());
    }
    if (given instanceof MapType && wanted instanceof MapType) {
      return sameNames(((MapType) given).keyType(), ((MapType) wanted).keyType())
          && sameNames(((MapType) given).valueType(), ((MapType) wanted).valueType());
    }
    if (!(given instanceof StructType) || !(wanted instanceof StructType)) return true;
    StructField[] mine = ((StructType) given).fields();
    StructField[] theirs = ((StructType) wanted).fields();
    for (int i = 0; i < mine.length; i++) {
      String name = mine[i].name();
      boolean same = caseSensitive ? name.equals(theirs[i].name()) : name.equalsIgnoreCase(theirs[i].name());
      if (!same) return false;
      if (!sameNames(mine[i].dataType(), theirs[i].dataType())) return false;
    }
    return true;
  }
}
