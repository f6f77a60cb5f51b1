"""A commit of any age, however it deleted rows, is undone by giving back what it took and taking what it gave."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest
from attrs import define, field
from budgets import examples
from core_tables import pyiceberg_catalog
from hypothesis import event, given
from hypothesis import strategies as st
from pyiceberg.expressions import In
from pyiceberg.table import Table as PeerTable

import icecore
from icecore.engine.errors import CommitConflictError

SCHEMA = pa.schema([("id", pa.int64()), ("uid", pa.int64())])
ids = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)
steps = st.one_of(
    st.tuples(st.just("append"), ids),
    st.tuples(st.just("append"), ids),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("delete keys"), ids),
    st.tuples(st.just("upsert"), ids),
    st.tuples(st.just("mode"), ids),
    st.tuples(st.just("compact"), ids),
    st.tuples(st.just("rewrite deletes"), ids),
    st.tuples(st.just("peer appends"), ids),
    st.tuples(st.just("peer deletes"), ids),
    st.tuples(st.just("revert"), ids),
)


@define
class Modelled:
    """A table whose rows have numbers of their own, and what each commit brought and took."""

    catalog: icecore.Catalog
    table: icecore.Table
    live: dict[int, int] = field(factory=dict)
    """The id of each live row, by its number."""
    row_ids: dict[int, int | None] = field(factory=dict)
    commits: dict[int, tuple[dict[int, int], dict[int, int]]] = field(factory=dict)
    """What the commit at a position brought and took."""
    next_uid: int = 0

    def new(self, chosen: Iterable[int]) -> pa.Table:
        made = [{"id": i, "uid": self.next_uid + n} for n, i in enumerate(chosen)]
        self.next_uid += len(made)
        return pa.Table.from_pylist(made, schema=SCHEMA)

    def step(self, kind: str, chosen: list[int]) -> None:
        after, before = {uid: i for uid, i in self.live.items() if i not in chosen}, self.catalog.position
        match kind:
            case "append":
                data = self.new(chosen)
                self.table.append(data)
                after = self.live | brought(data)
            case "upsert":
                data = self.new(chosen)
                if len({i for i in self.live.values() if i in chosen}) < sum(i in chosen for i in self.live.values()):
                    return
                self.table.upsert(data, ["id"])
                after |= brought(data)
            case "delete":
                self.table.delete(f"id IN ({', '.join(map(str, chosen))})")
            case "delete keys":
                if self.table.format_version > 1:
                    self.table.delete_keys(pa.table({"id": pa.array(chosen, pa.int64())}), ["id"])
                else:
                    after = self.live
            case "mode":
                mode = "copy-on-write" if len(chosen) == 3 else "merge-on-read"
                self.table.set_properties({"write.delete.mode": mode, "write.update.mode": mode})
                return
            case "compact":
                self.table.rewrite_data_files(options={"rewrite-all": "true"})
                after = self.live
            case "rewrite deletes":
                self.table.rewrite_position_delete_files()
                return
            case "revert":
                positions = sorted(self.commits)
                event("reverted" if self.revert(positions[sum(chosen) % len(positions)]) else "refused")
                return
            case "peer appends" if self.table.format_version < 3:
                data = self.new(chosen)
                self.peer_commits(lambda peer: peer.append(data))
                after = self.live | brought(data)
            case "peer deletes" if self.table.format_version < 3:
                self.peer_commits(lambda peer: peer.delete(In("id", chosen)))
                after = after if self.catalog.position > before else self.live
            case _:
                return
        if self.catalog.position > before:
            self.learn(self.catalog.position, after)

    def peer_commits(self, change: Callable[[PeerTable], None]) -> None:
        """A commit of PyIceberg, which writes no v3 and reads no equality deletes: it changes no such table."""
        with contextlib.closing(pyiceberg_catalog(self.catalog.path)) as peer:
            try:
                change(peer.load_table("ns.t"))
            except ValueError as e:
                assert "equality deletes" in str(e)
        self.table.refresh()

    def learn(self, position: int, after: dict[int, int]) -> None:
        self.commits[position] = (
            {u: i for u, i in after.items() if u not in self.live},
            {u: i for u, i in self.live.items() if u not in after},
        )
        self.live = after
        self.check()

    def check(self) -> None:
        """The rows are those of the model, and none has another row id than before."""
        found = self.table.scan(selected_fields=["*", "_row_id"]).to_arrow().to_pylist()
        assert sorted((r["uid"], r["id"]) for r in found) == sorted(self.live.items())
        for row in found:
            if row["_row_id"] is not None:
                assert self.row_ids.setdefault(row["uid"], row["_row_id"]) == row["_row_id"]

    def revert(self, position: int) -> bool:
        """Reverts a commit, or finds it refused with nothing changed."""
        end = self.catalog.position
        gave, took = self.commits[position]
        try:
            self.catalog.revert(position)
        except CommitConflictError:
            assert self.catalog.position == end
            return False
        self.table.refresh()
        after = {u: i for u, i in self.live.items() if u not in gave} | took
        if gave and took:
            assert gave.keys() <= self.live.keys(), "rows that were updated and then deleted came back"
        self.learn(self.catalog.position, after)
        return True


def brought(data: pa.Table) -> dict[int, int]:
    return dict(zip(data["uid"].to_pylist(), data["id"].to_pylist(), strict=True))


@pytest.mark.filterwarnings("ignore:Merge on read is not yet", "ignore:Delete operation did not match")
@examples(5, new=56)
@given(st.sampled_from([2, 3, 2, 3, 1]), st.lists(steps, min_size=4, max_size=9), st.randoms(use_true_random=False))
def test_a_commit_of_any_age_is_undone(version: int, history: list[tuple[str, list[int]]], choice: object) -> None:
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        mode = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
        properties = mode | {"commit.manifest.min-count-to-merge": "3"}
        table = catalog.create_table("ns.t", SCHEMA, format_version=version, properties=properties)
        model = Modelled(catalog, table)
        for kind, chosen in [("append", [0, 1, 2, 3]), *history]:
            model.step(kind, chosen)
        for position in choice.sample(sorted(model.commits), min(4, len(model.commits))):  # type: ignore[attr-defined]
            event("reverted" if model.revert(position) else "refused")
        model.revert(catalog.position) if catalog.position in model.commits else None
        assert catalog.verify().ok
        catalog.rebuild()
        model.check()
