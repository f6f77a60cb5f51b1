"""What a DataFrame of planned files asks of the JVM: as little as can be, since its first one is waited for."""

from __future__ import annotations

from pathlib import Path
from threading import Event
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
    send = GatewayClient.send_command

    def counted(self: Any, command: str, *args: Any) -> Any:
        # What Python lets go is told to the JVM whenever it is noticed.
        calls.append(command) if not command.startswith("m\n") else None
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
    java = planned_relations(spark)
    assert java is not None
    made = java.getClass().getClassLoader().loadClass("icecore.PlannedParquet").getConstructors()[0]
    nothing = spark._sc._gateway.new_array(spark._jvm.java.lang.Object, 0)
    assert made.newInstance(nothing).isSplitable(None, None, None)
