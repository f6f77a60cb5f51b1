"""Histories of a table with branches, evolving schemas, specs and versions, beside a model that knows each snapshot.

The model keeps each row under the ids of its columns, so what a rename, an added column, its default or a promotion
makes of a row is told here by ids alone, without a look at files. What the table refuses changes nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from attrs import define, field
from core_tables import respec
from rows_by_id import POOLS, Values, condition, leaves, named, text, texts, visible

import icecore
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.errors import CommitConflictError, ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, Snapshot
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    Type,
)

FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "i", IntegerType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "s", StringType()),
    NestedField(5, "n", DecimalType(9, 2)),
    NestedField(6, "d", DateType()),
    NestedField(7, "st", StructType((NestedField(8, "a", IntegerType()), NestedField(9, "b", StringType())))),
)
PROMOTED: dict[type[Any], Type] = {
    IntegerType: LongType(),
    FloatType: DoubleType(),
    DecimalType: DecimalType(12, 2),
    DateType: TimestampType(),
}


@define
class Branching:
    """A table and what each of its snapshots holds: the rows by a number of ours, and their row ids."""

    catalog: icecore.Catalog
    table: icecore.Table
    rows: dict[int, Values] = field(factory=dict)
    live: dict[int, dict[int, int | None]] = field(factory=dict)
    schemas: dict[int, Schema] = field(factory=dict)
    names: int = 0
    # The columns besides the id by which rows were deleted last.
    keys: list[int] = field(factory=list)
    # The position of the last step, and the snapshot that it made.
    last: tuple[int, Snapshot] | None = None

    @classmethod
    def create(cls, catalog: icecore.Catalog, version: int, spec: list[str], mode: str) -> Branching:
        """An empty table whose manifests are merged at every second commit."""
        catalog.create_namespace("ns")
        properties = {
            "write.delete.mode": mode,
            "write.update.mode": mode,
            "commit.manifest.min-count-to-merge": "2",
        }
        table = catalog.create_table(
            "ns.t", Schema(FIELDS), partition_spec=spec, format_version=version, properties=properties
        )
        return cls(catalog, table)

    def apply(self, action: str, aside: bool, argument: Any) -> None:
        """Makes one step, and checks the rows of the snapshot that it made."""
        on = "side" if aside and "side" in self.table.refs() else MAIN_BRANCH
        head = self.table.metadata.snapshot_by_ref(on)
        before = dict(self.live[head.snapshot_id]) if head else {}
        known = {s.snapshot_id for s in self.table.snapshots()}
        try:
            after = getattr(self, f"_{action}")(on, before, argument)
        except (ValidationError, CommitConflictError):
            # It can't be done to this table as it is now.
            assert {s.snapshot_id for s in self.table.snapshots()} == known
            return
        made = [s for s in self.table.snapshots() if s.snapshot_id not in known]
        for snapshot in made:
            self._learn(snapshot, before if snapshot.operation == Operation.REPLACE else after)
        self.last = (self.catalog.position, made[0]) if len(made) == 1 else None

    def expected(self, snapshot_id: int, schema: Schema) -> Counter[str]:
        return self.texts_of(self.live[snapshot_id], schema)

    def texts_of(self, uids: Iterable[int], schema: Schema) -> Counter[str]:
        return Counter(self.text_of(uid, schema) for uid in uids)

    def text_of(self, uid: int, schema: Schema) -> str:
        return text(named(visible(self.rows[uid], schema.fields), schema.fields))

    def parent(self, snapshot: Snapshot) -> dict[int, int | None]:
        return {} if snapshot.parent_snapshot_id is None else self.live[snapshot.parent_snapshot_id]

    def holding(self, uids: Iterable[int], schema: Schema, holds: Callable[[Values], bool]) -> list[int]:
        """The rows of which a condition holds, by a schema."""
        return [uid for uid in uids if holds(visible(self.rows[uid], schema.fields))]

    def brought(self, snapshot: Snapshot) -> list[int]:
        """The rows that came with a snapshot."""
        return [uid for uid in self.live[snapshot.snapshot_id] if uid not in self.parent(snapshot)]

    def changes(
        self, snapshot: Snapshot, schema: Schema, holds: Callable[[Values], bool]
    ) -> tuple[Counter[str], Counter[str]]:
        """The rows that a snapshot deleted and inserted, as a schema shows them, without those that are the same.

        Rows of the same values are the same where they have the same row id, or the one that went had none.
        """
        before, after = self.parent(snapshot), self.live[snapshot.snapshot_id]
        gone = self.holding((uid for uid in before if uid not in after), schema, holds)
        come = self.holding((uid for uid in after if uid not in before), schema, holds)
        deleted = Counter((self.text_of(uid, schema), before[uid]) for uid in gone)
        inserted = Counter((self.text_of(uid, schema), after[uid]) for uid in come)
        same = Counter({row: n for row, n in (deleted & inserted).items() if row[1] is not None})
        deleted, inserted = deleted - same, inserted - same
        nameless = Counter(row for row, row_id in deleted.elements() if row_id is None)
        rows, new_rows = (Counter(row for row, _ in found.elements()) for found in (deleted, inserted))
        again = nameless & new_rows
        return rows - again, new_rows - again

    # What the model knows of a new snapshot

    def _learn(self, snapshot: Snapshot, after: Iterable[int]) -> None:
        """Checks the snapshot's rows by its schema, and that rows that stay keep their row ids (RL6)."""
        schema = self.schemas[snapshot.snapshot_id] = self.table.schema()
        found = self.table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=["*", "_row_id"]).to_arrow()
        by_text: dict[str, list[int | None]] = {}
        for row, row_id in zip(texts(found, schema), found["_row_id"].to_pylist(), strict=True):
            by_text.setdefault(row, []).append(row_id)
        old = self.parent(snapshot)
        after = sorted(after, key=lambda uid: old.get(uid) is None)
        assert self.texts_of(after, schema) == Counter({row: len(ids) for row, ids in by_text.items()})
        learned = self.live[snapshot.snapshot_id] = {}
        for uid in after:
            free = by_text[self.text_of(uid, schema)]
            row_id = old.get(uid)
            if row_id is None:
                row_id = free[0]
            free.remove(row_id)
            learned[uid] = row_id

    def _new(self, found: Iterable[Values]) -> list[int]:
        uids = []
        for values in found:
            uids.append(len(self.rows))
            self.rows[uids[-1]] = values
        return uids

    def _made(self, chosen: Iterable[int]) -> list[Values]:
        """Rows that follow from numbers; equal numbers give equal rows."""
        return [self._values(self.table.schema().fields, random.Random(seed)) | {1: seed % 5} for seed in chosen]

    def _values(self, fields: Iterable[NestedField], choice: random.Random) -> Values:
        out: Values = {}
        for f in fields:
            if isinstance(f.field_type, StructType):
                out[f.field_id] = None if choice.random() < 0.2 else self._values(f.field_type.fields, choice)
            else:
                out[f.field_id] = choice.choice(POOLS[type(f.field_type)])
        return out

    def _arrow(self, found: Iterable[Values]) -> pa.Table:
        schema = self.table.schema()
        rows = [named(visible(values, schema.fields), schema.fields) for values in found]
        return pa.Table.from_pylist(rows, schema=schema_to_arrow(schema, with_ids=False))

    def _chosen(self, uids: Iterable[int], choice: int) -> tuple[str, set[int]]:
        fields = self.table.schema().fields
        row_filter, holds = condition(self.table.schema(), choice)
        return row_filter, {uid for uid in uids if holds(visible(self.rows[uid], fields))}

    # Steps: each returns the rows of the branch after it

    def _append(self, on: str, before: dict[int, Any], chosen: list[int]) -> list[int]:
        made = self._made(chosen)
        self.table.append(self._arrow(made), branch=on)
        return [*before, *self._new(made)]

    def _delete(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        row_filter, gone = self._chosen(before, choice)
        self.table.delete(row_filter, branch=on)
        return [uid for uid in before if uid not in gone]

    def _overwrite(self, on: str, before: dict[int, Any], argument: tuple[int, list[int]]) -> list[int]:
        row_filter, gone = self._chosen(before, argument[0])
        made = self._made(argument[1])
        self.table.overwrite(self._arrow(made), row_filter, branch=on)
        return [*(uid for uid in before if uid not in gone), *self._new(made)]

    def _same(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        """The rows go and come again with the same values."""
        row_filter, gone = self._chosen(before, choice)
        made = [visible(self.rows[uid], self.table.schema().fields) for uid in sorted(gone)]
        self.table.overwrite(self._arrow(made), row_filter, branch=on)
        return [*(uid for uid in before if uid not in gone), *self._new(made)]

    def _delete_keys(self, on: str, before: dict[int, Any], argument: tuple[int, list[int]]) -> list[int]:
        """By the id, another column or both, and by keys that rows have; a null equals a null (D4)."""
        choice, chosen = argument
        fields = self.table.schema().fields
        floating = (FloatType, DoubleType)
        plain = [f for f in fields if f.field_type.is_primitive and not isinstance(f.field_type, floating)]
        plain = [f for f in plain if f.initial_default is not None] or plain if choice % 2 else plain
        other = plain[choice % len(plain)].field_id
        keys = ({1}, {other}, {1, other})[choice // len(plain) % 3]
        columns = [f for f in fields if f.field_id in keys]
        there = sorted(before)
        wanted = [self.rows[there[seed % len(there)]] for seed in chosen[1:] if there] + self._made(chosen[:1])
        data = self._arrow(wanted).select([f.name for f in columns])
        self.table.delete_keys(data, [f.name for f in columns], branch=on)
        self.keys = [f for f in keys if f != 1]
        gone = {text(visible(values, columns)) for values in wanted}
        return [uid for uid in before if text(visible(self.rows[uid], columns)) not in gone]

    def _upsert(self, on: str, before: dict[int, Any], chosen: list[int]) -> list[int]:
        fields = self.table.schema().fields
        made = list({values[1]: values for values in self._made(chosen)}.values())
        known = {self.rows[uid][1]: uid for uid in before}
        self.table.upsert(self._arrow(made), [self._name(1)], branch=on)
        after = dict.fromkeys(before)
        for values in made:
            old = known.get(values[1])
            if old is not None and text(visible(self.rows[old], fields)) == text(visible(values, fields)):
                continue
            if old is not None:
                del after[old]
            after |= dict.fromkeys(self._new([values]))
        return list(after)

    def _mode(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        mode = "merge-on-read" if choice % 2 else "copy-on-write"
        self.table.set_properties({"write.delete.mode": mode, "write.update.mode": mode})
        return list(before)

    def _name(self, field_id: int) -> str:
        return self.table.schema().name_of(field_id)

    def _some(self, choice: int) -> tuple[NestedField, ...]:
        """A column or a part of one, never the id."""
        paths = [path[: depth + 1] for path in leaves(self.table.schema().fields) for depth in range(len(path))]
        others = [path for path in dict.fromkeys(paths) if path[0].field_id != 1]
        if not others:
            raise ValidationError("only the id is left")
        return others[choice % len(others)]

    def _rename(self, on: str, before: dict[int, Any], argument: tuple[int, str]) -> list[int]:
        path = [f.name for f in self._some(argument[0])]
        self.table.update_schema().rename_column(tuple(path), argument[1]).commit()
        return list(before)

    def _drop(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        """More often than not a column that was the key of a delete, which outlives it (D4)."""
        keys = [f.name for f in self.table.schema().fields if f.field_id in self.keys]
        path = tuple(keys) if keys and choice % 3 else tuple(f.name for f in self._some(choice))
        self.table.update_schema().delete_column(path).commit()
        return list(before)

    def _add(self, on: str, before: dict[int, Any], argument: tuple[int, str]) -> list[int]:
        """Under a name that another column may have had, in v3 with a default of the rows that there are."""
        choice, name = argument
        new_type, default = (LongType(), 7) if choice % 2 else (StringType(), "b")
        structs = [f.name for f in self.table.schema().fields if isinstance(f.field_type, StructType)]
        path = (structs[0], name) if structs and choice % 5 == 0 else (name,)
        has_default = self.table.format_version >= 3 and choice % 3
        update = self.table.update_schema()
        update.add_column(path, new_type, default_value=default if has_default else None).commit()
        return list(before)

    def _promote(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        path = self._some(choice)
        wanted = PROMOTED.get(type(path[-1].field_type))
        if wanted is not None:
            self.table.update_schema().update_column(tuple(f.name for f in path), wanted).commit()
        return list(before)

    def _move(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        self.table.update_schema().move_first(tuple(f.name for f in self._some(choice))).commit()
        return list(before)

    def _spec(self, on: str, before: dict[int, Any], terms: list[str]) -> list[int]:
        respec(self.table, terms)
        return list(before)

    def _upgrade(self, on: str, before: dict[int, Any], _: int) -> list[int]:
        self.table.upgrade(min(3, self.table.format_version + 1))
        return list(before)

    def _compact(self, on: str, before: dict[int, Any], _: int) -> list[int]:
        self.table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"}, branch=on)
        return list(before)

    def _rewrite_manifests(self, on: str, before: dict[int, Any], _: int) -> list[int]:
        self.table.rewrite_manifests(branch=on)
        return list(before)

    def _rewrite_deletes(self, on: str, before: dict[int, Any], _: int) -> list[int]:
        self.table.rewrite_position_delete_files(branch=on)
        return list(before)

    def _any(self, choice: int) -> int:
        found = [s.snapshot_id for s in self.table.snapshots()]
        if not found:
            raise ValidationError("there is no snapshot")
        return found[-1 - choice % len(found)]

    def _branch(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        manage = self.table.manage_snapshots()
        if "side" in self.table.refs():
            manage.replace_branch("side", self._any(choice)).commit()
        else:
            manage.create_branch(self._any(choice), "side").commit()
        return list(before)

    def _fast_forward(self, on: str, before: dict[int, Any], _: int) -> list[int]:
        refs = self.table.refs()
        if {MAIN_BRANCH, "side"} <= set(refs):
            ahead = self.table.metadata.is_ancestor(refs["side"].snapshot_id, refs[MAIN_BRANCH].snapshot_id)
            names = ("side", MAIN_BRANCH) if ahead else (MAIN_BRANCH, "side")
            self.table.manage_snapshots().fast_forward(*names).commit()
        return list(before)

    def _rollback(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        line = list(self.table.metadata.ancestors(self.table.metadata.current_snapshot_id))
        if line:
            manage = self.table.manage_snapshots()
            manage.rollback_to_snapshot(line[choice % min(3, len(line))].snapshot_id).commit()
        return list(before)

    def _pick(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        """An append is made again on main, by new rows of the same values; else main may move."""
        head = self.table.current_snapshot()
        line = {s.snapshot_id for s in self.table.metadata.ancestors(head.snapshot_id if head else None)}
        others = [s for s in self.table.snapshots() if s.snapshot_id not in line]
        if not others:
            raise ValidationError("all snapshots are on main")
        appends = [s for s in others if s.operation == Operation.APPEND] or others
        source = appends[-1 - choice % len(appends)]
        main = dict(self.live[head.snapshot_id]) if head else {}
        self.table.manage_snapshots().cherry_pick(source.snapshot_id).commit()
        brought = [uid for uid in self.live[source.snapshot_id] if uid not in self.parent(source)]
        return [*main, *self._new([self.rows[uid] for uid in brought])]

    def _expire(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        self.table.maintenance.expire_snapshots().by_id(self._any(choice)).commit()
        return list(before)

    def _revert(self, on: str, before: dict[int, Any], _: int) -> list[int]:
        """Undoes the last step, by whatever files it deleted rows."""
        if self.last is None:
            raise ValidationError("the last step made no snapshot")
        position, snapshot = self.last
        self.catalog.revert(position)
        self.table.refresh()
        return list(self.parent(snapshot))

    def _tag(self, on: str, before: dict[int, Any], choice: int) -> list[int]:
        self.names += 1
        self.table.manage_snapshots().create_tag(self._any(choice), f"tag{self.names}").commit()
        return list(before)
