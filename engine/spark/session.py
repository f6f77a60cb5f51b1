"""Spark sessions: a local one that starts quietly, and the settings that any session needs."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from icecore.engine.common.optional_packages import needs
from icecore.engine.errors import ValidationError
from icecore.engine.spark.java import find_java_home
from icecore.engine.spark.worker import worker_daemon

# Spark reads these when a query runs, not when it is built, so they must stay on for the session.
_PINNED = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # A file without field ids must be an error, never a file of nulls.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
}
_LOGGING = Path(__file__).with_name("log4j2.properties")
_LISTING_PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_DEFAULT_LISTING_PARALLELISM = "10000"

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # With isolation each session gets class loaders of its own, which local work has no use for.
    "spark.sql.artifact.isolation.enabled": "false",
    _LISTING_PARALLELISM: "8",
    **_PINNED,
}


def session(app_name: str = "icecore", *, master: str = "local[2]", memory: str = "2g", **conf: Any) -> Any:
    """A local Spark session that is ready to read and write Iceberg tables, or the one that is running already.

    `memory` is the driver's. `conf` is Spark's configuration; in keyword arguments `__` stands for the dot, as in
    `spark__sql__shuffle__partitions=4`. Raises MissingDependencyError where PySpark or Java is missing.
    """
    with needs("PySpark", "'icecore[spark]'"):
        from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        prepare(running)
        return running
    os.environ["JAVA_HOME"] = str(find_java_home())
    # Workers would take `python3` from the PATH, which may lack icecore and pyarrow.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        **_LOCAL,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.sql.warehouse.dir": _warehouse_folder(),
        **{k.replace("__", "."): str(v) for k, v in conf.items()},
    }
    if master.startswith("local["):
        # Elsewhere the workers may lack icecore.
        settings.setdefault("spark.python.daemon.module", worker_daemon.NAME)
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    out = builder.getOrCreate()
    prepare(out)
    return out


def given_or_active(session: Any | None) -> Any:
    """The session that is given, or else the active one. Raises ValidationError where there is none."""
    if session is not None:
        return session
    with needs("PySpark", "'icecore[spark]'"):
        from pyspark.sql import SparkSession
    active = SparkSession.getActiveSession()
    if active is None:
        raise ValidationError("no Spark session is active: give one, or start a local one by icecore.spark.session()")
    return active


def prepare(session: Any) -> None:
    """Sets the settings that reading by field id needs, on any session, for as long as its DataFrames live."""
    for key, value in _PINNED.items():
        if session.conf.get(key, None) != value:
            session.conf.set(key, value)
    # By default Spark lists n given files in a job of n tasks.
    if session.conf.get(_LISTING_PARALLELISM, _DEFAULT_LISTING_PARALLELISM) == _DEFAULT_LISTING_PARALLELISM:
        session.conf.set(_LISTING_PARALLELISM, "32")


def _warehouse_folder() -> str:
    """A folder for Spark's own tables that goes with the process; Spark would make one in the working directory."""
    folder = tempfile.mkdtemp(prefix="icecore-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
