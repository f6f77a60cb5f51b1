"""What a DataFrame of planned files asks of the JVM: as little as can be, since its first one is waited for."""

from __future__ import annotations

from pathlib import Path
from threading import Event, current_thread
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark


import icecore  # noqa: E402
from icecore.engine.scan import planned_by_spark  # noqa: E402
from icecore.engine.scan.data_scan import DataScan  # noqa: E402
from icecore.engine.spark.relation import java_classes  # noqa: E402
from icecore.engine.spark.relation.java_classes import planned_relations  # noqa: E402


def test_a_dataframe_takes_a_few_calls_of_the_jvm_however_many_columns_it_has(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call is a question and an answer over a socket: by PySpark a column takes 18 of them."""
    from py4j.java_gateway import GatewayClient

    calls: list[str] = []
    send, asking = GatewayClient.send_command, current_thread()

    def counted(self: Any, command: str, *args: Any) -> Any:
        # What Python lets go is told to the JVM whenever it is noticed; another thread may compile rules meanwhile.
        if current_thread() is asking and not command.startswith("m\n"):
            calls.append(command)
        return send(self, command, *args)

    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([(f"c{i}", pa.int64()) for i in range(60)]))
        table.append([{f"c{i}": i for i in range(60)}])
        frame = table.scan().to_spark(spark)
        monkeypatch.setattr(GatewayClient, "send_command", counted)
        frame = table.scan().to_spark(spark)
        assert len(calls) < 10
        assert frame.first() == tuple(range(60))


def test_the_first_dataframe_of_a_session_is_planned_while_its_classes_are_compiled(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, planned = Event(), Event()
    # A driver has these classes once: PySpark knows their methods by name.
    made, plan = planned_relations(spark), planned_by_spark.planned

    def compiled(*args: Any) -> Any:
        begun.set()
        assert planned.wait(60)
        return made

    def planning(scan: DataScan) -> Any:
        assert begun.wait(60)
        found = plan(scan)
        planned.set()
        return found

    monkeypatch.setattr(java_classes, "_compiled", WeakKeyDictionary())
    monkeypatch.setattr(java_classes, "_made", compiled)
    monkeypatch.setattr(planned_by_spark, "planned", planning)
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
        table.append([{"id": 1}])
        frame = table.scan().to_spark(spark)
        assert "PlannedFiles" in frame._jdf.queryExecution().toString()
        assert frame.first() == (1,)


def test_whether_a_planned_file_can_be_split_is_told_without_options_of_its_own(spark: Any) -> None:
    """Spark 4.3 makes them anew for each file, to tell archives by their names: a sixth of a first plan."""
    assert _planned_parquet(spark, is_local=True).isSplitable(None, None, None)


@pytest.mark.parametrize("is_local", [True, False])
def test_a_planned_file_is_opened_with_what_is_set_and_not_with_what_hadoop_has_for_others(
    spark: Any, is_local: bool
) -> None:
    """For each file Spark copies the configuration twice, of over a thousand keys: a third of reading a small one."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    conf.set("parquet.crypto.factory.class", "a.user's")
    conf.set("yarn.acl.enable", "set by a user")
    lean = _planned_parquet(spark, is_local=is_local).lean(conf)
    assert lean.get("parquet.crypto.factory.class") == "a.user's"
    assert lean.get("yarn.acl.enable") == "set by a user"
    assert lean.get("spark.app.name") == conf.get("spark.app.name")
    assert conf.get("yarn.resourcemanager.address") is not None and lean.get("yarn.resourcemanager.address") is None
    assert conf.get("fs.s3a.threads.max") is not None
    assert lean.get("fs.s3a.threads.max") == (None if is_local else conf.get("fs.s3a.threads.max"))
    assert lean.size() < (100 if is_local else 500) < conf.size()


def test_a_task_has_as_many_small_files_as_they_cost_to_open(spark: Any, tmp_path: Path) -> None:
    """Spark's own 4 MiB is what opening a file of an object store costs."""
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
        for i in range(8):
            table.append([{"id": i}])
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(4 * 2**20))
        try:
            assert table.scan().to_spark(spark).rdd.getNumPartitions() == 2
            spark.conf.set("spark.sql.files.openCostInBytes", str(4 * 2**20))
            assert table.scan().to_spark(spark).rdd.getNumPartitions() == 8
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")
            spark.conf.unset("spark.sql.files.openCostInBytes")


def _planned_parquet(spark: Any, *, is_local: bool) -> Any:
    java = planned_relations(spark)
    assert java is not None
    made = java.getClass().getClassLoader().loadClass("icecore.PlannedParquet").getConstructors()[0]
    arguments = spark._sc._gateway.new_array(spark._jvm.java.lang.Object, 1)
    arguments[0] = is_local
    return made.newInstance(arguments)
