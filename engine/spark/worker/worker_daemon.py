"""The process that Spark's Python workers are forked from, in the local sessions that `icecore.spark.session` starts.

Spark puts PySpark's ZIP files and a jar into the path of its workers. They are read though PySpark is installed too:
each worker compiles its modules, and before each task, when PySpark makes importers forget what they know, their
directories are read again, which takes a tenth of a second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "icecore.engine.spark.worker.worker_daemon"
_ARCHIVES = (".zip", ".jar")
_PACKAGES = ("pyspark", "py4j")


def without_archives(path: Iterable[str]) -> list[str]:
    """The path without the archives of a PySpark that is installed in a folder of the path, with what it needs."""
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
