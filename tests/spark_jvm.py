"""How Spark's JVM runs in tests: short, so with little time for its compiler, and with its classes loaded before.

`python tests/spark_jvm.py` makes the archive of classes, which saves each start of Spark five of nine seconds of CPU;
`make test` makes it first. A JVM that it doesn't fit, or that finds none, loads classes from their jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Room for short-lived objects and for classes, which Spark makes many of: each growth of either is a collection. Room
# for compiled code too: where it is full, what is seldom called is thrown away and compiled again.
_ROOM = "-Xmn400m -XX:MetaspaceSize=300m -XX:ReservedCodeCacheSize=240m"
# A seventh of a short run is to check the bytes of classes, all of which javac or Spark made.
_TRUST = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# Nothing is said about an archive that doesn't fit: some tests read what Spark prints.
_QUIET = "-Xlog:cds*=off -Xlog:class*=off"


def set_options() -> None:
    """Sets the variables that Spark's launcher gives to its JVM, where they have no value."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_RUN)
    archive = archive_of_classes()
    loaded = f" -XX:SharedArchiveFile={archive} {_QUIET}" if archive is not None and archive.exists() else ""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_SHORT_RUN} {_ROOM} {_TRUST}{loaded}")


def load_before() -> None:
    """Has Spark's workers be forks of a process that has loaded what they need: see `spark_workers/`."""
    folder = str(Path(__file__).with_name("spark_workers"))
    others = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if folder not in others:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])


def archive_of_classes() -> Path | None:
    """Where the archive for this PySpark is; none where there is no PySpark."""
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return None
    # The paths of the jars, which Spark looks for without links, are part of an archive.
    jars = Path(pyspark.origin).resolve().with_name("jars")
    number = zlib.crc32(f"{jars} {jars.stat().st_mtime_ns}".encode())
    return Path(sys.prefix) / f"spark-classes-{number:08x}.jsa"


def make_archive() -> None:
    """Makes the archive of what a few queries load, if there is none."""
    from icecore.engine.spark.java import java_available

    archive = archive_of_classes()
    if archive is None or archive.exists() or not java_available():
        return
    made = archive.with_name(f"{archive.name}.{os.getpid()}")
    options = f"{_SHORT_RUN} {_ROOM} {_TRUST} {_QUIET} -XX:ArchiveClassesAtExit={made}"
    env = {**os.environ, "SPARK_LAUNCHER_OPTS": _SHORT_RUN, "SPARK_SUBMIT_OPTS": options}
    try:
        # What Java says of its modules, and bindings of threads that never end, is of interest where something fails.
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
            command = [sys.executable, __file__, folder]
            if subprocess.run(command, env=env, stdout=said, stderr=said, check=False).returncode:
                said.seek(0)
                sys.exit(said.read())
        if made.exists():
            made.replace(archive)
    finally:
        made.unlink(missing_ok=True)


def remember_classes() -> None:
    """PySpark asks its JVM once for each class and static method, not at each use of a function of columns.

    Each question is a search through all jars, since a class may be a package.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JVMView

    def remembering(look: Callable[[Any, str], Any], kind: type) -> Callable[[Any, str], Any]:
        def found(self: Any, name: str) -> Any:
            out = look(self, name)
            if isinstance(out, kind):
                self.__dict__[name] = out
            return out

        return found

    JVMView.__getattr__ = remembering(JVMView.__getattr__, JavaClass)
    JavaClass.__getattr__ = remembering(JavaClass.__getattr__, JavaMember)


def _run_spark(folder: Path) -> None:
    """Writes, streams, merges and reads a few rows; waits for the JVM, which writes the archive at its end."""
    import pyarrow as pa

    import icecore
    from icecore.spark import session

    spark = session("classes")
    warehouse = folder / "warehouse"
    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("ns")
        columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
        table, _ = (catalog.create_table(name, columns, format_version=3) for name in ("ns.t", "ns.sink"))
        table.append(spark.sql("SELECT id, 'x' AS name FROM range(100)"))
        rows = spark.readStream.format("icecore").option("warehouse", str(warehouse)).load("ns.t")
        stream = rows.writeStream.format("icecore").option("warehouse", str(warehouse)).trigger(availableNow=True)
        stream.option("checkpointLocation", str(folder / "checkpoint")).start("ns.sink").awaitTermination(600)
        news = spark.createDataFrame([(1, "y"), (200, "z")], "id BIGINT, name STRING")
        table.spark.merge(news, "id").when_matched_update_all().when_not_matched_insert_all().commit()
        table.spark.delete("id > 50")
        assert table.scan("id < 20").to_spark(spark).groupBy("name").count().count() == 2
        icecore.spark.catalog(spark, catalog)
        spark.sql("SELECT name, max(id) FROM lake.ns.t GROUP BY name ORDER BY name").collect()
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait(600)


if __name__ == "__main__":
    _run_spark(Path(sys.argv[1])) if sys.argv[1:] else make_archive()
