"""Who, why and under which key: only text gets into the envelope of an event."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import ValidationError

NO_TEXT = [5, 1.5, True, b"x", ["x"], dt.date(2024, 1, 1), "\ud800"]


@pytest.mark.parametrize("name", ["message", "author", "idempotency_key"])
@pytest.mark.parametrize("value", NO_TEXT)
def test_what_is_no_text_is_refused(catalog: icecore.Catalog, name: str, value: Any) -> None:
    """SQLite would store it as text, and the event would not have its hash: the log could not be trusted again."""
    table = make_table(catalog)
    before = catalog.position
    with pytest.raises(ValidationError, match=name):
        table.append(rows(1), **{name: value})
    assert catalog.position == before
    table.append(rows(2))
    assert ids_of(table) == [2]
    assert catalog.verify().ok


def test_an_empty_key_is_refused(catalog: icecore.Catalog) -> None:
    """As of a variable that is not set: the rows of the second call would be taken for those of the first."""
    table = make_table(catalog)
    for call in (table.append, table.overwrite):
        with pytest.raises(ValidationError, match="key must not be empty"):
            call(rows(1), idempotency_key="")
    with pytest.raises(ValidationError, match="key must not be empty"):
        catalog.undo(idempotency_key="")
    assert not table.snapshots()


def test_an_actor_to_look_for_that_is_no_text_is_refused(catalog: icecore.Catalog) -> None:
    """It says nothing of the log, which is not damaged."""
    nobody: Any = ()
    for what in ("actor", "kind"):
        with pytest.raises(ValidationError, match=f"{what} must be text"):
            catalog.log(**{what: nobody})


@pytest.mark.parametrize("value", NO_TEXT)
def test_an_actor_that_is_no_text_commits_nothing(catalog: icecore.Catalog, value: Any) -> None:
    """A catalog may be opened so, but no event gets its name."""
    with icecore.open(catalog.path, actor=value) as other, pytest.raises(ValidationError, match="actor"):
        other.create_namespace("more")
    assert catalog.verify().ok


def test_namespaces_and_views_too(catalog: icecore.Catalog) -> None:
    """Every kind of event goes through the same gate."""
    five: Any = 5
    with pytest.raises(ValidationError, match="message must be text, found int"):
        catalog.create_namespace("more", message=five)
    with pytest.raises(ValidationError, match="author must be text, found int"):
        catalog.create_view("ns.v", "SELECT 1 AS x", author=five)
    assert catalog.verify().ok
