"""What caches may hold, by the memory that there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icecore.engine.storage import byte_cache
from icecore.engine.storage.byte_cache import within_memory

GIB = 2**30


@pytest.mark.parametrize(("memory", "most"), [(24 * GIB, 256 * 2**20), (8 * GIB, 256 * 2**20), (2 * GIB, 64 * 2**20)])
def test_a_cache_takes_no_large_part_of_a_small_machine(
    memory: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": memory // 4096}.__getitem__)
    monkeypatch.setattr(byte_cache, "CONTAINER_LIMITS", ())
    assert within_memory(256 * 2**20) == most


@pytest.mark.parametrize(("limit", "most"), [("1073741824\n", 32 * 2**20), ("max\n", 256 * 2**20), (None, 256 * 2**20)])
def test_nor_of_a_small_container(
    limit: str | None, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 24 * GIB // 4096}.__getitem__)
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(limit)
    monkeypatch.setattr(byte_cache, "CONTAINER_LIMITS", (file, tmp_path / "none"))
    assert within_memory(256 * 2**20) == most
