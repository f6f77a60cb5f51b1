"""Updates as values: one class an action, whose JSON is that of the REST catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from update_samples import TABLE_UPDATES, VIEW_UPDATES

from icecore.engine.errors import ValidationError
from icecore.engine.spec.updates.requirement import TableRequirement, ViewRequirement
from icecore.engine.spec.updates.table_update import AddSnapshot, TableUpdate, read_table_updates
from icecore.engine.spec.updates.view_update import ViewUpdate, read_view_updates

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = sorted(GOLDEN.rglob("events_v*.jsonl"))


def test_there_is_a_sample_of_every_update() -> None:
    assert {u["action"] for u in TABLE_UPDATES} == {kind.action for kind in get_args(TableUpdate)}
    assert {u["action"] for u in VIEW_UPDATES} == {kind.action for kind in get_args(ViewUpdate)}
    assert (len(get_args(TableUpdate)), len(get_args(ViewUpdate))) == (23, 8)


@pytest.mark.parametrize("obj", TABLE_UPDATES, ids=lambda u: u["action"])
def test_a_table_update_is_written_as_it_was_read(obj: dict[str, Any]) -> None:
    (update,) = read_table_updates([obj])
    assert update.to_dict() == obj
    assert list(read_table_updates([update.to_dict()])) == [update]


@pytest.mark.parametrize("obj", VIEW_UPDATES, ids=lambda u: u["action"])
def test_a_view_update_is_written_as_it_was_read(obj: dict[str, Any]) -> None:
    (update,) = read_view_updates([obj])
    assert update.to_dict() == obj
    assert list(read_view_updates([update.to_dict()])) == [update]


@pytest.mark.parametrize("log", LOGS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_updates_of_old_logs_are_written_as_they_were_read(log: Path) -> None:
    """So that a release which reads a log and writes what it read changes no hash."""
    for line in log.read_text().splitlines():
        event = json.loads(line)
        updates = json.loads(event["payload"]).get("updates", [])
        assert [u.to_dict() for u in read_table_updates(updates)] == updates


def test_a_snapshot_of_version_1_has_no_sequence_number() -> None:
    """M3: it is left out of the JSON, and read as 0."""
    obj = {"action": "add-snapshot", "snapshot": {"snapshot-id": 7, "timestamp-ms": 1000, "manifest-list": "m"}}
    (update,) = read_table_updates([obj])
    assert isinstance(update, AddSnapshot) and update.snapshot.sequence_number == 0
    assert update.to_dict() == obj


@pytest.mark.parametrize("obj", TABLE_UPDATES, ids=lambda u: u["action"])
def test_an_update_that_lacks_a_field_is_named(obj: dict[str, Any]) -> None:
    """Whichever it is: the error says of which update."""
    for key in obj.keys() - {"action", "max-ref-age-ms"}:
        if obj["action"] == "set-statistics" and key == "snapshot-id":
            continue
        with pytest.raises(ValidationError, match=f"lacks the required field '{key}'"):
            list(read_table_updates([{k: v for k, v in obj.items() if k != key}]))


@pytest.mark.parametrize("obj", [None, "update", [], {}, {"action": 1}, {"action": "explode"}])
def test_what_is_no_update_is_refused(obj: Any) -> None:
    for read in (read_table_updates, read_view_updates):
        with pytest.raises(ValidationError, match=r"update|action"):
            list(read([obj]))


def test_types_of_requirements_are_those_of_the_rest_catalog() -> None:
    kinds = {kind.type for union in (TableRequirement, ViewRequirement) for kind in get_args(union)}
    assert len(kinds) == 9 and all(k.startswith("assert-") for k in kinds)
