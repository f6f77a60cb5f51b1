"""Spark over two hosts, whose tasks fail and come again, and whose driver is killed: rows are there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="hosts are 127.0.0.2 and 127.0.0.3"),
]

import spark_cluster  # noqa: E402

import icecore  # noqa: E402


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int, str]]:
    """The folder, the exit code and what was said of a driver that did its work and was killed."""
    folder = tmp_path_factory.mktemp("cluster")
    path = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, spark_cluster.__file__, str(folder / "warehouse"), str(folder / "checkpoint")]
    with (folder / "said").open("w") as said:
        driver = subprocess.Popen(
            command,
            cwd=folder,
            stdout=said,
            stderr=said,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    try:
        driver.wait(600)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(60)
    yield folder, driver.returncode, (folder / "said").read_text()


@pytest.mark.parametrize("name", spark_cluster.NAMES)
def test_a_part_of_the_work(ended: tuple[Path, int, str], name: str) -> None:
    """Reads and changes; a task whose first attempt died; one whose first attempt was slow, and was killed."""
    assert f"done {name} " in ended[2], ended[2]


def test_a_driver_that_is_killed_in_complete_mode(spark: Any, ended: tuple[Path, int, str]) -> None:
    """With all its processes, between a batch's commit and Spark's note of it: another one goes on, from that batch."""
    folder, code, said = ended
    assert code == -signal.SIGKILL, said
    assert (folder / "checkpoint/offsets/1").exists() and not (folder / "checkpoint/commits/1").exists()
    with icecore.open(folder / "warehouse", create=False) as catalog:
        table = catalog.load_table("ns.counts")
        assert len(table.snapshots()) == 2
        write = spark_cluster.counting(spark, catalog.path).writeStream.format("icecore").outputMode("complete")
        write = write.option("warehouse", str(catalog.path)).option("checkpointLocation", str(folder / "checkpoint"))
        assert write.trigger(availableNow=True).start("ns.counts").awaitTermination(600)
        assert sorted(map(tuple, (r.values() for r in table.refresh().scan().to_arrow().to_pylist()))) == [
            ("a", 2),
            ("b", 1),
        ]
        assert [(s.summary or {})["spark.sql.streaming.epochId"] for s in table.snapshots()] == ["0", "1", "2"]
        assert catalog.verify(deep=True).ok
