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
from icecore.engine.spark.relation import java_classes, planned_frame  # noqa: E402
from icecore.engine.spark.relation.java_classes import planned_relations  # noqa: E402
from icecore.engine.spark.relation.plan_bytes import plan_bytes, plan_key  # noqa: E402


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


def test_the_files_of_a_plan_are_sent_once_and_those_of_the_next_commit_anew(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.java_gateway import GatewayClient

    sent: list[int] = []
    send, asking = GatewayClient.send_command, current_thread()

    def measured(self: Any, command: str, *args: Any) -> Any:
        sent.append(len(command)) if current_thread() is asking else None
        return send(self, command, *args)

    monkeypatch.setattr(GatewayClient, "send_command", measured)
    monkeypatch.setattr(planned_frame, "LARGE", 0)

    def sent_of(scan: DataScan) -> tuple[int, list[int]]:
        sent.clear()
        frame = scan.to_spark(spark)
        size = sum(sent)
        # Of a column, as counts are known.
        return size, sorted(row["id"] for row in frame.collect())

    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]), partition_spec=["id"])
        table.append([{"id": i} for i in range(40)])
        first, rows = sent_of(table.scan())
        size = len(table.scan().plan().to_arrow()["file_path"].combine_chunks().buffers()[2])
        assert first > size and rows == list(range(40))
        again, rows = sent_of(table.scan())
        assert again < first - size and rows == list(range(40))
        _, rows = sent_of(table.scan("id < 30"))
        assert rows == list(range(30))
        # Constants of the same files are another plan, whose bytes are the same but for these.
        assert (
            sorted(r["_spec_id"] for r in table.scan(selected_fields=("_spec_id",)).to_spark(spark).collect())
            == [0] * 40
        )
        table.append([{"id": 40}])
        after, rows = sent_of(table.scan())
        assert after > first and rows == list(range(41))
        table.delete("id = 3")
        assert sent_of(table.scan())[1] == [i for i in range(41) if i != 3]


def test_plans_that_were_not_used_for_long_go_first(spark: Any) -> None:
    kept = _made(spark, "KeptPlans", 4)
    a, b, c = (_plan(spark, [f"file:///{name}{i}" for i in range(2)]) for name in "abc")
    kept.keep(a)
    kept.keep(b)
    assert kept.get(a.key()).equals(a)
    kept.keep(c)
    assert [kept.get(p.key()) is not None for p in (a, b, c)] == [True, False, True]
    large = _plan(spark, [f"file:///large{i}" for i in range(5)])
    kept.keep(large)
    assert [kept.get(p.key()) is not None for p in (a, large, c)] == [True, False, True]


@pytest.mark.parametrize(
    "location",
    [
        "file:///a/b-1.2_~!$&'()*+,;=:@/c.parquet",
        "s3://my.bucket-1/a/b",
        "s3://my_bucket/a/b",
        "hdfs://host:8020/a/b",
        "file:///a//b",
        "file:///a/../b",
        "file:///a/./b",
        "file:///a/b/",
        "file:///",
        "file:////a",
        "file:/a",
        "/a",
        "file:/a/b",
        "file:///a b",
        "file:///a%20b",
        "file:///a?b#c",
        "file:///a[1]{2}|^",
        "file:///\u00fc\u20ac",
        "s3://bucket",
        "s3://user@bucket/a",
    ],
)
def test_the_path_of_a_location_is_the_one_that_hadoop_makes(spark: Any, location: str) -> None:
    made = _plan(spark, [location]).path(0)
    wanted = spark._jvm.org.apache.hadoop.fs.Path(location)
    assert made.equals(wanted) and made.toString() == wanted.toString()
    assert made.toUri().toString() == wanted.toUri().toString()


def test_a_file_of_this_host_is_looked_at_itself(spark: Any, tmp_path: Path) -> None:
    """Hadoop has two classes for it and takes the one that it comes upon last; either asks several times for a file."""
    (tmp_path / "a").write_bytes(b"12345")
    files = _plan(spark, [f"file://{tmp_path}/a", f"file://{tmp_path}"])
    statuses = _made(spark, "FileStatuses", spark._jsparkSession, files)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    system = files.path(0).getFileSystem(conf)
    assert statuses.isLocal(system) and statuses.isLocal(spark._jvm.org.apache.hadoop.fs.LocalFileSystem())
    assert not statuses.isLocal(spark._jvm.org.apache.hadoop.fs.RawLocalFileSystem())
    wanted = spark._sc._gateway.new_array(spark._jvm.int, 2)
    wanted[0], wanted[1] = 1, 0
    for found, name in zip(statuses.of(wanted), (f"file://{tmp_path}", f"file://{tmp_path}/a"), strict=True):
        asked = system.getFileStatus(spark._jvm.org.apache.hadoop.fs.Path(name))
        for told in ("getLen", "getModificationTime", "isDirectory", "getBlockSize", "getReplication"):
            assert getattr(found, told)() == getattr(asked, told)()
        assert found.getPath().equals(asked.getPath())


def test_files_with_the_same_constants_are_one_directory_for_spark(spark: Any, tmp_path: Path) -> None:
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
        for i in range(4):
            table.append([{"id": i}])

        def directories(*columns: str) -> int:
            frame = table.scan(selected_fields=columns).to_spark(spark)
            index = frame._jdf.queryExecution().analyzed().collectLeaves().head().relation().location()
            none = spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(spark._jvm.java.util.ArrayList())
            assert len(frame.collect()) == 4
            return int(index.listFiles(none, none).length())

        assert [directories("id"), directories("_spec_id"), directories("id", "_file")] == [1, 1, 4]


def _plan(spark: Any, locations: list[str]) -> Any:
    data = plan_bytes(pa.array(locations), pa.array([1] * len(locations), pa.int64()), {})
    constants = spark._jvm.org.apache.spark.sql.types.StructType()
    return _made(spark, "PlanFiles", plan_key(data, "{}"), constants, data)


def _made(spark: Any, name: str, *values: Any) -> Any:
    java = planned_relations(spark)
    assert java is not None
    arguments = spark._sc._gateway.new_array(spark._jvm.java.lang.Object, len(values))
    for i, value in enumerate(values):
        arguments[i] = value
    return java.getClass().getClassLoader().loadClass(f"icecore.{name}").getConstructors()[0].newInstance(arguments)


def _planned_parquet(spark: Any, *, is_local: bool) -> Any:
    return _made(spark, "PlannedParquet", is_local)
