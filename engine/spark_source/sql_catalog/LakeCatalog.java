package icecore;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.Seq;

/** A catalog of Python as one of Spark's. Each use of a name asks again, so that the answer is of that moment. */
public class LakeCatalog implements StagingTableCatalog, ProcedureCatalog, SupportsNamespaces {
  private static final String SETTING = "spark.sql.catalog.";

  private String name;
  private volatile LakeCalls calls;

  /** The catalog of that name in the session, made where there is none; null where the session has another one. */
  public LakeCatalog registered(SparkSession session, String name, Function asked) {
    String key = SETTING + name;
    String last = session.sessionState().conf().getConfString(key, null);
    if (last != null && !last.equals(LakeCatalog.class.getName())) return null;
    LakeCatalog found = made(session, name, key);
    found.calls = new LakeCalls(session, asked);
    keepRule(session);
    return found;
  }

  /** Spark makes catalogs by the setting of the active session and the class loader of the thread. */
  private static LakeCatalog made(SparkSession session, String name, String key) {
    Thread thread = Thread.currentThread();
    ClassLoader loader = thread.getContextClassLoader();
    scala.Option active = SparkSession.getActiveSession();
    thread.setContextClassLoader(LakeCatalog.class.getClassLoader());
    SparkSession.setActiveSession(session);
    try {
      session.sessionState().conf().setConfString(key, LakeCatalog.class.getName());
      return (LakeCatalog) session.sessionState().catalogManager().catalog(name);
    } catch (RuntimeException e) {
      session.sessionState().conf().unsetConf(key);
      throw e;
    } finally {
      thread.setContextClassLoader(loader);
      if (active.isDefined()) SparkSession.setActiveSession((SparkSession) active.get());
      else SparkSession.clearActiveSession();
    }
  }

  private static void keepRule(SparkSession session) {
    // As long as others keep rules of theirs.
    synchronized (session.experimental()) {
      Seq rules = session.experimental().extraOptimizations();
      ArrayList all = new ArrayList();
      for (int i = 0; i < rules.length(); i++) {
        if (rules.apply(i) instanceof LakeRule) return;
        all.add(rules.apply(i));
      }
      all.add(new LakeRule(session));
      session.experimental().extraOptimizations_$eq(org.apache.spark.api.python.PythonUtils.toSeq(all));
    }
  }

  /** A table of it, with the function that gives its rows: what Python answers to "table". */
  public LakeTable table(String facts, Function asked) {
    return new LakeTable(new LakeCalls(calls.session(), asked), facts);
  }

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  public String name() {
    return name;
  }

  private Object ask(Object[] question) {
    return calls.ask(Arrays.asList(question));
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    List found = (List) ask(new Object[] {"tables", namespace});
    if (found == null) throw new NoSuchNamespaceException(namespace);
    Identifier[] out = new Identifier[found.size()];
    for (int i = 0; i < out.length; i++) out[i] = new Listed(namespace, (String) found.get(i));
    return out;
  }

  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    return loaded(identifier, null, null);
  }

  public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
    return loaded(identifier, version, null);
  }

  public Table loadTable(Identifier identifier, long micros) throws NoSuchTableException {
    return loaded(identifier, null, Long.valueOf(micros));
  }

  public Table loadTable(Identifier identifier, Set privileges) throws NoSuchTableException {
    return ((LakeTable) loadTable(identifier)).asTarget();
  }

  private Table loaded(Identifier identifier, String version, Long micros) throws NoSuchTableException {
    Object found = ask(new Object[] {"table", identifier.namespace(), identifier.name(), version, micros});
    if (found == null) throw new NoSuchTableException(identifier);
    return (Table) found;
  }

  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    List found = (List) ask(new Object[] {"namespaces", namespace});
    if (found == null) throw new NoSuchNamespaceException(namespace);
    String[][] out = new String[found.size()][];
    for (int i = 0; i < out.length; i++) {
      out[i] = (String[]) Arrays.copyOf(namespace, namespace.length + 1);
      out[i][namespace.length] = (String) found.get(i);
    }
    return out;
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    List found = (List) ask(new Object[] {"namespace", namespace});
    if (found == null) throw new NoSuchNamespaceException(namespace);
    return (Map) found.get(0);
  }

  // What Python does. Where no table can be staged, Spark asks for a drop of one that is to be replaced.

  public Table createTable(Identifier identifier, StructType schema, Transform[] partitions, Map properties) {
    throw refused("CREATE TABLE", "catalog.create_table(...)");
  }

  public Table createTable(Identifier identifier, Column[] columns, Transform[] partitions, Map properties) {
    throw refused("CREATE TABLE", "catalog.create_table(...)");
  }

  public Table createTableLike(Identifier identifier, TableInfo info, Table like) {
    throw refused("CREATE TABLE ... LIKE", "catalog.create_table(name, table.schema(), ...)");
  }

  public StagedTable stageCreate(Identifier identifier, Column[] columns, Transform[] partitions, Map properties) {
    throw refused("CREATE TABLE", "catalog.create_table(...)");
  }

  public StagedTable stageReplace(Identifier identifier, Column[] columns, Transform[] partitions, Map properties) {
    throw refused("REPLACE TABLE", "catalog.replace_table(...)");
  }

  public StagedTable stageCreateOrReplace(
      Identifier identifier, Column[] columns, Transform[] partitions, Map properties) {
    throw refused("CREATE OR REPLACE TABLE", "catalog.create_or_replace_table(...)");
  }

  public Table alterTable(Identifier identifier, TableChange[] changes) {
    for (int i = 0; i < changes.length; i++) {
      if (changes[i] instanceof TableChange.SetProperty) {
        throw refused("ALTER TABLE ... SET TBLPROPERTIES", "table.set_properties(...)");
      }
      if (changes[i] instanceof TableChange.RemoveProperty) {
        throw refused("ALTER TABLE ... UNSET TBLPROPERTIES", "table.remove_properties(...)");
      }
    }
    throw refused("ALTER TABLE", "table.update_schema(), update_spec() or transaction()");
  }

  public boolean dropTable(Identifier identifier) {
    throw refused("DROP TABLE", "catalog.drop_table(...)");
  }

  public boolean purgeTable(Identifier identifier) {
    throw refused("DROP TABLE ... PURGE", "catalog.purge_table(...)");
  }

  public UnboundProcedure loadProcedure(Identifier identifier) {
    return new Procedure(refused("CALL", "a call of table.spark, table.maintenance or the table"));
  }

  public Identifier[] listProcedures(String[] namespace) {
    return new Identifier[0];
  }

  public void renameTable(Identifier from, Identifier to) {
    throw refused("ALTER TABLE ... RENAME", "catalog.rename_table(...)");
  }

  public void createNamespace(String[] namespace, Map properties) {
    throw refused("CREATE NAMESPACE", "catalog.create_namespace(...)");
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw refused("ALTER NAMESPACE", "catalog.update_namespace_properties(...)");
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw refused("DROP NAMESPACE", "catalog.drop_namespace(...)");
  }

  private RuntimeException refused(String what, String call) {
    return new UnsupportedOperationException(name + ": " + what + " is not done by SQL here, " + call + " of Python does it");
  }

  /** What refuses when it is called: of a failure to load one Spark does not say the reason. */
  private static class Procedure implements UnboundProcedure {
    private final RuntimeException refusal;

    Procedure(RuntimeException refusal) {
      this.refusal = refusal;
    }

    public String name() {
      return "none";
    }

    public String description() {
      return "none";
    }

    public BoundProcedure bind(StructType given) {
      throw refusal;
    }
  }

  /** A name in a list of them. */
  private static class Listed implements Identifier {
    private final String[] namespace;
    private final String name;

    Listed(String[] namespace, String name) {
      this.namespace = namespace;
      this.name = name;
    }

    public String[] namespace() {
      return namespace;
    }

    public String name() {
      return name;
    }
  }
}
