"""The process that Spark's Python workers are forked from, in the local sessions that `icecore.spark.session` starts.

Spark puts PySpark's ZIP files and a jar into the path of its workers, which read them even where PySpark is installed.
Then each worker compiles their modules, and reads their directories again before each task, when PySpark makes
importers forget what they know, which takes a tenth of a second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "icecore.engine.spark.worker.worker_daemon"
_ARCHIVES = (".zip", ".jar")
_PACKAGES = ("pyspark", "py4j")


def without_archives(path: Iterable[str]) -> list[str]:
    """The path without the archives inside of an installed PySpark, where the path has folders of PySpark and py4j."""
    entries = list(path)
    if not all(any((Path(entry) / package).is_dir() for entry in entries) for package in _PACKAGES):
        return entries
    installed = [p.resolve() for p in (Path(entry) / "pyspark" for entry in entries) if p.is_dir()]
    return [
        entry
        for entry in entries
        if not entry.endswith(_ARCHIVES) or not any(Path(entry).resolve().is_relative_to(p) for p in installed)
    ]


def main() -> None:
    """Runs PySpark's own daemon."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
