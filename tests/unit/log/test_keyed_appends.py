"""Commits under an idempotency key, as the log has them."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import ReusedKeyError, ValidationError


def test_the_same_key_gives_the_same_answer(catalog: icecore.Catalog) -> None:
    """A call that is made again under its idempotency key appends nothing and leaves the table where it was."""
    table = make_table(catalog)
    table.append(rows(1), idempotency_key="k1")
    first, position = table.metadata.current_snapshot_id, catalog.position
    table.append(rows(1), idempotency_key="k1")
    again = catalog.load_table("ns.t")
    again.append(rows(99), idempotency_key="k1")
    assert catalog.position == position
    assert again.metadata.current_snapshot_id == table.metadata.current_snapshot_id == first
    assert ids_of(table) == [1]
    with icecore.open(catalog.path) as other:
        other.load_table("ns.t").append(rows(1), idempotency_key="k1")
        assert other.position == position


def test_the_same_key_at_once_appends_once(
    catalog: icecore.Catalog, open_again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls with one key that run at the same time make one commit."""
    from icecore.engine.repository.repository import Repository

    table, other = make_table(catalog), open_again().load_table("ns.t")
    original, waiting = Repository._try_commit, [lambda: other.append(rows(1), idempotency_key="k")]

    def delayed(self: Repository, *args: Any, **kwargs: Any) -> Any:
        if waiting:
            waiting.pop()()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Repository, "_try_commit", delayed)
    table.append(rows(1), idempotency_key="k")
    assert ids_of(table) == [1]
    assert len(table.snapshots()) == 1


def test_a_key_of_another_table_is_a_clear_error(catalog: icecore.Catalog) -> None:
    """A key that was used for another table is refused, naming that table; nothing is appended."""
    first, second = make_table(catalog, "first"), make_table(catalog, "second")
    first.append(rows(1), idempotency_key="k")
    position = catalog.position
    with pytest.raises(ReusedKeyError, match=r"ns\.first"):
        second.append(rows(2), idempotency_key="k")
    assert catalog.position == position
    assert ids_of(second.refresh()) == []


def test_a_failed_call_does_not_use_up_its_key(catalog: icecore.Catalog) -> None:
    """A key whose call was refused can be used for the call that is right."""
    table = make_table(catalog)
    with pytest.raises(ValidationError):
        table.append(rows(1).rename_columns(["id", "nam"]), idempotency_key="k")
    table.append(rows(1), idempotency_key="k")
    assert ids_of(table) == [1]
