"""The demo's tools: a Spark session if there can be one, a progress bar, headlines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from icecore.engine.display.output import print_text, waiting
from icecore.engine.errors import MissingDependencyError
from icecore.engine.table.table import Table


def headline(text: str) -> None:
    """A line of its own, bold on a terminal."""
    print_text("")
    print_text(Text(text, style="bold"))


@contextmanager
def spark_session() -> Iterator[Any]:
    """A local Spark session, or None, after a line that says what to install."""
    try:
        from icecore.engine.spark.session import session

        with waiting("starting Spark"):
            spark = session("icecore demo", memory="1g")
    except MissingDependencyError as e:
        print_text(f"Without Spark ({e}), so this process writes and reads itself.")
        yield None
        return
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def progress_bar(spark: Any, doing: str, steps: int) -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """A bar over a number of steps, for terminals only; gives a context for each step, by its name.

    Spark's tasks move the bar within a step.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task(doing, total=steps)
        done = 0

        @contextmanager
        def step(name: str) -> Iterator[None]:
            nonlocal done
            progress.update(bar, description=f"{doing} {name}")
            with _spark_tasks(spark, lambda n, of: progress.update(bar, completed=done + n / of)):
                yield
            done += 1
            progress.update(bar, completed=done)

        yield step


def _spark_tasks(spark: Any, callback: Callable[[int, int], None]) -> AbstractContextManager[None]:
    if spark is None:
        return nullcontext()
    from icecore.engine.spark.progress import reporting

    return reporting(spark, callback, "icecore demo")


def print_commit(table: Table) -> None:
    """One line about the last commit of a table."""
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None, "only called after a commit of rows"
    counts = {k: int(snapshot.summary.get(k, "0")) for k in ("added-records", "added-data-files", "deleted-data-files")}
    removed = f", -{counts['deleted-data-files']} files" if counts["deleted-data-files"] else ""
    print_text(
        f"snapshot {snapshot.snapshot_id}: {snapshot.operation} +{counts['added-records']:,} rows, "
        f"+{counts['added-data-files']} files{removed}"
    )


def short(path: Path) -> str:
    """A path as a person would type it from here."""
    absolute = path.absolute()
    here = Path.cwd()
    return os.path.relpath(absolute) if absolute.is_relative_to(here) else str(absolute)
