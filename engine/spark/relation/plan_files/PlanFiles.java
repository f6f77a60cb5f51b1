package icecore;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The files of a plan with their constants, as `plan_bytes.py` writes them. All of it follows from what its key tells, so
 * that it may serve any session.
 */
public class PlanFiles {
  private static final boolean[] PLAIN = plain("-._~!$&'()*+,;=:@/");
  private static final boolean[] PLAIN_IN_HOSTS = plain("-.");

  private final String key;
  private final StructType constants;
  private final String[] locations;
  private final Path[] paths;
  private final InternalRow[] values;
  private final long size;

  /** `key` tells the plan and the constants. */
  public PlanFiles(String key, StructType constants, byte[] plan) {
    this.key = key;
    this.constants = constants;
    ByteBuffer in = ByteBuffer.wrap(plan);
    int n = in.getInt();
    Object[] names = column(in, n, DataTypes.StringType);
    Object[] sizes = column(in, n, DataTypes.LongType);
    this.locations = new String[n];
    long sum = 0;
    for (int i = 0; i < n; i++) {
      this.locations[i] = names[i].toString();
      sum += Math.max(((Long) sizes[i]).longValue(), 0L);
    }
    this.size = sum;
    this.paths = new Path[n];
    StructField[] fields = constants.fields();
    Object[][] rows = new Object[n][fields.length];
    for (int f = 0; f < fields.length; f++) {
      Object[] found = column(in, n, fields[f].dataType());
      for (int i = 0; i < n; i++) rows[i][f] = found[i];
    }
    this.values = new InternalRow[n];
    for (int i = 0; i < n; i++) {
      boolean isAsBefore = i > 0 && Arrays.deepEquals(rows[i], rows[i - 1]);
      this.values[i] = isAsBefore ? this.values[i - 1] : new GenericInternalRow(rows[i]);
    }
  }

  public String key() {
    return key;
  }

  public StructType constants() {
    return constants;
  }

  public int count() {
    return locations.length;
  }

  /** The sum of what the plan says of sizes. */
  public long size() {
    return size;
  }

  /** The constants of each file, one row for neighbours that have the same. */
  public InternalRow[] values() {
    return values;
  }

  /** The path of a file, made the first time. */
  public synchronized Path path(int file) {
    if (paths[file] == null) paths[file] = path(locations[file]);
    return paths[file];
  }

  /**
   * The path that Hadoop makes of a location. Of one that is written plainly the URI is taken as it stands: by Hadoop
   * 10,000 of them take three times as long.
   */
  public static Path path(String location) {
    int host = location.indexOf("://") + 3;
    int start = location.indexOf('/', host);
    boolean isPlain = host > 3
        && start >= 0
        && start + 1 < location.length()
        && are(PLAIN_IN_HOSTS, location, 0, host - 3)
        && are(PLAIN_IN_HOSTS, location, host, start)
        && are(PLAIN, location, start, location.length())
        && location.indexOf("//", start) < 0
        && location.indexOf("/.", start) < 0
        && !location.endsWith("/");
    return isPlain ? new Path(java.net.URI.create(location)) : new Path(location);
  }

  private static boolean are(boolean[] allowed, String text, int from, int to) {
    for (int i = from; i < to; i++) {
      char c = text.charAt(i);
      if (c >= allowed.length || !allowed[c]) return false;
    }
    return true;
  }

  private static boolean[] plain(String marks) {
    boolean[] out = new boolean[128];
    for (char c = '0'; c <= '9'; c++) out[c] = true;
    for (char c = 'a'; c <= 'z'; c++) out[c] = true;
    for (char c = 'A'; c <= 'Z'; c++) out[c] = true;
    for (int i = 0; i < marks.length(); i++) out[marks.charAt(i)] = true;
    return out;
  }

  private static Object[] column(ByteBuffer in, int n, DataType type) {
    byte[] there = new byte[n];
    in.get(there);
    Object[] out = new Object[n];
    boolean isText = type instanceof StringType || type instanceof BinaryType || type instanceof DecimalType;
    int[] lengths = new int[isText ? n : 0];
    for (int i = 0; i < lengths.length; i++) lengths[i] = in.getInt();
    for (int i = 0; i < n; i++) {
      Object value;
      if (isText) {
        byte[] bytes = new byte[lengths[i]];
        in.get(bytes);
        value = there[i] == 0 ? null : fromBytes(bytes, type);
      } else {
        value = fromLong(in.getLong(), type);
      }
      out[i] = there[i] == 0 ? null : value;
    }
    return out;
  }

  private static Object fromBytes(byte[] bytes, DataType type) {
    if (type instanceof StringType) return UTF8String.fromBytes(bytes);
    if (type instanceof BinaryType) return bytes;
    DecimalType decimal = (DecimalType) type;
    java.math.BigDecimal value = new java.math.BigDecimal(new String(bytes, StandardCharsets.UTF_8));
    return Decimal.apply(value, decimal.precision(), decimal.scale());
  }

  private static Object fromLong(long value, DataType type) {
    if (type instanceof IntegerType || type instanceof DateType) return Integer.valueOf((int) value);
    if (type instanceof BooleanType) return Boolean.valueOf(value != 0);
    if (type instanceof DoubleType) return Double.valueOf(Double.longBitsToDouble(value));
    if (type instanceof FloatType) return Float.valueOf((float) Double.longBitsToDouble(value));
    return Long.valueOf(value);
  }
}
