"""A server over a new warehouse, in a thread of the tests' process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.server.auth.access_tokens import AccessTokens


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


@pytest.fixture
def tokens(catalog: icecore.Catalog) -> AccessTokens:
    """The tokens of a warehouse that has tables in two namespaces."""
    catalog.create_namespace("sales")
    for name in ("sales.orders", "people"):
        catalog.create_namespace(name)
        catalog.create_table(f"{name}.t", parse_schema("id long"))
    return AccessTokens(catalog._warehouse.store)
