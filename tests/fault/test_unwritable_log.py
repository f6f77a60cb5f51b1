"""A reader whom the system itself keeps from writing the log, while its owner opens, commits and closes it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from core_tables import make_table
from harness.children import Say, in_child
from harness.permissions import give_up_override

import icecore

COMMITS, WAITED_S = 25, 60
WRITE = """
import sys, icecore
for number in range(int(sys.argv[2])):
    with icecore.open(sys.argv[1]) as catalog:
        catalog.load_table("ns.t").append([{"id": number, "name": "x"}])
"""


@pytest.mark.parametrize("place", [".", "icecore.db"])
def test_each_read_is_of_a_state_that_was_and_none_is_older_than_the_last(warehouse: Path, place: str) -> None:
    with icecore.open(warehouse) as owner:
        owner.create_namespace("ns")
        make_table(owner)
    unwritable = warehouse / place
    mode = unwritable.stat().st_mode
    unwritable.chmod(0o555 if place == "." else 0o444)
    if not os.access(unwritable, os.W_OK):
        unwritable.chmod(mode)
        pytest.skip("an owner that still writes has to be root")

    def read(say: Say) -> None:
        give_up_override()
        until, last = time.monotonic() + WAITED_S, 0
        with icecore.open(warehouse, read_only=True) as reader:
            while last < COMMITS and time.monotonic() < until:
                table = reader.load_table("ns.t")
                rows = table.scan().to_arrow().num_rows
                assert rows == len(table.snapshots()) >= last
                with icecore.open(warehouse, read_only=True) as another:
                    assert len(another.load_table("ns.t").snapshots()) >= rows
                last = rows
            say("last", last)
            say("problems", reader.verify().problems)

    writer = subprocess.Popen([sys.executable, "-c", WRITE, str(warehouse), str(COMMITS)])
    outcome = in_child(read)
    assert writer.wait(WAITED_S) == 0
    unwritable.chmod(mode)
    assert (outcome.get("last"), outcome.get("problems"), outcome.exit_code) == (COMMITS, (), 0), outcome.messages
