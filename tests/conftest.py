from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import spark_jvm
from hypothesis import settings
from hypothesis.internal.conjecture.providers import HypothesisProvider, _local_constants

import icecore
from icecore.engine.errors import MissingDependencyError

pytest_plugins = ["spark_sessions"]

# Where there is memory for it, warehouses are made in memory: half of the time is waiting for a disk else.
_MEMORY = Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 * 2**30:
    os.environ.setdefault("TMPDIR", str(_MEMORY))
    tempfile.tempdir = None

# At the very end of a worker nanobind would name all of DuckDB that a library's daemon thread keeps from being freed.
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2))

# Hundreds of processes are started: none compiles all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
spark_jvm.set_options()
spark_jvm.load_before()

# Times are noisy where tests run, so no example fails for being slow; only `make fuzz` draws new examples.
settings.register_profile("new each time", settings(deadline=None, database=None))
settings.register_profile("the same each time", settings(deadline=None, derandomize=True))
settings.load_profile("the same each time")

# Told once: where it is installed nothing is skipped for the lack of it, in a test that hides it neither.
HAS_DATASKETCHES = find_spec("datasketches") is not None

# The folders whose files take longest, which come first so that no worker is left with one at the end.
LONGEST = ("fuzz", "fault", "property", "interop")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first: Spark, then the folders of long files, then the files of many tests."""
    sizes = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[int, int, Path]:
        if _needs_spark(item.nodeid):
            return -1, 0, item.path
        folder = item.path.parent.name
        return LONGEST.index(folder) if folder in LONGEST else len(LONGEST), -sizes[item.path], item.path

    items.sort(key=place)


def pytest_sessionstart() -> None:
    """Examples that are the same each time have no constants of the modules that happen to be loaded by then."""
    if settings.default is not None and settings.default.derandomize:
        HypothesisProvider._local_constants = _local_constants  # type: ignore[method-assign, assignment]


def pytest_collectstart() -> None:
    """Nothing of what is collected is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected stays until the end, so that no collection of garbage looks through it, in forks neither."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """A test that needs datasketches is skipped where that has no wheel for this Python."""
    try:
        return (yield)
    except MissingDependencyError as e:
        if "datasketches" in str(e) and not HAS_DATASKETCHES:
            pytest.skip(str(e))
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker takes a file at a time in the order above; one takes all of Spark, so that one session is started."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    config.option.loadscopereorder = False
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = lambda nodeid: "Spark" if _needs_spark(nodeid) else nodeid.split("::", 1)[0]
    return scheduler


def _needs_spark(nodeid: str) -> bool:
    return "spark" in nodeid.lower()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """The folder of a warehouse that is not there yet."""
    return tmp_path / "warehouse"


@pytest.fixture
def open_again(warehouse: Path) -> Iterator[Callable[[], icecore.Catalog]]:
    """Opens the same warehouse once more, as another process would; all are closed at the end."""
    opened: list[icecore.Catalog] = []

    def open_one() -> icecore.Catalog:
        opened.append(icecore.open(warehouse, actor="somebody else"))
        return opened[-1]

    yield open_one
    for catalog in opened:
        catalog.close()


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[icecore.Catalog]:
    """A new warehouse that holds the namespace `ns`."""
    with icecore.open(warehouse, actor="tester") as made:
        made.create_namespace("ns")
        yield made


@pytest.fixture
def no_hint_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` waits for no version hint, since no other process is about to write one."""
    from icecore.projections.verify import verify_files

    monkeypatch.setattr(verify_files, "HINT_FOLLOWS_S", 0.0)
