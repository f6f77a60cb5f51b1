"""Files that were damaged: whatever follows from the log is found and healed, the log itself is found and refused."""

from __future__ import annotations

import contextlib
import random
from functools import partial
from pathlib import Path
from typing import TypeAlias

import icecore
from icecore.engine.errors import IcecoreError

from .bench import Bench
from .children import FAILED, Outcome, Say, Work, in_turn
from .counts import Counts
from .deaths import brought_back
from .examine import peer_problems
from .model import Model, difference, observe
from .operations import MAKERS, Setting

PROJECTION, LOG, DATA = "damaged projection file", "damaged log", "damaged data file"
HEALED = "found, healed with the same bytes"
HARMLESS = "no content was hit, all answers right"
CACHED = "cache made again, all answers right"
# What was hit, how to do it again, and the look at what came of it.
Hit: TypeAlias = tuple[str, str, Work]


def kind_of(path: Path) -> str:
    """What a file of a warehouse is."""
    if "segments" in path.parts:
        return "segment"
    if path.name == "version-hint.text":
        return "version hint"
    if path.name.endswith(".metadata.json"):
        return "view metadata" if path.name.endswith(".gz.metadata.json") else "table metadata"
    if path.suffix == ".avro":
        return "manifest list" if path.name.startswith("snap-") else "manifest"
    if path.parent.name == "metadata":
        return "statistics"
    return "data file" if path.suffix in (".parquet", ".puffin") else "log"


def hit(path: Path, dice: random.Random) -> str:
    """Damages a file in one of four ways, and says how."""
    data = bytearray(path.read_bytes())
    match dice.choice(("lost", "cut", "flipped", "flipped", "flipped", "emptied")):
        case "lost":
            path.unlink()
            return "lost"
        case "cut":
            at = dice.randrange(len(data))
            path.write_bytes(data[:at])
            return f"cut at {at}"
        case "emptied":
            path.write_bytes(b"")
            return "emptied"
        case _:
            at = dice.randrange(len(data))
            data[at] ^= 1 << dice.randrange(8)
            path.write_bytes(data)
            return f"bit flipped at {at}"


def a_bit_of_everything(folder: str, model: Model) -> Model:
    """A warehouse with a bit of everything in it, written out, closed, its caches filled."""
    with icecore.open(folder) as catalog:
        for number in (0, 1, 2, 4, 5, 7, 13, 14, 15, 17, 18):
            operation = MAKERS[number](model, 500 + number, f"key-{number}")
            operation.run(catalog)
            model = operation.after
        catalog.materialize()
        observe(catalog)
    return model


def damage_projections(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """One file at a time: verify names it, every answer stays right, and a rebuild gives the same bytes again."""
    dice = random.Random(f"{seed}/projections")
    bench = Bench(root)
    model = bench.start(setting, a_bit_of_everything)
    folder = Path(bench.folder)
    by_kind: dict[str, list[str]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        by_kind.setdefault(kind_of(path), []).append(str(path))
    kinds = [k for k in by_kind if k not in ("log", "data file", "statistics")]
    hits: list[Hit] = []
    for number in range(rounds):
        bench.put_back()
        kind = kinds[number % len(kinds)]
        path = Path(dice.choice(by_kind[kind]))
        good = path.read_bytes()
        how = hit(path, dice)
        context = f"seed {seed}, round {number}, {setting}, {kind} {path.name} {how}"
        look = partial(_heal, folder=bench.folder, model=model, path=path, kind=kind, good=good)
        hits.append((kind, context, brought_back(bench, bench.set_aside(), look)))
    _judge_all(counts, PROJECTION, hits)
    bench.remove()


def _heal(say: Say, folder: str, model: Model, path: Path, kind: str, good: bytes) -> None:
    problems: list[str] = []
    with icecore.open(folder) as catalog:
        found = catalog.verify().problems
        if kind == "version hint" and path.exists() and path.read_bytes() == good:
            # The first open after a commit looks after the hint.
            found = (path.name,)
        if kind != "segment" and not any(path.name in p for p in found):
            problems.append(f"verify does not name it: {found}")
        if text := difference(model, observe(catalog)):
            problems.append(text)
        if kind == "segment":
            say("found", (CACHED, problems))
            return
        catalog.rebuild()
        if not path.exists() or path.read_bytes() != good:
            problems.append("a rebuild did not give the same bytes")
        problems += [f"verify after a rebuild: {p}" for p in catalog.verify().problems]
        if text := difference(model, observe(catalog)):
            problems.append(f"after a rebuild: {text}")
    problems += peer_problems(folder, model)
    say("found", (HEALED, problems))


def damage_log(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """A bit, a run of bytes or the end of the log's own file: found, named and refused, or no content was hit."""
    dice = random.Random(f"{seed}/log")
    bench = Bench(root)
    model = bench.start(setting, a_bit_of_everything)
    path = Path(bench.folder) / "icecore.db"
    hits: list[Hit] = []
    for number in range(rounds):
        bench.put_back()
        data = bytearray(path.read_bytes())
        at = dice.randrange(len(data))
        match dice.choice(("bit", "bit", "bit", "noise", "zeros", "cut")):
            case "bit":
                data[at] ^= 1 << dice.randrange(8)
                how = "one bit flipped"
            case "noise":
                length = dice.choice((4, 64, 4096))
                data[at : at + length] = dice.randbytes(len(data[at : at + length]))
                how = "noise"
            case "zeros":
                data[at : at + 512] = bytes(len(data[at : at + 512]))
                how = "zeros"
            case _:
                data = data[:at]
                how = "cut"
        path.write_bytes(data)
        context = f"seed {seed}, round {number}, {setting}, {how} at {at}"
        look = partial(_distrust, folder=bench.folder, model=model)
        hits.append((how, context, brought_back(bench, bench.set_aside(), look)))
    _judge_all(counts, LOG, hits)
    bench.remove()


def _distrust(say: Say, folder: str, model: Model) -> None:
    try:
        catalog = icecore.open(folder)
    except IcecoreError as e:
        say("found", (f"refused to open: {type(e).__name__}", []))
        return
    say("found", _asked(catalog, model))
    with contextlib.suppress(IcecoreError):
        catalog.close()


def _asked(catalog: icecore.Catalog, model: Model) -> tuple[str, list[str]]:
    """What is said of a damaged log that can be opened, and what of it is wrong."""
    try:
        found = catalog.verify().problems
    except IcecoreError as e:
        return f"verify refused: {type(e).__name__}", []
    if not found:
        try:
            text = difference(model, observe(catalog))
        except IcecoreError as e:
            text = f"{type(e).__name__}: {e}"
        return HARMLESS, [f"verify is clean, but: {text}"] if text else []
    try:
        catalog.rebuild()
    except IcecoreError as e:
        return f"found, rebuild refused: {type(e).__name__}", []
    problems = [f"verify after a rebuild: {p}; before: {found[:3]}" for p in catalog.verify().problems]
    if text := difference(model, observe(catalog)):
        problems.append(f"after a rebuild: {text}")
    return "a read model was hit: found, healed", problems


def damage_data(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """A data or delete file: reading it is refused, or its rows are right; verify names it where it is cut or gone."""
    dice = random.Random(f"{seed}/data")
    bench = Bench(root)
    model = bench.start(setting, a_bit_of_everything)
    paths = sorted(p for p in Path(bench.folder).rglob("*") if p.is_file() and kind_of(p) == "data file")
    hits: list[Hit] = []
    for number in range(rounds):
        bench.put_back()
        path = dice.choice(paths)
        how = hit(path, dice)
        context = f"seed {seed}, round {number}, {setting}, {path.name} {how}"
        look = partial(_read, folder=bench.folder, model=model, path=path, is_shorter="flipped" not in how)
        hits.append((how.split(" at ")[0], context, brought_back(bench, bench.set_aside(), look)))
    _judge_all(counts, DATA, hits)
    bench.remove()


def _read(say: Say, folder: str, model: Model, path: Path, is_shorter: bool) -> None:
    problems: list[str] = []
    with icecore.open(folder) as catalog:
        found = catalog.verify().problems
        if is_shorter != any(path.name in p for p in found):
            problems.append(f"verify says: {found}")
        try:
            text = difference(model, observe(catalog))
        except IcecoreError as e:
            say("found", (f"refused: {type(e).__name__}", problems))
            return
    problems += [text] if text else []
    say("found", ("not needed, or no content was hit: all rows right", problems))


def _judge_all(counts: Counts, kind: str, hits: list[Hit]) -> None:
    """One process looks at all of them."""
    for (what, context, _), outcome in zip(hits, in_turn([look for _, _, look in hits]), strict=True):
        _judge(counts, kind, what, outcome, context)


def _judge(counts: Counts, kind: str, what: str, outcome: Outcome, context: str) -> None:
    result: tuple[str, list[str]] | None = outcome.get("found")
    if result is None:
        counts.violation(kind, f"{context}: {outcome.get(FAILED) or outcome.exit_code}")
        return
    for problem in result[1]:
        counts.violation(kind, f"{context}: {problem}")
    counts.add(kind, what, result[0])
