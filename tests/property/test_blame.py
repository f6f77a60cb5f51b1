"""Each row's commit is the one that brought it, through whatever wrote the row again; a model knows which that is."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from budgets import examples
from hypothesis import event, given
from hypothesis import strategies as st

import icecore
from icecore.engine.errors import CommitConflictError, ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("uid", pa.int64())])
ids = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)
kinds = st.sampled_from(
    [
        *("append", "append", "append", "delete", "delete", "delete keys", "upsert", "upsert", "overwrite"),
        *("compact", "compact", "manifests", "deletes", "mode", "column", "upgrade", "revert", "revert", "expire"),
    ]
)


class Modelled:
    """A table, the position of the commit that brought each live row, by a number of ours, and its id."""

    def __init__(self, catalog: icecore.Catalog, version: int) -> None:
        self.catalog = catalog
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read", "commit.manifest.min-count-to-merge": "3"}
        self.table = catalog.create_table("ns.t", SCHEMA, format_version=version, properties=properties)
        self.brought: dict[int, int] = {}
        self.live: dict[int, int] = {}
        self.before: dict[int, dict[int, int]] = {}
        self.next_uid = 0

    def new(self, chosen: list[int]) -> pa.Table:
        made = [{"id": i, "uid": self.next_uid + n} for n, i in enumerate(chosen)]
        self.next_uid += len(made)
        return pa.Table.from_pylist(made, schema=SCHEMA)

    def step(self, kind: str, chosen: list[int]) -> None:
        """Makes a step. What it can't do to the table changes nothing."""
        table, where = self.table, f"id IN ({', '.join(map(str, chosen))})"
        before, start = dict(self.live), self.catalog.position
        kept = {uid: i for uid, i in self.live.items() if i not in chosen}
        match kind:
            case "append" | "overwrite" | "upsert":
                if kind == "upsert" and len({*before.values()} & {*chosen}) < len(before) - len(kept):
                    return
                data = self.new(chosen)
                if kind == "append":
                    table.append(data)
                elif kind == "overwrite":
                    table.overwrite(data, where)
                else:
                    table.upsert(data, ["id"])
                come = dict(zip(data["uid"].to_pylist(), chosen, strict=True))
                self.live = (before if kind == "append" else kept) | come
                self.brought |= dict.fromkeys(come, self.catalog.position)
            case "delete":
                table.delete(where)
                self.live = kept
            case "delete keys" if table.format_version > 1:
                table.delete_keys(pa.table({"id": pa.array(chosen, pa.int64())}), ["id"])
                self.live = kept
            case "compact":
                table.rewrite_data_files(options={"rewrite-all": "true"})
            case "manifests":
                table.rewrite_manifests()
            case "deletes":
                table.rewrite_position_delete_files()
            case "mode":
                mode = "copy-on-write" if len(chosen) > 1 else "merge-on-read"
                table.set_properties({"write.delete.mode": mode, "write.update.mode": mode})
            case "column":
                with table.update_schema() as schema:
                    schema.add_column(f"c{self.catalog.position}", "string")
            case "upgrade":
                table.upgrade(min(3, table.format_version + 1))
            case "revert":
                self.revert(chosen[0])
                return
            case "expire":
                table.maintenance.expire_snapshots().retain_last(2).older_than(2**50).commit()
        if self.catalog.position > start:
            self.before[self.catalog.position] = before

    def revert(self, choice: int) -> None:
        """Undoes the last commit but some, where it can be."""
        position = max((p for p in self.before if p <= self.catalog.position - choice), default=None)
        if position is None or position + choice < self.catalog.position:
            return
        later = [p for p in self.before if p > position]
        then = dict(self.live)
        try:
            self.catalog.revert(position, through=self.catalog.position if later else None)
        except (CommitConflictError, ValidationError):
            return
        self.table.refresh()
        self.live = self.before[position]
        self.before[self.catalog.position] = then

    def check(self) -> None:
        found = self.table.blame().to_pylist()
        assert sorted(r["uid"] for r in found) == sorted(self.live)
        for row in found:
            event("exact" if row["_is_exact"] else "not exact")
            known = self.brought[row["uid"]]
            assert known == row["_position"] if row["_is_exact"] else known <= row["_position"], row
        if self.live:
            uid = min(self.live)
            [row] = self.table.blame("uid = ?", parameters=[uid], selected_fields=["id"]).to_pylist()
            assert {**row, "uid": uid} in [{k: r[k] for k in (*row, "uid")} for r in found]


@examples(6, new=70)
@given(st.sampled_from([2, 3, 2, 1]), st.lists(st.tuples(kinds, ids), min_size=5, max_size=10))
def test_blame_names_the_commit_that_brought_the_row(version: int, history: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        model = Modelled(catalog, version)
        for kind, chosen in [("append", [0, 1, 2, 3]), *history]:
            model.step(kind, chosen)
        model.check()
