"""The progress of Spark's tasks while an action runs."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

ProgressCallback: TypeAlias = Callable[[int, int], None]

_GROUP = "spark.jobGroup.id"
_DESCRIPTION = "spark.job.description"
_INTERVAL_SECONDS = 0.2


@contextlib.contextmanager
def reporting(session: Any, on_progress: ProgressCallback | None, doing: str) -> Iterator[None]:
    """Calls `on_progress(done, total)` with numbers of tasks from a thread while the block runs, and once at the end.

    `total` grows as Spark starts stages. In Connect, which tells no such numbers, nothing is called.
    """
    context = _spark_context(session)
    if on_progress is None or context is None:
        yield
        return
    group = f"icecore-{uuid.uuid4()}"
    before = {key: context.getLocalProperty(key) for key in (_GROUP, _DESCRIPTION)}
    context.setJobGroup(group, doing)
    stop = threading.Event()
    last: list[tuple[int, int]] = []

    def report() -> None:
        counts = _task_counts(context, group)
        if counts[1] and counts != (last[-1] if last else None):
            last[:] = [counts]
            on_progress(*counts)

    def poll() -> None:
        while not stop.wait(_INTERVAL_SECONDS):
            report()

    thread = threading.Thread(target=poll, name="icecore-spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        report()
        for key, value in before.items():
            context.setLocalProperty(key, value)


def _spark_context(session: Any) -> Any:
    """The session's context, or None in Connect."""
    try:
        return session.sparkContext
    except Exception:  # Connect raises an error class of its own
        return None


def _task_counts(context: Any, group: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    stages = {s for job in tracker.getJobIdsForGroup(group) if (i := tracker.getJobInfo(job)) for s in i.stageIds}
    infos = [i for i in map(tracker.getStageInfo, stages) if i is not None]
    # A stage that hasn't begun may never: Spark skips those whose shuffle is there already.
    infos = [i for i in infos if i.numActiveTasks or i.numCompletedTasks or i.numFailedTasks]
    return sum(i.numCompletedTasks for i in infos), sum(i.numTasks for i in infos)
