package icecore;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.catalyst.expressions.ArrayTransform;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.TransformKeys;
import org.apache.spark.sql.catalyst.expressions.TransformValues;
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
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;

/**
 * The values that an UPDATE or MERGE sets: of types that Spark's store assignment takes for an INSERT, and structs by the
 * names of their fields, as Spark has it for tables that it changes itself. In a command of tables like ours it casts what
 * it can, and structs by the order of fields.
 */
public class LakeAssignments {
  private static final String POLICY = "spark.sql.storeAssignmentPolicy";

  private final String policy;
  private final boolean caseSensitive;
  private final ArrayList analysed = new ArrayList();
  private final ArrayList placed = new ArrayList();
  private int taken;

  private LakeAssignments(SparkSession session) {
    policy = session.sessionState().conf().getConfString(POLICY, "ANSI");
    caseSensitive = session.sessionState().conf().caseSensitiveAnalysis();
  }

  /** Those of the command that the session runs. Throws where it sets a value of a type that does not fit. */
  public static LakeAssignments of(SparkSession session) {
    LakeAssignments out = new LakeAssignments(session);
    String id = session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution running = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    // Analysed only: the optimiser folds the casts that tell what was given.
    if (running != null) out.command(running.analyzed());
    return out;
  }

  /** The value of the next assignment, in the order of the command; `a` is what the optimiser made of it. */
  public Expression next(Assignment a) {
    if (analysed.isEmpty()) return a.value();
    Expression value = (Expression) placed.get(taken);
    Expression key = (Expression) analysed.get(taken++);
    if (!key.semanticEquals(a.key())) throw new IllegalStateException("Spark sets " + a.key().sql() + ", not " + key.sql());
    return value == null ? a.value() : value;
  }

  private void command(LogicalPlan plan) {
    if (plan instanceof UpdateTable) add(((UpdateTable) plan).assignments());
    if (!(plan instanceof MergeIntoTable)) return;
    actions(((MergeIntoTable) plan).matchedActions());
    actions(((MergeIntoTable) plan).notMatchedActions());
    actions(((MergeIntoTable) plan).notMatchedBySourceActions());
  }

  private void actions(Seq actions) {
    for (int i = 0; i < actions.length(); i++) {
      Object action = actions.apply(i);
      if (action instanceof UpdateAction) add(((UpdateAction) action).assignments());
      if (action instanceof InsertAction) add(((InsertAction) action).assignments());
    }
  }

  private void add(Seq assignments) {
    for (int i = 0; i < assignments.length(); i++) {
      Assignment a = (Assignment) assignments.apply(i);
      analysed.add(a.key());
      // Casts that the statement itself has are no matter of assignment.
      boolean isCast = a.value() instanceof Cast && a.value().getTagValue(Cast.BY_TABLE_INSERTION()).isDefined();
      placed.add(isCast ? placed((Cast) a.value(), a.key()) : null);
    }
  }

  /** The value with the fields of structs at their places; null where they are there already. */
  private Expression placed(Cast cast, Expression key) {
    if (policy.equalsIgnoreCase("LEGACY")) {
      throw new IllegalArgumentException(
          "ValidationError: LEGACY store assignment policy is disallowed in Spark data source V2, as for an INSERT");
    }
    String refused = "ValidationError: column " + key.sql() + ": ";
    Expression value = placed(cast.child(), key.dataType(), refused);
    if (!fits(value.dataType(), key.dataType())) {
      throw new IllegalArgumentException(
          refused + cast.child().dataType().sql() + " is not stored as " + key.dataType().sql()
              + " unless the statement casts it");
    }
    return value == cast.child() ? null : new Cast(value, key.dataType(), cast.timeZoneId(), cast.evalMode());
  }

  private boolean fits(DataType given, DataType wanted) {
    if (policy.equalsIgnoreCase("STRICT")) return Cast.canUpCast(given, wanted);
    return Cast.canANSIStoreAssign(given, wanted);
  }

  /** The same value where no field is at another place. Throws, by that text, where names are others. */
  private Expression placed(Expression value, DataType wanted, String refused) {
    DataType given = value.dataType();
    if (given instanceof ArrayType && wanted instanceof ArrayType) {
      ArrayType list = (ArrayType) given;
      NamedLambdaVariable element = variable("element", list.elementType(), list.containsNull());
      Expression out = placed(element, ((ArrayType) wanted).elementType(), refused);
      return out == element ? value : new ArrayTransform(value, function(out, new Object[] {element}));
    }
    if (given instanceof MapType && wanted instanceof MapType) {
      MapType map = (MapType) given;
      NamedLambdaVariable key = variable("key", map.keyType(), false);
      NamedLambdaVariable item = variable("value", map.valueType(), map.valueContainsNull());
      Expression newKey = placed(key, ((MapType) wanted).keyType(), refused);
      Expression newItem = placed(item, ((MapType) wanted).valueType(), refused);
      Object[] both = new Object[] {key, item};
      Expression out = newItem == item ? value : new TransformValues(value, function(newItem, both));
      return newKey == key ? out : new TransformKeys(out, function(newKey, both));
    }
    boolean areStructs = given instanceof StructType && wanted instanceof StructType;
    return areStructs ? placed(value, (StructType) given, (StructType) wanted, refused) : value;
  }

  private Expression placed(Expression value, StructType given, StructType wanted, String refused) {
    int[] places = places(given, wanted);
    if (places == null) {
      throw new IllegalArgumentException(refused + "the fields of " + given.sql() + " are not those of " + wanted.sql());
    }
    boolean isSame = true;
    ArrayList parts = new ArrayList();
    for (int i = 0; i < places.length; i++) {
      String name = given.fields()[places[i]].name();
      Expression part = new GetStructField(value, places[i], scala.Option.apply(name));
      Expression out = placed(part, wanted.fields()[i].dataType(), refused);
      isSame = isSame && places[i] == i && out == part;
      parts.add(new Literal(UTF8String.fromString(name), DataTypes.StringType));
      parts.add(out);
    }
    if (isSame) return value;
    Expression made = new CreateNamedStruct(seq(parts));
    return value.nullable() ? new If(new IsNull(value), new Literal(null, made.dataType()), made) : made;
  }

  /** Where the wanted fields are: in their order if the names are so, else by name; null where one is not there once. */
  private int[] places(StructType given, StructType wanted) {
    int[] out = new int[wanted.length()];
    if (given.length() != out.length) return null;
    boolean inOrder = true;
    for (int i = 0; i < out.length; i++) inOrder = inOrder && same(given.fields()[i], wanted.fields()[i]);
    for (int i = 0; i < out.length; i++) {
      int found = 0;
      for (int j = 0; j < out.length; j++) {
        if (inOrder ? i != j : !same(given.fields()[j], wanted.fields()[i])) continue;
        out[i] = j;
        found++;
      }
      if (found != 1) return null;
    }
    return out;
  }

  private boolean same(StructField a, StructField b) {
    return caseSensitive ? a.name().equals(b.name()) : a.name().equalsIgnoreCase(b.name());
  }

  private static NamedLambdaVariable variable(String name, DataType type, boolean nullable) {
    return new NamedLambdaVariable(name, type, nullable, NamedExpression$.MODULE$.newExprId(), new AtomicReference());
  }

  private static LambdaFunction function(Expression body, Object[] variables) {
    return new LambdaFunction(body, seq(Arrays.asList(variables)), false);
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }
}
