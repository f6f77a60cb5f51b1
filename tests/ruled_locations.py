"""A warehouse with rules for locations, and commits to it whose locations are as a client spells them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core_tables import repository_of

import icecore
from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.events.event import Provenance

MANUAL = {"icecore.materialize": "manual"}


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """A warehouse whose tables may be in its folder and in `allowed`, each in its own place."""
    for name in ("allowed", "outside", "wh2"):
        (tmp_path / name).mkdir()
    roots = [str(tmp_path / "allowed"), "s3://bucket/tables"]
    with icecore.open(tmp_path / "wh", location_roots=roots, unique_locations=True) as opened:
        opened.create_namespace("ns")
        yield opened


def commit_updates(catalog: icecore.Catalog, *updates: Any) -> None:
    """As a client sends them: no spelling of a location is changed on the way."""
    stream = catalog.load_table("ns.t").state.stream
    repository_of(catalog).commit(stream, lambda _: [ChangeMetadata(lambda _: list(updates))], Provenance())
