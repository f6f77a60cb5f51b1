"""Walks from the command line: `PYTHONPATH=tests python -m fuzz --help`."""

from __future__ import annotations

import argparse
import os
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
    text = "a session of Spark's reads and writes the table, too: a classic one, or of Spark Connect"
    parser.add_argument("--spark", nargs="?", const="classic", choices=tuple(SESSIONS), help=text)
    arguments = parser.parse_args()
    try:
        with running_jvm() as jvm, _session(arguments.spark) as spark:
            return _run(jvm, spark, arguments)
    except JavaUnavailable as e:
        print(e)
        return 2


def _classic() -> Any:
    import spark_jvm

    from icecore.spark import session

    spark_jvm.set_options()
    spark_jvm.load_before()
    spark_jvm.remember_classes()
    return session("icecore-fuzz", spark__sql__shuffle__partitions=2)


def _connect() -> Any:
    """With a server of its own, on any free port."""
    import spark_jvm
    from pyspark.sql import SparkSession

    import icecore

    spark_jvm.set_options()
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_TESTING="1")
    # Where the zone is not set, a task of a stream is not told what it is.
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    found = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
    icecore.spark.register(found)
    return found


SESSIONS = {"classic": _classic, "connect": _connect}


@contextmanager
def _session(kind: str | None) -> Iterator[Any]:
    """A local session; None where none is wanted."""
    if kind is None:
        yield None
        return
    found = SESSIONS[kind]()
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
        steps = steps_of(seed, a.steps, a.only, by_spark=a.spark is not None)
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
    options = f"{f' --only {a.only!r}' if a.only else ''}{f' --spark {a.spark}' if a.spark else ''}"
    print(f"\nfinding, --walk {out.seed} --steps {a.steps}{options}", flush=True)
    least = out if a.no_shrink else shrunk(jvm, out, spark)
    print("\n".join(least.said))
    print(least.finding, flush=True)


if __name__ == "__main__":
    sys.exit(main())
