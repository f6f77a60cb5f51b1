"""What caches may hold, by the memory that there is."""

from __future__ import annotations

import os

import pytest

from icecore.engine.storage.byte_cache import within_memory

GIB = 2**30


@pytest.mark.parametrize(("memory", "most"), [(24 * GIB, 256 * 2**20), (8 * GIB, 256 * 2**20), (2 * GIB, 64 * 2**20)])
def test_a_cache_takes_no_large_part_of_a_small_machine(
    memory: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": memory // 4096}.__getitem__)
    assert within_memory(256 * 2**20) == most
