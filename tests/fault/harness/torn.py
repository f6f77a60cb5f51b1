"""Write-ahead logs of SQLite that were torn: cut or garbled after a kill, as by a machine that lost power."""

from __future__ import annotations

import random
from pathlib import Path

import icecore
from icecore.engine.errors import IcecoreError

from .bench import Bench
from .children import FAILED, Child, Say, in_child
from .counts import Counts
from .model import Model, difference, observe
from .operations import Setting, rows

KIND = "torn WAL"
AHEAD = "is ahead of the log"


def tear(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """Appends are acknowledged, the process is killed, the end of its WAL is destroyed; then somebody opens."""
    dice = random.Random(f"{seed}/torn")
    bench = Bench(root)
    base = bench.start(setting)
    for number in range(rounds):
        bench.put_back()
        models = _append_and_die(bench.folder, base, dice.randint(1, 5))
        how = _destroy(Path(bench.folder) / "icecore.db-wal", dice)
        context = f"seed {seed}, round {number}, {setting}, {how}"
        outcome = in_child(lambda say, m=models: _look(say, bench.folder, m))  # type: ignore[misc]
        result: tuple[str, list[str]] | None = outcome.get("found")
        if result is None:
            counts.violation(KIND, f"{context}: {outcome.get(FAILED)}")
            continue
        for problem in result[1]:
            counts.violation(KIND, f"{context}: {problem}")
        counts.add(KIND, how.split(" at ")[0], result[0])
    bench.remove()


def _append_and_die(folder: str, base: Model, appends: int) -> dict[int, Model]:
    """What the warehouse holds at each position of the log."""

    def work(say: Say) -> None:
        with icecore.open(folder) as catalog:
            model, table = base, catalog.load_table("ns.u")
            say("at", (catalog.position, model))
            for i in range(appends):
                table.append(rows(1000 + i))
                model = model.put("u", model.table("u").plus(1000 + i))
                say("at", (catalog.position, model))
            child.kill()

    class Self:
        def kill(self) -> None:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)

    child = Self()
    outcome = Child(work).wait()
    return dict(value for name, value in outcome.messages if name == "at")


def _destroy(wal: Path, dice: random.Random) -> str:
    data = bytearray(wal.read_bytes())
    at = dice.randrange(len(data))
    match dice.choice(("cut", "flipped", "zeros", "noise")):
        case "cut":
            data, how = data[:at], "cut"
        case "flipped":
            data[at] ^= 1 << dice.randrange(8)
            how = "one bit flipped"
        case "zeros":
            data[at:] = bytes(len(data) - at)
            how = "zeros to the end"
        case _:
            length = min(len(data) - at, dice.choice((16, 512, 4096)))
            data[at : at + length] = dice.randbytes(length)
            how = "noise"
    wal.write_bytes(data)
    wal.with_name("icecore.db-shm").unlink(missing_ok=True)
    return f"{how} at {at}"


def _look(say: Say, folder: str, models: dict[int, Model]) -> None:
    problems: list[str] = []
    try:
        with icecore.open(folder) as catalog:
            position = catalog.position
            lost = max(models) - position
            if position not in models:
                say("found", ("?", [f"the log ends at {position}, which never was its end"]))
                return
            if text := difference(models[position], observe(catalog)):
                problems.append(f"at position {position}: {text}")
            found = catalog.verify().problems
            # Files may follow what was lost; they are named now, and healed below.
            outcome = "nothing lost" if not lost else "shorter log, whole"
            try:
                catalog.load_table("ns.u").append(rows(7000))
                model = models[position].put("u", models[position].table("u").plus(7000))
                if text := difference(model, observe(catalog)):
                    problems.append(f"after another append: {text}")
                if not catalog.verify().ok:
                    catalog.rebuild()
                    outcome += "; files healed by a rebuild"
                left = catalog.verify().problems
                if lost and any(AHEAD in p for p in left):
                    # The version that the append took had been deleted: later ones stay, and are named.
                    outcome = "shorter log, went on; files ahead of it named"
                    left = tuple(p for p in left if AHEAD not in p)
                problems += [f"verify after an append: {p}" for p in left]
            except IcecoreError as e:
                outcome = "shorter log, files ahead of it named, refused to go on"
                if not any(AHEAD in p for p in found):
                    problems.append(f"verify did not name what keeps an append from going on: {e}")
            say("found", (outcome, problems))
    except IcecoreError as e:
        say("found", (f"refused to open: {type(e).__name__}", []))
