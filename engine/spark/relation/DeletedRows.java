package icecore;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;

/**
 * The test whether a row is deleted, by bits that a broadcast holds for each file: in generated code it is two look-ups.
 * Executors see only classes of Java and Spark.
 */
public class DeletedRows {
  /**
   * Whether the row at `position` of the file with that `number` is deleted; never null. `bits` has the number of files
   * and for each a length in bytes and the bytes, the lowest bit of the first for position 0.
   */
  public Column isDeleted(JavaSparkContext context, Column number, Column position, byte[] bits) {
    ByteBuffer in = ByteBuffer.wrap(bits);
    ArrayList files = new ArrayList();
    for (int n = in.getInt(); n > 0; n--) {
      byte[] one = new byte[in.getInt()];
      in.get(one);
      files.add(BitSet.valueOf(one));
    }
    Broadcast broadcast = context.broadcast(files);
    Expression handle = new Literal(broadcast, new ObjectType(Broadcast.class));
    Expression all = invoke(handle, "value", new ObjectType(ArrayList.class), null);
    Expression file = invoke(all, "get", new ObjectType(BitSet.class), ExpressionUtils.expression(number));
    // A position that fits no int is an error, not another row's bit.
    Expression index = new Cast(
        ExpressionUtils.expression(position), DataTypes.IntegerType, scala.Option.empty(), EvalMode$.MODULE$.ANSI());
    Expression found = invoke(file, "get", DataTypes.BooleanType, index);
    List parts = Arrays.asList(new Expression[] {found, Literal.FalseLiteral()});
    return ExpressionUtils.column(new Coalesce(seq(parts)));
  }

  private static Expression invoke(Expression target, String method, DataType type, Expression argument) {
    ArrayList arguments = new ArrayList();
    if (argument != null) arguments.add(argument);
    return new Invoke(target, method, type, seq(arguments), seq(new ArrayList()), true, true, true);
  }

  private static Seq seq(List list) {
    return org.apache.spark.api.python.PythonUtils.toSeq(list);
  }
}
