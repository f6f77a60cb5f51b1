"""Merging manifests changes where entries are written, and nothing that a reader sees."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from budgets import examples
from core_tables import metadata_files, peer_ids
from hypothesis import given
from hypothesis import strategies as st
from independent_reader import LAST_UPDATED, ROW_ID, rows_of
from row_lineage import SCHEMA, apply, check, data, lineage, texts

import icecore
from icecore.engine.spec.content_file import ManifestContent

ids = st.lists(st.integers(0, 9), min_size=1, max_size=4)
conditions = st.sampled_from(["id < 3", "id = 7", "s = 'b'", "id > 6 OR s = 'a'", "id IS NULL"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), ids),
        st.tuples(st.just("append"), ids),
        st.tuples(st.just("delete"), conditions),
        st.tuples(st.just("mode"), st.sampled_from(["copy-on-write", "merge-on-read"])),
        st.tuples(st.just("branch"), ids),
        st.tuples(st.just("two"), ids),
        st.tuples(st.just("spec"), st.none()),
    ),
    min_size=4,
    max_size=8,
)


@pytest.mark.parametrize("first_version", [1, 2, 3])
@examples(2, new=21)
@given(before=st.lists(ids, max_size=2), history=steps, least=st.integers(2, 5), size=st.sampled_from([700, 10**7]))
def test_RL2_RL3_M2_merging_keeps_rows_row_ids_and_sequence_numbers(
    first_version: int, before: list[list[int]], history: list[tuple[str, Any]], least: int, size: int
) -> None:
    """The same commits with and without merging give the same rows, in the same order of row ids, to every reader."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        merging = {"commit.manifest.min-count-to-merge": str(least), "commit.manifest.target-size-bytes": str(size)}
        tables = [
            catalog.create_table(
                ("ns", name), SCHEMA, partition_spec=["s"], format_version=first_version, properties=properties
            )
            for name, properties in (("merged", merging), ("plain", {"commit.manifest-merge.enabled": "false"}))
        ]
        for table in tables:
            for numbers in before:
                table.append(data(numbers))
            table.upgrade(3)
        for action, argument in history:
            known = {r[ROW_ID]: r for r in lineage(tables[0]) if r[ROW_ID] is not None}
            for table in tables:
                apply(table, action, argument)
            check(tables[0], known)
        compare(tables[0], tables[1], ordered=first_version == 3)
        assert peer_ids(Path(folder), "ns.merged") == sorted(r["id"] for r in lineage(tables[0]))
        check_clustered(tables[0])
        check_rebuilt(catalog, tables[0])


def compare(merged: icecore.Table, plain: icecore.Table, ordered: bool) -> None:
    for branch in merged.refs():
        assert texts(lineage(merged, ref=branch), ROW_ID) == texts(lineage(plain, ref=branch), ROW_ID)
    if ordered:
        assert in_order(lineage(merged)) == in_order(lineage(plain))


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["id"], r["s"], r[LAST_UPDATED]) for r in sorted(rows, key=lambda r: r[ROW_ID])]


def check_clustered(table: icecore.Table) -> None:
    """Rewriting manifests keeps each row's id and sequence number, once the first commit to v3 gave them (RL7)."""
    before, snapshots = lineage(table), len(table.snapshots())
    had_ids = all(r[ROW_ID] is not None for r in before)
    table.rewrite_manifests()
    after = lineage(table)
    assert texts(after, "" if had_ids else ROW_ID) == texts(before, "" if had_ids else ROW_ID) or not had_ids
    assert table.metadata_location is not None
    assert texts(after) == texts(rows_of(table.metadata_location))
    totals = {"manifests-created", "manifests-kept", "manifests-replaced", "entries-processed"}
    current = table.current_snapshot()
    if len(table.snapshots()) > snapshots:
        assert current is not None and current.summary is not None
        assert current.operation == "replace"
        assert totals < set(current.summary)
        data_manifests = [m for m in table.manifests() if m.manifest.content is ManifestContent.DATA]
        assert all(m.manifest.deleted_files_count == 0 for m in data_manifests)


def check_rebuilt(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """A rebuild writes the same bytes."""
    before, rows = metadata_files(table), texts(lineage(table))
    catalog.rebuild()
    table.refresh()
    assert metadata_files(table) == before
    assert texts(lineage(table)) == rows
    assert catalog.verify().ok


@pytest.mark.parametrize("version", [1, 2, 3])
def test_many_appends_and_deletes_keep_lists_short_and_manifests_readable(tmp_path: Path, version: int) -> None:
    """However many merges and removals follow one another, manifests stay few, and none is a chain without end."""
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        properties = {"commit.manifest.min-count-to-merge": "3"}
        table = catalog.create_table(("ns", "t"), SCHEMA, format_version=version, properties=properties)
        for number in range(18):
            table.append(data([number]))
            if number % 3 == 2:
                table.delete(f"id = {number - 1}")
            assert len(table.manifests()) <= 4
            assert max(m.depth for m in table.manifests()) <= 4
        expected = sorted(n for n in range(18) if n % 3 != 1)
        assert sorted(r["id"] for r in table.scan().to_arrow().to_pylist()) == expected
        assert peer_ids(tmp_path / "w") == expected
        before = metadata_files(table)
        catalog.rebuild()
        assert metadata_files(table.refresh()) == before


def test_deletes_are_merged_apart_from_data_and_added_files_stay_added(tmp_path: Path) -> None:
    """Delete manifests are merged as data manifests are, and a commit's own manifest keeps its files as added."""
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            ("ns", "t"),
            SCHEMA,
            properties={"commit.manifest.min-count-to-merge": "2", "write.delete.mode": "merge-on-read"},
        )
        table.append(data([0, 1, 2, 3, 4, 5, 6]))
        for number in range(4):
            table.delete(f"id = {number}")
        deletes = [m for m in table.manifests() if m.manifest.content is ManifestContent.DELETES]
        assert [(m.manifest.added_files_count, m.manifest.existing_files_count) for m in deletes] == [(1, 0), (0, 3)]
        assert sorted(r["id"] for r in table.scan().to_arrow().to_pylist()) == [4, 5, 6]
        assert peer_ids(tmp_path / "w") == [4, 5, 6]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rewritten_manifests_cover_partitions_in_order_and_count_what_they_did(tmp_path: Path, version: int) -> None:
    """Few sorted manifests take the place of many, totals stay, and a second rewrite has nothing to do."""
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(("ns", "t"), SCHEMA, partition_spec=["s"], format_version=version)
        for number in range(4):
            table.append(data([number, number + 1]))
        before = table.current_snapshot()
        table.rewrite_manifests(message="tidy")
        after = table.current_snapshot()
        assert before is not None and before.summary is not None and after is not None and after.summary is not None
        counts = {"manifests-created": "1", "manifests-kept": "0", "manifests-replaced": "4", "entries-processed": "8"}
        assert counts.items() <= after.summary.items()
        totals = {k: v for k, v in before.summary.items() if k.startswith("total-")}
        assert totals.items() <= after.summary.items()
        (entries,) = table.live_entries()
        partitions = [dict(p)[1000] for p in entries["partition"].to_pylist()]
        assert partitions == sorted(partitions)
        assert peer_ids(tmp_path / "w") == [0, 1, 1, 2, 2, 3, 3, 4]
        table.rewrite_manifests()
        assert table.current_snapshot() == after
        assert catalog.verify().ok


def test_RL2_files_that_an_upgraded_table_keeps_in_a_new_manifest_take_row_ids_too(tmp_path: Path) -> None:
    """The entries of a manifest that a v2 table's delete wrote anew are EXISTING, and without row ids until then."""
    with icecore.open(tmp_path / "warehouse") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", SCHEMA, partition_spec=["s"], format_version=2)
        table.append(data([0, 1, 2]))
        table.delete("s = 'a'")
        table.upgrade(3)
        table.append(data([3, 4]))
        assert sorted(row[ROW_ID] for row in lineage(table)) == list(range(table.metadata.next_row_id or 0))
