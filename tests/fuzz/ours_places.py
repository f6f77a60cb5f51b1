"""Our verbs about where things lie: warehouses that move and are cloned, files from elsewhere, tables purged."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import icecore
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow

from .checks import arrow_rows, java_rows, same
from .filters import Row
from .model import seen
from .values import arrow_table
from .verbs import Act, nothing, verb
from .world import NAME, World


@verb(1)
def move_warehouse(world: World) -> Act | None:
    """By us, or by hand and we are told."""
    old, new = world.folder, world.place("warehouse")
    by_hand = world.dice.random() < 0.5

    def run() -> None:
        world.leave()
        if by_hand:
            shutil.move(old, new)
        icecore.move_warehouse(new if by_hand else old, None if by_hand else new, actor="mover")
        world.settle(new)

    return Act(f"move the warehouse to {new.name}{', by hand' if by_hand else ''}", run, nothing)


@verb(1)
def clone_warehouse(world: World) -> Act | None:
    """All engines read the clone as the original; it is written to and thrown away."""
    new, rows = world.place("clone"), world.rows()
    how = world.dice.choice(("all", "metadata only", "by hand"))
    where = world.filter()
    data = world.arrow(rows)

    def run() -> None:
        if how == "by hand":
            # By another process: SQLite loses its locks where this one closes the file that it has open.
            subprocess.run(["cp", "-a", str(world.folder), str(new)], check=True)
        original, to = (new, None) if how == "by hand" else (world.folder, new)
        icecore.clone_warehouse(original, to, metadata_only=how == "metadata only", actor="cloner")
        with icecore.open(new, actor="clone") as clone:
            table = clone.load_table(NAME)
            _same_rows(world, table, world.model.rows(), "the clone")
            table.append(data)
            table.delete(where.sql())
            left = [r for r in (*world.model.rows(), *rows) if not where.holds(r)]
            _same_rows(world, table, left, "the clone that was written to")
            _same_in_java(world, new, left)
            same("verify of the clone", (), clone.verify(deep=True).problems)
        shutil.rmtree(new)

    return Act(f"clone the warehouse, {how}; append {len(rows)} rows there, delete {where.sql()}", run, nothing)


def _same_rows(world: World, table: icecore.Table, rows: Any, what: str) -> None:
    same(f"rows of {what}", seen(world.model.columns, rows), arrow_rows(table.scan().to_arrow()))


def _same_in_java(world: World, folder: Path, rows: Any) -> None:
    world.jvm.ask("open", warehouse=str(folder))
    location = f"file://{folder}/ns/t" if world.is_file_system else None
    found = world.jvm.ask("read", table=NAME, location=location)
    same("rows of the clone, Java", seen(world.model.columns, rows), java_rows(found))
    world.jvm.ask("open", warehouse=str(world.folder))


@verb(1)
def purge(world: World) -> Act | None:
    """Another table, with a like past, goes with its files; ours stays as it is."""
    catalog, rows = world.dice.choice(world.catalogs), world.rows()
    later, data = world.dice.random() < 0.5, world.arrow(rows)
    name = "ns.gone"

    def run() -> None:
        table = catalog.create_table(name, data.schema, format_version=world.model.format_version)
        table.append(data)
        folder = Path(table.location().removeprefix("file://"))
        if later:
            catalog.drop_table(name)
            catalog.undrop_table(name)
            same("rows of an undropped table", len(rows), catalog.load_table(name).scan().count())
            catalog.drop_table(name)
            catalog.purge_table(name)
        else:
            catalog.drop_table(name, purge=True)
        left = [p.name for p in folder.rglob("*") if p.is_file()]
        same("files of a purged table", [], left)

    return Act(f"purge another table, {'some time after' if later else 'with'} the drop", run, nothing)


@verb(2)
def add_files(world: World) -> Act | None:
    """Parquet files that another program wrote, with field ids, outside of the warehouse; a row each in partitions."""
    table, branch, rows = world.ours(), world.branch(), world.rows()
    folder = world.folder.parent / "outside"
    groups: list[tuple[Row, ...]] = [rows] if table.spec().is_unpartitioned else [(r,) for r in rows]

    def run() -> None:
        folder.mkdir(exist_ok=True)
        paths = [_file(world, table, folder, group) for group in groups]
        table.add_files(paths, branch=branch)

    return Act(f"add {len(groups)} files to {branch}", run, lambda m, _: m.append(branch, rows))


def _file(world: World, table: icecore.Table, folder: Path, rows: tuple[Row, ...]) -> str:
    path = folder / f"{world.model.next_id}.parquet"
    world.model.next_id += 1
    schema: pa.Schema = schema_to_arrow(table.schema())
    found = arrow_table([(c.name, c.type) for c in world.model.columns], world.lists(rows))
    pq.write_table(found.select(schema.names).cast(schema), path)
    return f"file://{path}"
