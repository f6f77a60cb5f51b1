"""Branches, tags, snapshots: verbs of ours and of Java, with the same model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .model import Model, Version
from .verbs import Act, verb
from .world import World

# What an engine is asked for: one change of references, as the JVM takes them.
Edit = dict[str, Any]


def _act(world: World, text: str, edit: Edit, after: Callable[[Model, Any], object], may_refuse: str | None) -> Act:
    if world.dice.random() < 0.5:
        return Act(f"Java: {text}", lambda: world.java("refs", edits=[edit]), after, may_refuse)
    table = world.ours()
    return Act(f"ours: {text}", lambda: _ours(table.manage_snapshots(), edit).commit(), after, may_refuse)


def _ours(manage: Any, edit: Edit) -> Any:
    name, snapshot = edit.get("name", ""), edit.get("snapshot", 0)
    match edit["do"]:
        case "create_branch":
            return manage.create_branch(snapshot, name)
        case "create_tag":
            return manage.create_tag(snapshot, name)
        case "remove_branch":
            return manage.remove_branch(name)
        case "remove_tag":
            return manage.remove_tag(name)
        case "rename_branch":
            return manage.rename_branch(name, edit["to"])
        case "replace_branch":
            return manage.replace_branch(name, snapshot_id=snapshot)
        case "replace_tag":
            return manage.replace_tag(name, snapshot)
        case "fast_forward":
            return manage.fast_forward(name, edit["to"])
        case "rollback":
            return manage.rollback_to_snapshot(snapshot)
        case "set_current":
            return manage.set_current_snapshot(snapshot)
        case "cherry_pick":
            return manage.cherry_pick(snapshot)
    raise AssertionError(edit)


@verb(2)
def create_ref(world: World) -> Act | None:
    version = world.version()
    if version is None:
        return None
    is_tag = world.dice.random() < 0.5
    name = f"{'t' if is_tag else 'b'}{world.dice.randrange(5)}"
    if name in world.model.refs:
        return None
    kind = "tag" if is_tag else "branch"

    def after(m: Model, _: Any) -> None:
        m.refs[name] = version
        if is_tag:
            m.tags.add(name)

    edit = {"do": f"create_{kind}", "name": name, "snapshot": version.snapshot_id}
    return _act(world, f"create {kind} {name}", edit, after, None)


@verb(1)
def remove_ref(world: World) -> Act | None:
    names = sorted(world.model.refs.keys() - {"main"})
    if not names:
        return None
    name = world.dice.choice(names)
    kind = "tag" if name in world.model.tags else "branch"

    def after(m: Model, _: Any) -> None:
        m.refs.pop(name)
        m.tags.discard(name)

    return _act(world, f"remove {kind} {name}", {"do": f"remove_{kind}", "name": name}, after, None)


@verb(1)
def rename_branch(world: World) -> Act | None:
    names = [b for b in world.model.branches if b != "main"]
    if not names:
        return None
    name, new = world.dice.choice(names), f"b{world.dice.randrange(5, 9)}"
    if new in world.model.refs:
        return None

    def after(m: Model, _: Any) -> None:
        m.refs[new] = m.refs.pop(name)

    edit = {"do": "rename_branch", "name": name, "to": new}
    return _act(world, f"rename branch {name} to {new}", edit, after, None)


@verb(1)
def replace_ref(world: World) -> Act | None:
    names = sorted(world.model.refs)
    version = world.version()
    if not names or version is None:
        return None
    name = world.dice.choice(names)
    kind = "tag" if name in world.model.tags else "branch"
    edit = {"do": f"replace_{kind}", "name": name, "snapshot": version.snapshot_id}
    return _act(world, f"replace {kind} {name}", edit, _moving(name, version), None)


@verb(1)
def fast_forward(world: World) -> Act | None:
    names = world.model.branches
    if len(names) < 2 or "main" not in world.model.refs:
        return None
    name, to = world.dice.sample(names, 2)
    target = world.model.refs[to]
    edit = {"do": "fast_forward", "name": name, "to": to}
    return _act(world, f"fast-forward {name} to {to}", edit, _moving(name, target), "ancestor")


@verb(2)
def rollback(world: World) -> Act | None:
    head = world.model.refs.get("main")
    ancestors = [v for v in world.model.known if v.is_ancestor_of(head)]
    if not ancestors:
        return None
    version = world.dice.choice(ancestors)
    edit = {"do": "rollback", "snapshot": version.snapshot_id}
    return _act(world, "roll back", edit, _moving("main", version), "ancestor")


@verb(1)
def set_current(world: World) -> Act | None:
    version = world.version()
    if version is None:
        return None
    edit = {"do": "set_current", "snapshot": version.snapshot_id}
    return _act(world, "set the current snapshot", edit, _moving("main", version), None)


@verb(3)
def cherry_pick(world: World) -> Act | None:
    """An append is made again; anything else only where main is its parent."""
    head = world.model.refs.get("main")
    versions = [v for v in world.model.known if v.appended is not None or v.parent is head]
    # Where the first pick has expired, Java would pick again, and have the files twice.
    versions = [v for v in versions if v.is_known and not v.is_picked and not v.is_ancestor_of(head)]
    if not versions:
        return None
    version = world.dice.choice(versions)

    def after(m: Model, _: Any) -> None:
        m.has_picked = True
        if version.parent is head:
            m.refs["main"] = version
        else:
            version.is_picked = True
            m.append("main", version.appended or ())

    edit = {"do": "cherry_pick", "snapshot": version.snapshot_id}
    # Java takes files apart by path; a snapshot that was picked or published before is refused.
    return _act(world, "cherry-pick", edit, after, "ancestor|was, as|already|published|Duplicate|not append")


@verb(2)
def expire(world: World) -> Act | None:
    """Snapshots that no reference is at."""
    heads = list(map(id, world.model.refs.values()))
    candidates = [v for v in world.model.known if id(v) not in heads]
    if not candidates:
        return None
    gone = world.dice.sample(candidates, world.dice.randint(1, min(4, len(candidates))))
    ids = [v.snapshot_id for v in gone]

    def after(m: Model, _: Any) -> None:
        for v in gone:
            v.is_expired = True

    if world.dice.random() < 0.5:
        return Act(f"Java: expire {len(ids)} snapshots", lambda: world.java("expire", ids=ids), after)
    table = world.ours()

    def run() -> None:
        table.maintenance.expire_snapshots().by_ids([i for i in ids if i is not None]).commit()

    return Act(f"ours: expire {len(ids)} snapshots", run, after)


def _moving(name: str, version: Version) -> Callable[[Model, Any], object]:
    def after(m: Model, _: Any) -> None:
        m.refs[name] = version

    return after
