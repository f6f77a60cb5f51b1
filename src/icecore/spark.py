"""The public names for Spark: ready sessions, catalogs, `format("icecore")`, streams, SQL, plans made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from icecore.engine.spark_source.foreach_batch import foreach_batch
from icecore.engine.spark_source.registration import register, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.catalog.catalog_at import CatalogAt

__all__ = ["catalog", "foreach_batch", "load_plan", "register", "session", "sql"]


def load_plan(spark: SparkSession, folder: str | Path) -> DataFrame:
    """The rows of a plan that `scan.export(folder)` wrote, from its files, deletes, filter and schema alone.

    Raises MissingFileError where there is none, CorruptFileError where it is not what was written.
    """
    from icecore.engine.scan import exported_plan

    return exported_plan.load_plan(str(folder)).to_spark(spark)


def sql(
    spark: SparkSession, catalog: Catalog | CatalogAt, query: str, *, name: str = "lake", args: Any = None
) -> DataFrame:
    """The rows of a Spark SQL query over tables and views of a catalog, which the query calls by `name`.

    `lake.ns.t` is the table or view `ns.t`, `lake.ns.t.snapshots` and its like a metadata table. Without the catalog's
    name those that it has are its own, all others Spark's. Tables can be read `VERSION AS OF` a snapshot id, branch or
    tag, and `TIMESTAMP AS OF` any expression. `args` are the values of `:name` or `?`, as of `spark.sql`. Works in
    Spark Connect too. Raises ValidationError where it is no single query, NoSuchTableError, NoSuchSnapshotError.
    """
    from icecore.engine.spark_source import named_sql

    return named_sql.sql(spark, catalog, query, name=name, args=args)


def catalog(spark: SparkSession, catalog: Catalog | CatalogAt, name: str = "lake") -> None:
    """Makes a catalog one of a classic session's own: `spark.sql` and `spark.table` know `lake.ns.t` from then on.

    Tables are read as `to_spark` reads them, at the snapshot that is current when a query is analysed; `VERSION AS OF`,
    `TIMESTAMP AS OF`, views, metadata tables and metadata columns too. `INSERT INTO`, `INSERT OVERWRITE` of all rows,
    `DELETE`, `UPDATE`, `MERGE INTO` and `TRUNCATE TABLE` are commits; `CREATE`, `ALTER` and `DROP` are errors that name
    the call of Python.
    Raises ValidationError where the session takes no catalog, as in Spark Connect, where
    `icecore.spark.sql` reads by name, and where the name is another catalog's.
    """
    from icecore.engine.spark_source.sql_catalog.session_catalog import register_catalog

    register_catalog(spark, catalog, name)
