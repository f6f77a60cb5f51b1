"""Shared parts of the benchmarks: CPU time of a call, the machine they ran on, and results as JSON."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("icecore", "duckdb", "polars", "pyarrow", "pyiceberg")


def cpu_seconds(action: Callable[[], Any], repeat: int = 1) -> float:
    """The least CPU time of `repeat` calls, over all threads of the process."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        started = time.process_time()
        action()
        best = min(best, time.process_time() - started)
    return best


def peak_memory_mb() -> float:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def as_installed(cache: str) -> dict[str, str]:
    """The environment of a process that keeps the bytecode of its modules in a folder, as an installer would."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": cache}


def environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "packages": dict(_versions()),
    }


def _versions() -> Iterator[tuple[str, str]]:
    """The versions of the packages that are installed; an environment for Spark alone lacks some."""
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


def save(name: str, results: Any) -> None:
    """Writes results/<name>.json and says so."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), "results": results}, indent=1) + "\n")
    print(f"{path.relative_to(Path(__file__).parent.parent)} written", file=sys.stderr)
