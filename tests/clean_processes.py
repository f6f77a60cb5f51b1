"""Processes for tests that start or kill many: forked off a clean one, which has imported all and runs no thread."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import icecore

PRELOADED = ["fault_writers", "fault.harness.preloaded"]


@cache
def clean_processes() -> ForkServerContext:
    """As multiprocessing's `forkserver`, started where its imports are found: one that lacks them says nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    before = os.environ.get("PYTHONPATH")
    folders = (Path(__file__).parent, Path(icecore.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *filter(None, [before])])
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


def exit_codes_of(*works: Callable[[], object]) -> list[int]:
    """The exit codes of processes that are forked off this one, one for each work: 0, 1 after an error, or its own."""
    statuses = [os.waitpid(pid, 0)[1] for pid in [_forked(work) for work in works]]
    return [os.waitstatus_to_exitcode(status) for status in statuses]


def _forked(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid
