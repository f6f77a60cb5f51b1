"""What Spark makes of a table is what this process makes of it: rows, snapshots, files, refs and row ids.

PyIceberg reads it, too.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from core_tables import pyiceberg_catalog  # noqa: E402
from spark_histories import BySpark, Embedded, Picture, play, sorted_rows  # noqa: E402

COW, MOR = "copy-on-write", "merge-on-read"
# How rows are deleted is the tasks' affair, and tasks are the same in both: so each kind of table is played by one.
# A change of version 1 is one of version 2 that copies on write.
CLASSIC = [(1, COW), (3, MOR)]
CONNECT = [(2, MOR), (3, COW)]

SCRIPT = """
import pickle
import sys
from pathlib import Path

from pyspark.sql import SparkSession

here, folder, version, mode = sys.argv[1:]
sys.path.insert(0, here)
import icecore
from spark_histories import BySpark, play

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert "connect" in type(spark).__module__
icecore.spark.register(spark)
pictures = play(BySpark(Path(folder) / "spark", int(version), mode, spark))
(Path(folder) / "pictures").write_bytes(pickle.dumps(pictures))
print("done")
"""


def same_as_embedded(found: dict[str, Picture], folder: Path, version: int, mode: str) -> None:
    wanted = play(Embedded(folder / "embedded", version, mode))
    assert list(found) == list(wanted)
    for step, picture in wanted.items():
        for part, value in picture.items():
            assert found[step][part] == value, f"{part} after {step}"
    if version < 3:
        with closing(pyiceberg_catalog(folder / "spark")) as peer:
            assert sorted_rows(peer.load_table("ns.t").scan().to_arrow().to_pylist()) == picture["rows"]


@pytest.mark.parametrize(("version", "mode"), CLASSIC)
def test_a_history_by_a_classic_session(spark: Any, tmp_path: Path, version: int, mode: str) -> None:
    same_as_embedded(play(BySpark(tmp_path / "spark", version, mode, spark)), tmp_path, version, mode)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "mode"), CONNECT)
def test_a_history_over_connect(over_connect: Callable[..., None], tmp_path: Path, version: int, mode: str) -> None:
    over_connect(SCRIPT, Path(__file__).parents[1], tmp_path, version, mode)
    found = pickle.loads((tmp_path / "pictures").read_bytes())
    same_as_embedded(found, tmp_path, version, mode)
