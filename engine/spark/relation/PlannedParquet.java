package icecore;

import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's Parquet reader, but for filters that would leave out row groups with wanted rows: what Spark hands down as
 * `java.sql.Date` or `Timestamp` is in the Julian calendar before 1582, which lacks ten days that our calendar has, and
 * in some zones another instant until 1900. The rows are filtered by the values themselves.
 */
public class PlannedParquet extends ParquetFileFormat {
  private static final long YEAR_1900 = -2208988800000L;

  private final boolean isLocal;

  /** Whether all files are of this host's own file system. */
  public PlannedParquet(boolean isLocal) {
    this.isLocal = isLocal;
  }

  public Function1 buildReaderWithPartitionValues(
      SparkSession session,
      StructType data,
      StructType partitions,
      StructType required,
      Seq filters,
      Map options,
      Configuration conf) {
    ArrayList kept = new ArrayList();
    for (Iterator i = filters.iterator(); i.hasNext(); ) {
      Object filter = i.next();
      if (!isOld(filter)) kept.add(filter);
    }
    Seq exact = CollectionConverters.asScala((List) kept).toSeq();
    // Executors don't know this class.
    return new ParquetFileFormat().buildReaderWithPartitionValues(
        session, data, partitions, required, exact, options, lean(conf));
  }

  /**
   * The configuration without what Hadoop's own files say of its schedulers, and of other file systems for files of this
   * host: for each file that it opens Spark copies all of it, which was a third of the time of reading a small one.
   */
  public Configuration lean(Configuration conf) {
    Configuration out = new Configuration(false);
    for (java.util.Iterator i = conf.iterator(); i.hasNext(); ) {
      java.util.Map.Entry e = (java.util.Map.Entry) i.next();
      String key = (String) e.getKey();
      String[] sources = conf.getPropertySources(key);
      String last = sources == null || sources.length == 0 ? "" : sources[sources.length - 1];
      boolean isOthers = last.equals("yarn-default.xml") || last.equals("mapred-default.xml");
      if (!isOthers && !(isLocal && last.endsWith("-default.xml"))) out.set(key, (String) e.getValue());
    }
    return out;
  }

  /** A planned file is a Parquet file, and no archive of some: Spark makes its options anew for each to tell. */
  public boolean isSplitable(SparkSession session, Map options, Path path) {
    return true;
  }

  /** Whether a filter has a value of java.sql before 1900. */
  private static boolean isOld(Object part) {
    if (part instanceof Date) return ((Date) part).getTime() < YEAR_1900;
    if (part instanceof Object[]) {
      Object[] all = (Object[]) part;
      for (int i = 0; i < all.length; i++) if (isOld(all[i])) return true;
    } else if (part instanceof Product) {
      for (Iterator i = ((Product) part).productIterator(); i.hasNext(); ) if (isOld(i.next())) return true;
    }
    return false;
  }
}
