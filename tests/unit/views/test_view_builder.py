"""V1: how updates change view metadata. The cases are those of the Java library, whose behaviour is the reference."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from icecore.engine.errors import CommitFailedError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.metadata.view_builder import (
    ViewBuilder,
    check_view_requirements,
    retained_ids,
    retained_log,
)
from icecore.engine.properties.table_properties import (
    DROP_DIALECT_ALLOWED,
    VIEW_HISTORY_SIZE,
    VIEW_METADATA_COMPRESSION,
)
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import LongType, NestedField
from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.requirement import AssertCreate, AssertViewUuid
from icecore.engine.spec.updates.view_update import AddViewVersion, SetCurrentViewVersion, ViewUpdate, read_view_updates
from icecore.engine.spec.view import ViewHistoryEntry, ViewMetadata, ViewRepresentation, ViewVersion

UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"
NOW = 5_000


def schema(column: str = "x", schema_id: int = 0) -> Schema:
    return Schema((NestedField(1, column, LongType(), required=True),), schema_id)


def version(version_id: int, sql: str = "select 1", schema_id: int = 0, at: int = 23, **more: Any) -> ViewVersion:
    dialects = more.pop("dialects", ("spark",))
    queries = tuple(ViewRepresentation("sql", sql, d) for d in dialects)
    return ViewVersion(version_id, schema_id, at, queries, ("ns",), "prod", more.pop("summary", {"user": "u"}))


def add_schema(s: Schema) -> ViewUpdate:
    return AddSchema(s)


def add_version(v: ViewVersion) -> ViewUpdate:
    return AddViewVersion(v)


def set_current(version_id: int) -> ViewUpdate:
    return SetCurrentViewVersion(version_id)


def set_properties(**properties: str) -> ViewUpdate:
    return SetProperties(properties)


def assign_uuid(uuid: str = UUID) -> ViewUpdate:
    return AssignUuid(uuid)


def set_location(location: str = "loc") -> ViewUpdate:
    return SetLocation(location)


HISTORY_2 = set_properties(**{VIEW_HISTORY_SIZE.name: "2"})
START = (assign_uuid(), set_location(), add_schema(schema()))


def built(*updates: ViewUpdate, base: ViewMetadata | None = None, at: int = NOW) -> ViewMetadata:
    return ViewBuilder(base, at).apply(updates).build()


def new_view(*updates: ViewUpdate) -> ViewMetadata:
    return built(*START, *updates)


def ids(metadata: ViewMetadata) -> list[int]:
    return [v.version_id for v in metadata.versions]


def log_ids(metadata: ViewMetadata) -> list[int]:
    return [e.version_id for e in metadata.version_log]


THREE = (add_version(version(1, "a")), add_version(version(2, "b")), add_version(version(3, "c")))


def test_v1_history_keeps_the_newest_versions_by_id_and_the_current_one() -> None:
    assert retained_ids([1, 3, 2], 3, 1) == {1, 2, 3}
    assert retained_ids([1, 3, 2], 2, 1) == {1, 3}
    assert retained_ids([1, 3, 2], 1, 1) == {1}


@pytest.mark.parametrize(
    ("log", "kept", "expected"),
    [
        ([1, 2, 3], {1, 2, 3}, [1, 2, 3]),
        ([3, 2, 1, 2, 3], {2, 3}, [2, 3]),
        ([1, 2, 3, 1, 3], {1, 3}, [3, 1, 3]),
    ],
)
def test_v1_log_is_cut_after_the_last_version_that_is_gone(log: list[int], kept: set[int], expected: list[int]) -> None:
    entries = [ViewHistoryEntry(100 + i, v) for i, v in enumerate(log)]
    found = retained_log(entries, frozenset(kept))
    assert [e.version_id for e in found] == expected
    assert found == tuple(entries[-len(expected) :])


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ((assign_uuid(),), "needs a location"),
        ((set_location(),), "needs a UUID"),
        ((assign_uuid(), set_location()), "needs a version"),
        ((set_current(1),), "no view version 1"),
        ((set_current(-1),), "^Cannot set last version id"),
        ((add_version(version(1, schema_id=1)),), "names schema 1"),
        ((add_version(version(1, schema_id=-1)),), "^Cannot set last added schema"),
        ((*START, add_version(version(1)), set_current(23)), "no view version 23"),
        ((*START, add_version(version(1, schema_id=23))), "names schema 23"),
    ],
)
def test_v1_what_is_missing_or_unknown_is_an_error(updates: tuple[ViewUpdate, ...], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        built(*updates)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"action": "add-snapshot"}, "unknown view update"),
        ({"action": "set-current-view-version", "view-version-id": "1"}, "must be int"),
    ],
)
def test_v1_json_that_is_no_view_update_is_an_error(update: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        list(read_view_updates([update]))


def test_v1_format_version_is_1() -> None:
    assert new_view(UpgradeFormatVersion(1), *THREE[:1], set_current(1)).format_version == 1
    with pytest.raises(UnsupportedFormatVersionError, match="supported is 1"):
        built(UpgradeFormatVersion(23))
    with pytest.raises(ValidationError, match="downgrade"):
        built(UpgradeFormatVersion(0))


@pytest.mark.parametrize("size", ["0", "-1", "ten", "", "9" * 5000])
def test_v1_history_size_must_be_a_positive_number(size: str) -> None:
    with pytest.raises(ValidationError, match="must be a whole number from 1"):
        new_view(*THREE, set_current(3), set_properties(**{VIEW_HISTORY_SIZE.name: size}))


def test_v1_compression_must_be_known_before_a_file_waits_for_it() -> None:
    with pytest.raises(ValidationError, match="none or gzip"):
        new_view(*THREE, set_current(3), set_properties(**{VIEW_METADATA_COMPRESSION.name: "zstd"}))


def test_v1_versions_added_in_one_commit_all_stay_and_the_next_commit_drops_the_oldest() -> None:
    first = new_view(HISTORY_2, *THREE, set_current(3))
    assert (ids(first), log_ids(first)) == ([1, 2, 3], [3])
    second = built(base=first)
    assert (ids(second), log_ids(second)) == ([2, 3], [3])
    back = built(set_current(2), base=second)
    assert (ids(back), log_ids(back)) == ([2, 3], [3, 2])
    again = built(set_current(3), base=back)
    assert log_ids(again) == [3, 2, 3]
    with pytest.raises(ValidationError, match="no view version 1"):
        built(set_current(1), base=again)


def test_v1_the_current_version_is_never_dropped() -> None:
    first = new_view(set_properties(**{VIEW_HISTORY_SIZE.name: "1"}), *THREE, set_current(1))
    assert (ids(first), log_ids(first)) == ([1, 2, 3], [1])
    second = built(base=first)
    assert (ids(second), log_ids(second), second.current_version_id) == ([1], [1], 1)


def test_v1_ten_versions_are_kept_by_default() -> None:
    view = new_view(*THREE[:1], set_current(1))
    for i in range(2, 15):
        view = built(add_version(version(1, f"select {i}")), set_current(-1), base=view)
    assert ids(view) == list(range(5, 15))
    assert log_ids(view) == ids(view)


def test_v1_the_log_has_the_versions_own_time_or_that_of_the_rollback() -> None:
    first = new_view(add_version(version(1, "a", at=1000)), add_version(version(2, "b", at=2000)), set_current(1))
    second = built(set_current(2), base=first, at=9000)
    third = built(add_version(version(3, "c", at=3000)), set_current(3), base=second, at=9100)
    fourth = built(set_current(1), base=third, at=9200)
    entries = [(e.timestamp_ms, e.version_id) for e in fourth.version_log]
    assert entries == [(1000, 1), (9000, 2), (3000, 3), (9200, 1)]


def test_v1_setting_the_version_that_is_current_changes_nothing() -> None:
    view = new_view(*THREE, set_current(3))
    builder = ViewBuilder(view, NOW).apply([set_current(3), add_version(version(9, "c")), set_current(-1)])
    assert builder.changes == []
    assert builder.build() == view


def test_v1_the_uuid_can_not_change() -> None:
    view = new_view(*THREE, set_current(3))
    assert ViewBuilder(view, NOW).apply([assign_uuid()]).changes == []
    with pytest.raises(ValidationError, match="can't become"):
        built(assign_uuid("00000000-0000-0000-0000-000000000000"), base=view)


def test_v1_version_ids_are_assigned_above_those_there_are() -> None:
    same_id = [add_version(version(1, sql)) for sql in ("a", "b", "c")]
    view = new_view(*same_id, set_current(3))
    assert ids(view) == [1, 2, 3]
    assert view.current_version() == version(3, "c")


def test_v1_a_version_that_differs_only_in_id_and_time_is_the_old_one() -> None:
    again = [add_version(version(1, sql, at=10)) for sql in ("a", "b", "c")]
    view = new_view(*THREE, *again, set_current(-1))
    assert ids(view) == [1, 2, 3]
    assert view.current_version() == version(3, "c")


def test_v1_a_version_with_another_summary_is_a_new_one() -> None:
    other = version(1, "b", summary={"user": "u", "key": "val"})
    view = new_view(*THREE[:2], add_version(version(1, "a", at=1000)), add_version(other), set_current(3))
    assert view.versions == (version(1, "a"), version(2, "b"), evolve(other, version_id=3))


def test_v1_schema_ids_count_from_0_and_equal_schemas_are_one() -> None:
    twice = [add_schema(schema(name, i)) for i, name in enumerate(["y", "z", "x", "y", "z"], start=5)]
    view = new_view(*twice, add_version(version(1, schema_id=-1)), set_current(1))
    assert [(s.schema_id, s.fields[0].name) for s in view.schemas] == [(0, "x"), (1, "y"), (2, "z")]
    assert view.schema() == schema("z", 2)


def test_v1_last_added_means_what_the_commit_added_even_where_it_was_there_before() -> None:
    view = new_view(add_schema(schema("y")), *THREE, set_current(3))
    after = built(add_schema(schema("y")), add_version(version(1, "a", schema_id=-1)), set_current(-1), base=view)
    assert (after.current_version_id, after.current_version().schema_id) == (4, 1)
    back = built(add_schema(schema("x")), add_version(version(1, "a", schema_id=-1)), set_current(-1), base=after)
    assert (ids(back), back.current_version_id, log_ids(back)) == ([1, 2, 3, 4], 1, [3, 4, 1])


@pytest.mark.parametrize("second", ["spark", "SpArK"])
def test_v1_one_query_for_each_dialect(second: str) -> None:
    with pytest.raises(ValidationError, match=r"^Invalid view version: Cannot add multiple queries for dialect"):
        new_view(add_version(version(1, dialects=("spark", second))))


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (("spark",), ("trino",), "spark"),
        (("spark", "trino"), ("TRINO",), "spark"),
        (("spark",), ("Spark", "trino"), None),
        ((), ("spark",), None),
        (("spark",), (), "spark"),
    ],
)
def test_v1_a_dialect_is_lost_only_where_the_view_allows_it(
    before: tuple[str, ...], after: tuple[str, ...], lost: str | None
) -> None:
    view = new_view(add_version(version(1, dialects=before)), set_current(1))
    change = (add_version(version(1, "new", dialects=after)), set_current(-1))
    if lost is not None:
        with pytest.raises(ValidationError, match=f"lose its SQL for {lost}"):
            built(*change, base=view)
    allowed = built(*change, set_properties(**{DROP_DIALECT_ALLOWED.name: "true"}), base=view)
    assert allowed.current_version().dialects == {d.lower() for d in after}


def test_v1_only_the_version_before_and_after_a_commit_count_for_lost_dialects() -> None:
    versions = [version(1, "a"), version(2, "b", dialects=("trino",)), version(3, "c", dialects=("trino", "spark"))]
    view = new_view(*map(add_version, versions), set_current(1))
    with pytest.raises(ValidationError, match="lose its SQL for spark"):
        built(set_current(3), set_current(1), set_current(2), base=view)
    both = built(set_current(3), base=view)
    assert built(set_current(2), set_current(1), set_current(3), base=both).current_version_id == 3


def test_v1_unknown_fields_and_representations_stay() -> None:
    base = evolve(new_view(*THREE[:1], set_current(1)), extra={"from-the-future": 1})
    other = ViewRepresentation("substrait", extra={"plan": "AA=="})
    after = built(add_version(evolve(version(2), representations=(other,))), base=base)
    assert after.extra == {"from-the-future": 1}
    assert ViewMetadata.from_json(after.to_json()) == after


def test_changes_hold_all_that_was_assigned_and_replay_to_the_same_metadata() -> None:
    asked = [
        *START,
        set_properties(a="1", b="2"),
        RemoveProperties(("b", "never there")),
        add_schema(schema("y", 7)),
        add_version(version(1, "a", schema_id=-1)),
        add_version(version(1, "b", schema_id=0)),
        set_current(-1),
    ]
    first = ViewBuilder(None, NOW).apply(asked)
    metadata = first.build()
    added = [u.view_version for u in first.changes if isinstance(u, AddViewVersion)]
    assert [(v.version_id, v.schema_id) for v in added] == [(1, 1), (2, 0)]
    assert first.changes[-1] == SetCurrentViewVersion(2)
    again = ViewBuilder(None, NOW).apply(first.changes)
    assert again.build() == metadata
    assert again.changes == first.changes


def test_requirements_of_the_rest_catalog() -> None:
    view = new_view(*THREE, set_current(3))
    check_view_requirements(view, [AssertViewUuid(UUID)])
    check_view_requirements(None, [AssertCreate()])
    with pytest.raises(CommitFailedError, match=r"^Requirement failed: view UUID does not match: expected .* != other"):
        check_view_requirements(view, [AssertViewUuid("other")])
    with pytest.raises(CommitFailedError, match=r"^Requirement failed: view already exists"):
        check_view_requirements(view, [AssertCreate()])
