"""Walks from the command line: `PYTHONPATH=tests python -m fuzz --help`."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter

from .jvm import JavaUnavailable, Jvm, running_jvm
from .shrink import shrunk
from .walk import Outcome, steps_of, walk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="when to stop beginning new walks (default: 300)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="repeats a run's dice")
    parser.add_argument("--steps", type=int, default=40, help="steps of a walk (default: 40)")
    parser.add_argument("--walk", help="takes one walk only, of the seed that a run has printed, and says each step")
    parser.add_argument("--only", default="", help="verbs whose names match this regular expression")
    parser.add_argument("--findings", type=int, default=1, help="how many findings end the run (default: 1)")
    parser.add_argument("--no-shrink", action="store_true", help="findings are told with all of their steps")
    parser.add_argument("--known", default="^$", help="findings that match this regular expression are only counted")
    arguments = parser.parse_args()
    try:
        with running_jvm() as jvm:
            return _run(jvm, arguments)
    except JavaUnavailable as e:
        print(e)
        return 2


def _run(jvm: Jvm, a: argparse.Namespace) -> int:
    print(f"seed {a.seed}", flush=True)
    began, done, refused, verbs, findings = time.monotonic(), 0, Counter[str](), Counter[str](), 0
    number, known, said = 0, list[str](), began
    while time.monotonic() - began < a.seconds and findings < a.findings:
        seed = a.walk or f"{a.seed}/{number}"
        out = walk(jvm, seed, steps_of(seed, a.steps, a.only), print if a.walk else None)
        number, done = number + 1, done + out.done
        refused, verbs = refused + out.refused, verbs + out.verbs
        if out.finding is not None and re.search(a.known, out.finding):
            known.append(out.seed)
        elif out.finding is not None:
            findings += 1
            _tell(jvm, out, a)
        if a.walk:
            break
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{number} walks, {done} steps, {said - began:.0f} s", flush=True)
    for text, count in refused.most_common(40):
        print(f"refused {count} times: {text}")
    if known:
        print(f"known: {', '.join(known)}")
    print(f"{number} walks, {done} steps of {len(verbs)} verbs, {time.monotonic() - began:.0f} s, {findings} findings")
    return 1 if findings else 0


def _tell(jvm: Jvm, out: Outcome, a: argparse.Namespace) -> None:
    print(f"\nfinding, --walk {out.seed} --steps {a.steps}{f' --only {a.only!r}' if a.only else ''}", flush=True)
    least = out if a.no_shrink else shrunk(jvm, out)
    print("\n".join(least.said))
    print(least.finding, flush=True)


if __name__ == "__main__":
    sys.exit(main())
