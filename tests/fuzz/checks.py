"""What must hold after each step: all engines see the table as the model says."""

from __future__ import annotations

import re
from typing import Any

import icecore
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.transform import IdentityTransform

from .filters import Filter
from .jvm import JavaError
from .model import Model, Version, seen
from .values import canonical, from_java, sorted_rows
from .world import NAME, World

Found = list[tuple[Any, ...]]

# PyIceberg reads no equality deletes, compares partitions that are null with numbers, and reads no manifest of Java's
# that has two partition fields of the same decimal type.
PEER_CANT = "equality deletes|not supported between instances of 'NoneType'|Type not recognized: decimal"


class Violation(AssertionError):
    """Something is not as the model says."""


def check(world: World) -> None:
    """Raises Violation for the first thing that differs; what is looked at beyond main is for the dice to say."""
    catalog = world.dice.choice(world.catalogs)
    table = catalog.load_table(NAME)
    bind(world.model, table.metadata)
    columns = [(f.name, _type_name(f.field_type)) for f in table.schema().fields]
    same("columns", [(c.name, c.type) for c in world.model.columns], columns)
    _check_properties(world.model, table.properties)
    where = world.filter() if world.dice.random() < 0.7 else None
    _check_main(world, table, where)
    _check_another(world, table)
    problems = catalog.verify().problems
    if problems:
        raise Violation(f"verify: {problems}")


def bind(model: Model, metadata: TableMetadata) -> None:
    """Gives the model's new versions their snapshot ids, and looks for references that are not as they should be."""
    known = {v.snapshot_id: v for v in model.versions if v.snapshot_id is not None}
    _bind_staged(model, metadata)
    for name, version in sorted(model.refs.items()):
        ref = metadata.refs.get(name)
        if ref is None:
            if version.snapshot_id is None and _unchanged(version):
                _forget(model, name, version)
                continue
            raise Violation(f"reference {name} is not there: {sorted(metadata.refs)}")
        there = known.get(ref.snapshot_id)
        if there is None:
            if version.snapshot_id is not None:
                raise Violation(f"{name} is at {ref.snapshot_id}, expected {version.snapshot_id}")
            version.snapshot_id = ref.snapshot_id
            known[ref.snapshot_id] = version
            _bind_parent(model, metadata, version)
        elif there is not version:
            if version.snapshot_id is not None or not _unchanged(version):
                raise Violation(f"{name} is still at {ref.snapshot_id}, expected {version.snapshot_id}")
            _forget(model, name, version, there)
    if more := metadata.refs.keys() - model.refs.keys():
        raise Violation(f"there are references {sorted(more)} that nobody made")
    there_now = {s.snapshot_id for s in metadata.snapshots}
    for v in model.known:
        if v.snapshot_id not in there_now:
            raise Violation(f"snapshot {v.snapshot_id} is gone")


def _unchanged(version: Version) -> bool:
    """Whether a commit may have been none: there was nothing to do."""
    before = version.parent.rows if version.parent is not None else ()
    return sorted(map(repr, before)) == sorted(map(repr, version.rows))


def _forget(model: Model, name: str, version: Version, instead: Version | None = None) -> None:
    model.versions.remove(version)
    if instead is None:
        del model.refs[name]
    else:
        model.refs[name] = instead


def _bind_staged(model: Model, metadata: TableMetadata) -> None:
    for version in model.versions:
        if version.staged_as is not None and version.snapshot_id is None:
            found = [s for s in metadata.snapshots if (s.summary or {}).get("wap.id") == version.staged_as]
            if not found:
                raise Violation(f"nothing is staged as {version.staged_as}")
            version.snapshot_id = found[0].snapshot_id


def _bind_parent(model: Model, metadata: TableMetadata, version: Version) -> None:
    """The commit may have been of several snapshots: those between are not known."""
    snapshot = metadata.snapshot_by_id(version.snapshot_id or 0)
    parent_id = snapshot.parent_snapshot_id if snapshot else None
    if parent_id is None:
        version.parent = None
        return
    expected = version.parent
    if expected is not None and expected.snapshot_id == parent_id:
        return
    between = Version((), version.columns, expected, snapshot_id=parent_id, is_known=False)
    model.versions.append(between)
    version.parent, version.appended = between, None


def _check_properties(model: Model, found: Any) -> None:
    for key, value in model.properties.items():
        if found.get(key) != value:
            raise Violation(f"property {key} is {found.get(key)!r}, expected {value!r}")


def _check_main(world: World, table: icecore.Table, where: Filter | None) -> None:
    model = world.model
    expected = seen(model.columns, model.rows(), where)
    said = f"rows of main{' where ' + where.sql() if where else ''}"
    scan = table.scan(where.sql() if where else None)
    same(f"{said}, ours", expected, arrow_rows(scan.to_arrow()))
    same(f"count of {said}, ours", len(expected), scan.count())
    if where is not None:
        same("all rows, ours", seen(model.columns, model.rows()), arrow_rows(table.scan().to_arrow()))
    # They look for a column with a default in files that don't have it.
    theirs = None if where is not None and where.has_default else where
    whole = seen(model.columns, model.rows(), theirs)
    found = _read_by_java(world, theirs)
    if found is None:
        theirs, whole, found = None, seen(model.columns, model.rows()), world.java("read")
    same(f"{said}, Java", whole, java_rows(found))
    ids = [[f.field_id, f.name, _type_name(f.field_type)] for f in table.schema().fields]
    same("field ids, Java", ids, [[i, n, _type_name(t)] for i, n, t in found["columns"]])
    same("references, Java", {n: r.snapshot_id for n, r in table.refs().items()}, found["refs"])
    if not world.is_misread():
        _same_if_readable(f"{said}, PyIceberg", whole, lambda: _peer_rows(world, theirs))


def _read_by_java(world: World, where: Filter | None) -> Any:
    """None where it fails to look for the null of a partition among texts, which it does for `IN`."""
    try:
        return world.java("read", **({"filter": where.java()} if where else {}))
    except JavaError as e:
        if "ResidualVisitor.in" in e.trace and "Invalid object: null" in str(e):
            return None
        raise


def _check_another(world: World, table: icecore.Table) -> None:
    """A branch by the columns of now, a tag or a snapshot by its own."""
    model = world.model
    names = sorted(model.refs.keys() - {"main"})
    if names and world.dice.random() < 0.5:
        name = world.dice.choice(names)
        columns = model.refs[name].columns if name in model.tags else model.columns
        expected = seen(columns, model.rows(name))
        same(f"rows of {name}, ours", expected, arrow_rows(table.scan(ref=name).to_arrow()))
        if name not in model.tags or _java_reads_past(table.metadata):
            same(f"rows of {name}, Java", expected, java_rows(world.java("read", ref=name)))
        return
    version = world.version()
    if version is None:
        return
    expected = seen(version.columns, version.rows)
    said = f"rows of snapshot {version.snapshot_id}"
    same(f"{said}, ours", expected, arrow_rows(table.scan(snapshot_id=version.snapshot_id).to_arrow()))
    if _java_reads_past(table.metadata):
        same(f"{said}, Java", expected, java_rows(world.java("read", snapshot=version.snapshot_id)))


def _java_reads_past(metadata: TableMetadata) -> bool:
    """Whether it has the types of all partitions: it gives the days of a date, as its column is gone by now."""
    fields = [f for s in metadata.partition_specs for f in s.fields if isinstance(f.transform, IdentityTransform)]
    return all(metadata.schema().get_field(f.source_id) is not None for f in fields)


def _peer_rows(world: World, where: Filter | None) -> Found:
    scan = world.theirs().scan(row_filter=where.pyice()) if where else world.theirs().scan()
    return arrow_rows(scan.to_arrow())


def _same_if_readable(what: str, expected: Found, read: Any) -> None:
    try:
        found = read()
    except (ValueError, NotImplementedError, TypeError) as e:
        if re.search(PEER_CANT, str(e)):
            return
        raise
    same(what, expected, found)


def arrow_rows(table: Any) -> Found:
    columns = [[canonical(v) for v in c.to_pylist()] for c in table.columns]
    return sorted_rows(zip(*columns, strict=True))


def java_rows(answer: Any) -> Found:
    types = [t for _, _, t in answer["columns"]]
    return sorted_rows([from_java(t, v) for t, v in zip(types, row, strict=True)] for row in answer["rows"])


def _type_name(field_type: Any) -> str:
    return (
        "struct"
        if str(field_type).startswith("struct")
        else re.sub(r"\((\d+),\s*(\d+)\)", r"(\1, \2)", str(field_type))
    )


def same(what: str, expected: Any, found: Any) -> None:
    if expected == found:
        return
    if isinstance(expected, list) and isinstance(found, list) and len(expected) + len(found) > 4:
        lost = [r for r in expected if r not in found]
        more = [r for r in found if r not in expected]
        raise Violation(f"{what}: {len(found)} for {len(expected)}; lost {lost[:4]}, too many {more[:4]}")
    raise Violation(f"{what}: expected {expected}, found {found}")
