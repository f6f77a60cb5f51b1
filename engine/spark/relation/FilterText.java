package icecore;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.CreateArray;
import org.apache.spark.sql.catalyst.expressions.ElementAt;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * A filter of Spark as JSON, of which `catalyst_filter.py` makes one of ours. What it has no words for is null. Names and
 * strings are given in hexadecimal, values as Spark holds them.
 */
public class FilterText {
  /** Of more values only the least and the greatest are told. */
  private static final int MOST = 10000;
  private static final String[] HIDDEN = {"__metadata_col", "__file_source_metadata_col"};

  /** All of the filters. */
  public static String of(Seq filters) {
    return list("and", filters);
  }

  /**
   * Whether an expression is a column of a file of which `oneOf` can be said, or whole numbers of one made longer. Floats
   * are none, as their equality is not that of their bytes.
   */
  public static boolean isKey(Expression e) {
    if (isLonger(e)) return column(child(e, 0)) != null;
    DataType type = e.dataType();
    boolean isSaid = type.equals(DataTypes.StringType)
        || type.equals(DataTypes.BinaryType)
        || type.equals(DataTypes.BooleanType)
        || type.equals(DataTypes.DateType)
        || type.equals(DataTypes.TimestampType)
        || type.equals(DataTypes.TimestampNTZType)
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof DecimalType;
    return isSaid && column(e) != null;
  }

  /** What is the same of two keys of one relation, whatever plans they are in. */
  public static String named(Expression key) {
    return column(isLonger(key) ? child(key, 0) : key) + key.dataType().simpleString();
  }

  private static boolean isLonger(Expression e) {
    return e instanceof Cast && e.dataType() instanceof LongType && child(e, 0).dataType() instanceof IntegerType;
  }

  /** Those of the values that rows may have in the column of a key: no nulls, and no numbers that are too long for it. */
  public static List valuesOf(Expression key, Object[] values) {
    ArrayList out = new ArrayList();
    for (int i = 0; i < values.length; i++) {
      Object v = values[i];
      if (v != null && isLonger(key)) {
        int shorter = ((Long) v).intValue();
        v = shorter == ((Long) v).longValue() ? Integer.valueOf(shorter) : null;
      }
      if (v != null) out.add(v);
    }
    return out;
  }

  /** That the column of a key has one of some values as `valuesOf` gives them, or one between them where they are many. */
  public static String oneOf(Expression key, List values) {
    Expression column = isLonger(key) ? child(key, 0) : key;
    DataType type = column.dataType();
    if (values.size() > MOST) {
      if (type instanceof BinaryType) return null;
      String least = made(">=", column(column), value(Collections.min(values), type));
      String greatest = made("<=", column(column), value(Collections.max(values), type));
      return "[\"and\"," + least + "," + greatest + "]";
    }
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < values.size(); i++) if (!append(out, value(values.get(i), type))) return null;
    return made("in", column(column), "[" + out + "]");
  }

  private static String of(Expression e) {
    if (e instanceof And) return list("and", e.children());
    if (e instanceof Or) return list("or", e.children());
    if (e instanceof Not) return list("not", e.children());
    if (e instanceof AttributeReference || e instanceof GetStructField) {
      return e.dataType() instanceof BooleanType ? made("=", column(e), "[\"boolean\",\"1\"]") : "null";
    }
    if (e instanceof IsNull) return made("is-null", column(child(e, 0)), "null");
    if (e instanceof IsNotNull) return made("not-null", column(child(e, 0)), "null");
    if (e instanceof IsNaN) return made("is-nan", column(child(e, 0)), "null");
    if (e instanceof In) return in(child(e, 0), ((In) e).list());
    if (e instanceof InSet) return inSet((InSet) e);
    if (e instanceof StartsWith) return compared("starts-with", child(e, 0), child(e, 1));
    String operator = operator(e);
    if (operator == null) return "null";
    if (child(e, 0) instanceof Literal) return compared(turned(operator), child(e, 1), child(e, 0));
    return compared(operator, child(e, 0), child(e, 1));
  }

  private static String operator(Expression e) {
    if (e instanceof EqualTo) return "=";
    if (e instanceof EqualNullSafe) return "<=>";
    if (e instanceof LessThan) return "<";
    if (e instanceof LessThanOrEqual) return "<=";
    if (e instanceof GreaterThan) return ">";
    if (e instanceof GreaterThanOrEqual) return ">=";
    return null;
  }

  private static String turned(String operator) {
    if (operator.startsWith("<") && !operator.equals("<=>")) return ">" + operator.substring(1);
    return operator.startsWith(">") ? "<" + operator.substring(1) : operator;
  }

  private static String compared(String operator, Expression column, Expression literal) {
    if (!(literal instanceof Literal)) return "null";
    return made(operator, column(column), value(((Literal) literal).value(), literal.dataType()));
  }

  private static String in(Expression column, Seq values) {
    StringBuilder out = new StringBuilder();
    Iterator all = values.iterator();
    while (all.hasNext()) {
      Object next = all.next();
      if (!(next instanceof Literal)) return "null";
      if (!append(out, value(((Literal) next).value(), ((Literal) next).dataType()))) return "null";
    }
    return made("in", column(column), "[" + out + "]");
  }

  private static String inSet(InSet e) {
    StringBuilder out = new StringBuilder();
    Iterator all = e.hset().iterator();
    while (all.hasNext()) if (!append(out, value(all.next(), child(e, 0).dataType()))) return "null";
    return made("in", column(child(e, 0)), "[" + out + "]");
  }

  private static boolean append(StringBuilder out, String value) {
    out.append(out.length() == 0 ? "" : ",").append(value);
    return value != null;
  }

  private static String made(String operator, String column, String value) {
    return column == null || value == null ? "null" : "[\"" + operator + "\"," + column + "," + value + "]";
  }

  private static String list(String operator, Seq parts) {
    StringBuilder out = new StringBuilder("[\"" + operator + "\"");
    Iterator all = parts.iterator();
    while (all.hasNext()) out.append(",").append(of((Expression) all.next()));
    return out.append("]").toString();
  }

  /** The names from the top-level column down; null for what is no column of a file. */
  private static String column(Expression e) {
    String names = names(e);
    return names == null ? null : "[" + names + "]";
  }

  private static String names(Expression e) {
    if (e instanceof AttributeReference) {
      AttributeReference a = (AttributeReference) e;
      for (int i = 0; i < HIDDEN.length; i++) if (a.metadata().contains(HIDDEN[i])) return null;
      return "\"" + hex(a.name()) + "\"";
    }
    if (isWhole(e)) return names(child(child(e, 0), 0));
    if (!(e instanceof GetStructField)) return null;
    String outer = names(child(e, 0));
    DataType struct = child(e, 0).dataType();
    if (outer == null) return null;
    return outer + ",\"" + hex(((StructType) struct).fields()[((GetStructField) e).ordinal()].name()) + "\"";
  }

  /** Whether it is a column of which Spark is to take all (see `native_scan.py`), not one of several in an array. */
  private static boolean isWhole(Expression e) {
    if (!(e instanceof ElementAt) || !(child(e, 0) instanceof CreateArray)) return false;
    if (child(e, 0).children().length() != 1 || !(child(e, 1) instanceof Literal)) return false;
    return Integer.valueOf(1).equals(((Literal) child(e, 1)).value());
  }

  /** A value with its type; null for nulls, and for types whose values go by other rules than their bytes. */
  private static String value(Object v, DataType type) {
    String text;
    if (v == null) return null;
    if (type instanceof StringType) {
      if (!type.equals(DataTypes.StringType)) return null;
      text = hex(((UTF8String) v).getBytes());
    } else if (type instanceof BinaryType) {
      text = hex((byte[]) v);
    } else if (type instanceof BooleanType) {
      text = ((Boolean) v).booleanValue() ? "1" : "0";
    } else if (type instanceof DecimalType) {
      text = ((Decimal) v).toJavaBigDecimal().toPlainString();
    } else if (type instanceof DoubleType || type instanceof FloatType) {
      text = String.valueOf(((Number) v).doubleValue());
    } else if (v instanceof Integer || v instanceof Long) {
      text = v.toString();
    } else {
      return null;
    }
    return "[\"" + type.simpleString() + "\",\"" + text + "\"]";
  }

  private static Expression child(Expression e, int i) {
    return (Expression) e.children().apply(i);
  }

  /** A text in hexadecimal. */
  public static String hex(String text) {
    return hex(text.getBytes(StandardCharsets.UTF_8));
  }

  private static String hex(byte[] bytes) {
    StringBuilder out = new StringBuilder(2 * bytes.length);
    for (int i = 0; i < bytes.length; i++) {
      out.append(Character.forDigit((bytes[i] >> 4) & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
    }
    return out.toString();
  }
}
