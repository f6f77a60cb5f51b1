"""Forgetting changes nothing of what there is, rows, plans and files of every snapshot; and the log stays whole."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from budgets import examples
from core_tables import local, sorted_rows, store_of
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import CommitConflictError, IcecoreError, ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
FILTERS = ("id < 3", "name = 'n7'", "id > 5 AND name < 'n8'")
FIRST = 3
"""The position of the first commit, after the namespace and the table."""
ids = st.lists(st.integers(0, 9), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), ids),
        st.tuples(st.just("append"), ids),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("mode"), st.sampled_from(["copy-on-write", "merge-on-read"])),
        st.tuples(st.just("side"), ids),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("manifests"), st.none()),
        st.tuples(st.just("expire"), st.integers(1, 2)),
        st.tuples(st.just("archive"), st.integers(1, 20)),
        st.tuples(st.just("forget"), st.sampled_from([None, ("id",), ("name",)])),
        st.tuples(st.just("revert"), st.integers(1, 6)),
    ),
    min_size=5,
    max_size=9,
)


def data(numbers: list[int]) -> pa.Table:
    return pa.table({"id": numbers, "name": [f"n{n}" for n in numbers]}, schema=SCHEMA)


def do(catalog: icecore.Catalog, table: icecore.Table, what: str, how: Any) -> None:
    match what:
        case "append":
            table.append(data(how))
        case "delete":
            table.delete(f"id = {how}")
        case "mode":
            table.set_properties({"write.delete.mode": how})
        case "side":
            table.append(data(how), branch="side")
        case "compact":
            table.rewrite_data_files(options={"rewrite-all": True})
        case "manifests":
            table.rewrite_manifests()
        case "expire":
            # Files of the first stay where they are, so that what is reverted later may come back.
            expiring = table.maintenance.expire_snapshots().older_than(now_ms() + 1).retain_last(how)
            expiring.clean_files(how == 1).commit()
        case "archive":
            with contextlib.suppress(ValidationError):
                catalog.archive(before=min(how, catalog.position))
        case "revert":
            with contextlib.suppress(CommitConflictError, ValidationError):
                catalog.revert(max(FIRST, catalog.position + 1 - how))
            table.refresh()
        case "forget":
            before = seen(table)
            table.forget(columns=how)
            assert catalog.verify().problems == ()
            assert seen(table.refresh()) == before


def seen(table: icecore.Table) -> object:
    """All that a reader finds in the table: rows and plans of each snapshot, and the bytes of its files."""
    repository, state = table._repository, table.state
    out: list[object] = [state]
    files = {str(state.metadata_location)}
    for snapshot in table.snapshots():
        for where in FILTERS:
            scan = table.scan(where, snapshot_id=snapshot.snapshot_id)
            out.append([t.file.file_path for t in scan.plan_files()])
        out.append(sorted_rows(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()))
        files.add(str(snapshot.manifest_list))
        files |= {m.manifest.manifest_path for m in repository.list_manifests(state, snapshot)}
    return [*out, {f: local(f).read_bytes() for f in files}]


@pytest.mark.parametrize("version", [1, 2, 3])
@examples(2, new=21)
@given(history=steps, columns=st.sampled_from([None, ("name",)]), hit=st.integers(0, 2**16))
def test_forgetting_leaves_all_that_there_is(
    version: int, history: list[tuple[str, Any]], columns: tuple[str, ...] | None, hit: int
) -> None:
    """The same to every reader, also after a rebuild. The past is planned, and what is changed is found."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(("ns", "t"), SCHEMA, partition_spec=["bucket(2, id)"], format_version=version)
        table.append(data([1, 2, 3]))
        for what, how in history:
            if not (version == 1 and how == "merge-on-read"):
                do(catalog, table, what, how)
        do(catalog, table, "forget", columns)
        before = seen(table)
        assert table.forget(columns=columns).position is None
        catalog.rebuild()
        assert catalog.verify().problems == ()
        assert seen(catalog.load_table("ns.t")) == before
        past_is_planned(catalog)
        tampering_is_found(catalog, hit)


def past_is_planned(catalog: icecore.Catalog) -> None:
    """A filter leaves no file out that has a row of it, as far as the files are still there to be read."""
    for event in store_of(catalog).events():
        if event.kind != "table.committed" or event.content_sha256 is None:
            continue
        past = catalog.at(event.position).load_table("ns.t")
        there = [t for t in past.scan().plan_files() if local(t.file.file_path).exists()]
        for where in FILTERS:
            planned = {t.file.file_path for t in past.scan(where).plan_files()}
            for task in there:
                if task.file.file_path not in planned:
                    path = local(task.file.file_path)
                    found = duckdb.execute(f"SELECT count(*) FROM '{path}' WHERE {where}").fetchall()
                    assert found == [(0,)]


def tampering_is_found(catalog: icecore.Catalog, hit: int) -> None:
    """One byte of what is beside an event, or of its payload, is another one."""
    store = store_of(catalog)
    connection = store.connection()
    for trigger in ("event_is_append_only_update", "event_content_is_append_only_update"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    rows = connection.execute("SELECT position, data FROM event_content").fetchall()
    if rows:
        position, content = rows[hit % len(rows)]
        place = hit % len(content)
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        connection.execute("UPDATE event_content SET data = ? WHERE position = ?", (changed, position))
        assert any(f"position {position}" in p for p in catalog.verify().problems)
        connection.execute("UPDATE event_content SET data = ? WHERE position = ?", (content, position))
    last = store.head()[0]
    connection.execute("UPDATE event SET payload = payload || ' ' WHERE position = ?", (last,))
    with pytest.raises(IcecoreError):
        catalog.rebuild()
