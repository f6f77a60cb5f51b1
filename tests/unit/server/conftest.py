"""A server over a new warehouse, in a thread of the tests' process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_client import RestClient, served

import icecore


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """The warehouse that is served, as the tests' own process has it open."""
    with icecore.open(tmp_path / "warehouse", actor="tester") as made:
        yield made


@pytest.fixture
def rest(catalog: icecore.Catalog) -> Iterator[RestClient]:
    """A client of the server of that warehouse."""
    with served(catalog) as client:
        yield client
