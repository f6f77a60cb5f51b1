"""A walk: a warehouse and steps, all from one seed."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

import icecore

from . import java_verbs, ours_log, ours_places, ours_rows, ours_shape, peer_verbs, references, spark_verbs, stale
from .checks import Violation, check
from .deeper_checks import check_deeper
from .jvm import JavaError, Jvm
from .model import Column, Model
from .partitions import random_term
from .spark_checks import check_by_spark
from .values import TYPES, arrow_table
from .verbs import VERBS, Act
from .world import ID, NAME, World

MODULES = (ours_rows, ours_shape, ours_log, ours_places, java_verbs, peer_verbs, references, stale, spark_verbs)


@frozen
class Step:
    """A verb with the number that its dice are seeded by."""

    number: int
    verb: str


@define
class Outcome:
    """What came of a walk: what was done, and how it ended where something was found."""

    seed: str
    said: list[str] = field(factory=list)
    done: int = 0
    refused: Counter[str] = field(factory=Counter)
    verbs: Counter[str] = field(factory=Counter)
    finding: str | None = None
    steps: tuple[Step, ...] = ()


def steps_of(seed: str, count: int, only: str = "", *, by_spark: bool = False) -> tuple[Step, ...]:
    """The steps of a walk, which depend on nothing but its seed, and on whether some are taken by Spark."""
    dice = random.Random(f"{seed}/steps")
    names = [n for n in VERBS if re.search(only, n) and (by_spark or not n.startswith("spark_"))]
    return tuple(Step(i, dice.choices(names, [VERBS[n][0] for n in names])[0]) for i in range(count))


def walk(
    jvm: Jvm, seed: str, steps: Sequence[Step], say: Callable[[str], object] | None = None, spark: Any = None
) -> Outcome:
    """Takes the steps in a warehouse of its own, up to the first finding; `spark` is a session that reads it too."""
    out = Outcome(seed, steps=tuple(steps))
    folder = Path(tempfile.mkdtemp(prefix="icecore-fuzz-", dir=_memory()))
    world = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            world = _start(folder / "warehouse", jvm, seed, out)
            world.spark = spark
            _take(world, steps, out, say)
    finally:
        if world is not None:
            for catalog in world.catalogs:
                catalog.close()
        shutil.rmtree(folder, ignore_errors=True)
    return out


def _start(folder: Path, jvm: Jvm, seed: str, out: Outcome) -> World:
    dice = random.Random(f"{seed}/start")
    columns = [Column(ID, "id", dice.choice(("int", "long")))]
    columns += [Column(i, f"c{i}", dice.choice(TYPES)) for i in range(1, dice.randint(2, 5))]
    terms = [t for t in (random_term(dice, columns) for _ in range(dice.choice((0, 0, 1, 2)))) if t is not None]
    if len(terms) == 2 and terms[0].column == terms[1].column:
        terms.pop()
    version = dice.choice((1, 2, 2, 3, 3))
    properties = {k: dice.choice(ours_shape.MODES) for k in ("write.delete.mode", "write.update.mode")}
    is_file_system = dice.random() < 0.25
    if is_file_system:
        properties["icecore.commit-scheme"] = "filesystem"
    model = Model(tuple(columns), version, properties=properties)
    catalogs = [icecore.open(folder, actor=f"ours {i}") for i in range(2)]
    catalogs[0].create_namespace("ns")
    schema = arrow_table([(c.name, c.type) for c in columns], []).schema
    spec = [_spec_text(t.transform, t.column.name) for t in terms]
    catalogs[0].create_table(NAME, schema, partition_spec=spec or None, format_version=version, properties=properties)
    jvm.ask("open", warehouse=str(folder))
    out.said.append(f"v{version} table {[(c.name, c.type) for c in columns]} by {spec}, {properties}")
    return World(folder, catalogs, jvm, model, dice, is_file_system)


def _spec_text(transform: str, column: str) -> str:
    kind, _, width = transform.rstrip("]").partition("[")
    if kind == "identity":
        return column
    return f"{kind}({width}, {column})" if width else f"{kind}({column})"


def _take(world: World, steps: Iterable[Step], out: Outcome, say: Callable[[str], object] | None) -> None:
    for step in steps:
        world.dice = random.Random(f"{out.seed}/{step.number}")
        act: Act | None = None
        said = f"{step.number:3} {step.verb}"
        try:
            act = VERBS[step.verb][1](world)
            if act is None:
                continue
            said += f": {act.text}"
            refusal = _act(world, act)
            if refusal is not None:
                said += f"   refused: {refusal[:160]}"
                out.refused[f"{step.verb}: {re.sub('file:[^ ,)]+|[0-9]+', '.', refusal)[:110]}"] += 1
            out.said.append(said)
            check(world)
            world.note(step.verb.startswith("ours_") and refusal is None)
            if world.dice.random() < 0.4:
                check_deeper(world)
            if world.spark is not None and world.dice.random() < 0.5:
                check_by_spark(world, world.ours())
        except Exception as e:
            out.finding = _text(e)
            if not out.said or out.said[-1] != said:
                out.said.append(said)
        if say is not None:
            say(said)
        out.done += 1
        out.verbs[step.verb] += 1
        if out.finding is not None:
            return


def _act(world: World, act: Act) -> str | None:
    """Does it; gives the reason where it was refused as it may be."""
    try:
        answer = act.run()
    except Exception as e:
        text = f"{type(e).__name__}: {e}"
        if act.may_refuse is not None and re.search(act.may_refuse, text):
            return text
        raise
    act.after(world.model, answer)
    return None


def _text(e: Exception) -> str:
    if isinstance(e, Violation):
        return f"Violation: {e}"
    if isinstance(e, JavaError):
        return f"Java: {e}\n{e.trace}"
    return "".join(traceback.format_exception(e)[-12:])


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
