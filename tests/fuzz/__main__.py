"""Walks from the command line: `PYTHONPATH=tests python -m fuzz --help`."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    parser.add_argument("--spark", action="store_true", help="a session of Spark's reads and writes the table, too")
    arguments = parser.parse_args()
    try:
        with running_jvm() as jvm, _session(arguments.spark) as spark:
            return _run(jvm, spark, arguments)
    except JavaUnavailable as e:
        print(e)
        return 2


@contextmanager
def _session(is_wanted: bool) -> Iterator[Any]:
    """A local session; None where none is wanted."""
    if not is_wanted:
        yield None
        return
    import spark_jvm

    from icecore.spark import session

    spark_jvm.set_options()
    spark_jvm.load_before()
    spark_jvm.remember_classes()
    found = session("icecore-fuzz", spark__sql__shuffle__partitions=2)
    try:
        yield found
    finally:
        found.stop()


def _run(jvm: Jvm, spark: Any, a: argparse.Namespace) -> int:
    print(f"seed {a.seed}", flush=True)
    began, done, refused, verbs, findings = time.monotonic(), 0, Counter[str](), Counter[str](), 0
    number, known, said = 0, list[str](), began
    while time.monotonic() - began < a.seconds and findings < a.findings:
        seed = a.walk or f"{a.seed}/{number}"
        steps = steps_of(seed, a.steps, a.only, by_spark=a.spark)
        out = walk(jvm, seed, steps, print if a.walk else None, spark)
        number, done = number + 1, done + out.done
        refused, verbs = refused + out.refused, verbs + out.verbs
        if out.finding is not None and re.search(a.known, out.finding):
            known.append(out.seed)
        elif out.finding is not None:
            findings += 1
            _tell(jvm, spark, out, a)
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


def _tell(jvm: Jvm, spark: Any, out: Outcome, a: argparse.Namespace) -> None:
    options = f"{f' --only {a.only!r}' if a.only else ''}{' --spark' if a.spark else ''}"
    print(f"\nfinding, --walk {out.seed} --steps {a.steps}{options}", flush=True)
    least = out if a.no_shrink else shrunk(jvm, out, spark)
    print("\n".join(least.said))
    print(least.finding, flush=True)


if __name__ == "__main__":
    sys.exit(main())
