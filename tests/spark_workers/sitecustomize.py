"""What the processes that Spark's Python workers are forked from load first, where this folder is in PYTHONPATH.

PySpark's daemon loads nothing itself, so that each worker, and each process that plans or commits for
`format("icecore")`, would spend up to two seconds on its imports; and it reads archives again before each task.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from importlib import import_module
from itertools import pairwise

DAEMONS = ("pyspark.daemon", "icecore.engine.spark.worker.worker_daemon")
LOADED = (
    "pandas",
    "pyarrow.parquet",
    "icecore.engine.spark.change.position_tasks",
    "icecore.engine.spark_source.iceberg_source",
    "icecore.engine.spark_source.stream.stream_reader",
    "icecore.engine.spark_source.stream.stream_writer",
)


def load(worker: str) -> None:
    """Imports the worker's module, and what it needs of icecore; what can't be imported fails in the worker again."""
    # A fork has no threads but its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # It only names the sources that are there.
    is_lookup = worker.endswith(".lookup_data_sources")
    for name in (worker, *(() if is_lookup else LOADED)):
        with contextlib.suppress(Exception):
            import_module(name)
    # A worker looks for garbage after each task: not in what stays.
    gc.freeze()


def leave_out_archives() -> None:
    """Takes what is installed instead."""
    from icecore.engine.spark.worker.worker_daemon import without_archives

    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()


module = next((b for a, b in pairwise(sys.orig_argv) if a == "-m"), "")
if module.startswith(("pyspark.", *DAEMONS)):
    with contextlib.suppress(ImportError):
        leave_out_archives()
if module in DAEMONS:
    load(sys.orig_argv[-1])
