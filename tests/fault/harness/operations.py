"""What processes do while they are killed: each operation knows what the warehouse must hold after it."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from attrs import evolve, frozen

import icecore

from .model import MARK, Model, TableModel, full_name

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
SCHEMES = ("metastore", "filesystem")
MODES = ("commit", "manual")
VERSIONS = (1, 2, 3)
Run: TypeAlias = "Callable[[icecore.Catalog], object]"


@frozen
class Setting:
    """The kind of warehouse: commit scheme, when files are written, format version."""

    scheme: str = "metastore"
    mode: str = "commit"
    version: int = 2

    def __str__(self) -> str:
        return f"{self.scheme} {self.mode} v{self.version}"


@frozen
class Operation:
    """One call. `events` are how many events it may add where it succeeds; `key` is its idempotency key."""

    name: str
    run: Run
    after: Model
    events: tuple[int, ...] = (1,)
    key: str | None = None


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def set_up(folder: str, setting: Setting) -> Model:
    """Makes a warehouse: `t` is partitioned and copies on write, `v` is a view.

    `u` merges on read where it can, and keeps few of its metadata files; `x` is one that may be renamed and dropped.
    """
    common = {"icecore.commit-scheme": setting.scheme, "icecore.materialize": setting.mode}
    version = setting.version
    with icecore.open(folder, actor="harness") as catalog:
        catalog.create_namespace("ns")
        t = catalog.create_table(
            "ns.t", SCHEMA, partition_spec=["bucket(2, id)"], properties=common, format_version=version
        )
        few = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
        mode = few | ({"write.delete.mode": "merge-on-read"} if version > 1 else {})
        u = catalog.create_table("ns.u", SCHEMA, properties=common | mode, format_version=version)
        t.append(rows(1, 2, 3))
        t.append(rows(4, 5, 6))
        t.overwrite(rows(1, 2, 3), "id < 4")
        u.append(rows(1, 2, 3, 4, 5, 6))
        catalog.create_table("ns.x", SCHEMA, properties=common, format_version=version).append(rows(7, 8))
        catalog.create_view("ns.v", "SELECT id FROM t", schema=pa.schema([("id", pa.int64())]))
        catalog.materialize()
    table = TableModel(tuple(range(1, 7)))
    return Model((("t", table), ("u", table), ("x", TableModel((7, 8)))), (("v", "SELECT id FROM t"),))


def _append(model: Model, number: int, key: str, name: str = "t") -> Operation:
    ids = (number, number + 1)
    return Operation(
        "append",
        lambda c: c.load_table(("ns", name)).append(rows(*ids), idempotency_key=key),
        model.put(name, model.table(name).plus(*ids)),
        key=key,
    )


def _delete(model: Model, number: int, key: str, name: str = "t") -> Operation:
    kind = "delete, copy on write" if name == "t" else "delete, merge on read"
    ids = model.table(name).ids
    if not ids:
        return _append(model, number, key, name)
    gone = ids[number % len(ids)]
    return Operation(
        kind,
        lambda c: c.load_table(("ns", name)).delete(f"id = {gone}", idempotency_key=key),
        model.put(name, model.table(name).minus(gone)),
        key=key,
    )


def _overwrite(model: Model, number: int, key: str) -> Operation:
    gone = tuple(i for i in model.table("t").ids if i % 3 == number % 3)
    where = f"id IN ({', '.join(map(str, gone or (-5,)))})"
    return Operation(
        "overwrite",
        lambda c: c.load_table("ns.t").overwrite(rows(number), where, idempotency_key=key),
        model.put("t", model.table("t").minus(*gone).plus(number)),
        key=key,
    )


def _upsert(model: Model, number: int, key: str) -> Operation:
    old = model.table("u").ids[:1]
    return Operation(
        "upsert",
        lambda c: c.load_table("ns.u").upsert(rows(*old, number), ["id"], idempotency_key=key),
        model.put("u", model.table("u").plus(number)),
        key=key,
    )


def _add_column(model: Model, number: int, key: str) -> Operation:
    name = f"c{number}"
    table = model.table("t")
    return Operation(
        "schema change",
        lambda c: c.load_table("ns.t").update_schema().add_column(name, "long").commit(),
        model.put("t", evolve(table, columns=(*table.columns, name))),
    )


def _property(model: Model, number: int, key: str) -> Operation:
    return Operation(
        "property",
        lambda c: c.load_table("ns.u").set_properties({MARK: str(number)}),
        model.put("u", evolve(model.table("u"), mark=str(number))),
    )


def _transaction(model: Model, number: int, key: str) -> Operation:
    after = model.put("t", model.table("t").plus(number)).put("u", model.table("u").plus(number))

    def run(catalog: icecore.Catalog) -> None:
        with catalog.transaction(idempotency_key=key) as transaction:
            transaction.table("ns.t").append(rows(number))
            transaction.table("ns.u").append(rows(number))

    return Operation("transaction over two tables", run, after, (2,), key)


def _create(model: Model, number: int, key: str) -> Operation:
    name = f"n{number}"
    return Operation(
        "create table",
        lambda c: c.create_table(("ns", name), SCHEMA, properties=dict(_common(c))),
        model.put(name, TableModel()),
    )


def _extras(model: Model) -> list[str]:
    return [name for name, _ in model.tables if name not in ("t", "u") and "." not in name]


def _drop(model: Model, number: int, key: str) -> Operation:
    extras = _extras(model)
    if not extras:
        return _create(model, number, key)
    return Operation("drop table", lambda c: c.drop_table(("ns", extras[0])), model.put(extras[0], None))


def _rename(model: Model, number: int, key: str) -> Operation:
    extras = _extras(model)
    if not extras:
        return _create(model, number, key)
    old, new = extras[-1], f"r{number}"
    after = model.put(old, None).put(new, model.table(old))
    return Operation("rename table", lambda c: c.rename_table(("ns", old), ("ns", new)), after)


def _expire(model: Model, number: int, key: str) -> Operation:
    def run(catalog: icecore.Catalog) -> None:
        table = catalog.load_table("ns.t")
        when = int(time.time() * 1000) + 10_000
        table.maintenance.expire_snapshots().older_than(when).retain_last(1).commit()

    # The commit, the table written out, and the files that go.
    return Operation("expire snapshots", run, model, (0, 1, 2, 3))


def _forget(model: Model, number: int, key: str) -> Operation:
    """With what leaves something to forget: the history goes first."""

    def run(catalog: icecore.Catalog) -> None:
        table = catalog.load_table("ns.t")
        table.rewrite_manifests()
        when = int(time.time() * 1000) + 10_000
        table.maintenance.expire_snapshots().older_than(when).retain_last(1).commit()
        table.forget()

    # One more where the table is written by hand.
    return Operation("forget", run, model, (0, 1, 2, 3, 4, 5))


def _orphans(model: Model, number: int, key: str) -> Operation:
    """The operation leaves them itself: what is made again finds none where they are gone."""

    def run(catalog: icecore.Catalog) -> None:
        table = catalog.load_table("ns.t")
        folder = Path(table.location().removeprefix("file://")) / "data"
        folder.mkdir(exist_ok=True)
        for name in "abc":
            # Where the folder is read-only or the disk full there are none.
            with contextlib.suppress(OSError):
                (folder / f"{number}-{name}.parquet").write_bytes(b"PAR1")
        when = int(time.time() * 1000) + 10_000
        table.maintenance.remove_orphan_files(when, allow_recent=True)

    return Operation("remove orphan files", run, model, (0, 1, 2))


def _purge(model: Model, number: int, key: str) -> Operation:
    extras = _extras(model)
    if not extras:
        return _create(model, number, key)
    name = extras[0]
    return Operation("drop and purge table", lambda c: _purged(c, ("ns", name)), model.put(name, None), (2,))


def _purged(catalog: icecore.Catalog, name: tuple[str, ...]) -> None:
    catalog.drop_table(name, purge=True)
    namespace, table = name
    assert not list((catalog.path / namespace / table).rglob("*.parquet"))


def _rewrite(model: Model, number: int, key: str) -> Operation:
    return Operation("rewrite manifests", lambda c: c.load_table("ns.t").rewrite_manifests(), model, (0, 1))


def _statistics(model: Model, number: int, key: str) -> Operation:
    def run(catalog: icecore.Catalog) -> None:
        catalog.load_table("ns.t").compute_partition_statistics()

    return Operation("partition statistics", run, model, (0, 1))


def _view(model: Model, number: int, key: str) -> Operation:
    sql = f"SELECT id FROM t WHERE id > {number}"
    schema = pa.schema([("id", pa.int64())])
    return Operation(
        "view commit",
        lambda c: c.load_view("ns.v").replace(sql, schema=schema),
        model.put_view("v", sql),
    )


def _new_view(model: Model, number: int, key: str) -> Operation:
    name, sql = f"v{number}", f"SELECT {number} AS x"
    schema = pa.schema([("x", pa.int32())])
    return Operation(
        "create view",
        lambda c: c.create_view(("ns", name), sql, schema=schema),
        model.put_view(name, sql),
    )


def _namespace(model: Model, number: int, key: str) -> Operation:
    name = f"ns{number}"
    after = evolve(model, namespaces=tuple(sorted((*model.namespaces, name))))
    return Operation("create namespace", lambda c: c.create_namespace(name), after)


def _joint_namespace(model: Model, number: int, key: str) -> Operation:
    """A namespace is made with a table in it; where there is one, the table is moved out and the namespace dropped."""
    elsewhere = [name for name, _ in model.tables if "." in name]
    if not elsewhere:
        return _namespace_with_table(model, number, key)
    old, new = elsewhere[0], f"m{number}"
    left = tuple(n for n in model.namespaces if n != old.split(".")[0])
    after = evolve(model.put(old, None).put(new, model.table(old)), namespaces=left)

    def run(catalog: icecore.Catalog) -> None:
        with catalog.transaction(idempotency_key=key) as transaction:
            transaction.rename_table(full_name(old), ("ns", new))
            transaction.drop_namespace(full_name(old)[:-1])

    return Operation("transaction that drops a namespace", run, after, (2,), key)


def _namespace_with_table(model: Model, number: int, key: str) -> Operation:
    namespace = f"ns{number}"
    after = model.put(f"{namespace}.x", TableModel((number,))).put("t", model.table("t").plus(number))
    after = evolve(after, namespaces=tuple(sorted((*model.namespaces, namespace))))

    def run(catalog: icecore.Catalog) -> None:
        with catalog.transaction(idempotency_key=key) as transaction:
            transaction.create_namespace(namespace, {"owner": "harness"})
            new = transaction.create_table((namespace, "x"), SCHEMA, properties=dict(_common(catalog)))
            new.append(rows(number))
            transaction.update_namespace_properties(namespace, updates={"tables": "1"})
            transaction.table("ns.t").append(rows(number))

    return Operation("transaction that makes a namespace", run, after, (5,), key)


def _materialize(model: Model, number: int, key: str) -> Operation:
    return Operation("materialize", lambda c: c.materialize(), model, tuple(range(20)))


def _checkpoint(model: Model, number: int, key: str) -> Operation:
    return Operation("checkpoint", lambda c: c.checkpoint(), model, (0,))


def _rebuild(model: Model, number: int, key: str) -> Operation:
    return Operation("rebuild", lambda c: c.rebuild(), model, (0,))


Maker: TypeAlias = "Callable[[Model, int, str], Operation]"
MAKERS: tuple[Maker, ...] = (
    _append,
    _delete,
    lambda m, n, k: _delete(m, n, k, "u"),
    _overwrite,
    _upsert,
    _add_column,
    _property,
    _transaction,
    _create,
    _drop,
    _rename,
    _expire,
    _orphans,
    _purge,
    _forget,
    _rewrite,
    _statistics,
    _view,
    _new_view,
    _namespace,
    _joint_namespace,
    _materialize,
    _checkpoint,
    _rebuild,
)
# Most of what is done to a warehouse is appends and deletes; those that only follow the log are rare.
WEIGHTS = (6, 3, 3, 2, 2, 1, 1, 3, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1)
APPEND = MAKERS[0]


def random_operation(dice: random.Random, model: Model, number: int) -> Operation:
    """One of all operations; `number` is new for each, and names the rows and things that it makes."""
    (maker,) = dice.choices(MAKERS, WEIGHTS)
    return maker(model, number, f"key-{number}")


def _common(catalog: icecore.Catalog) -> dict[str, str]:
    properties = catalog.load_table("ns.t").properties
    return {k: v for k, v in properties.items() if k.startswith("icecore.")}
