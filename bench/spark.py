"""Spark over icecore, over Iceberg's own runtime and over plain Parquet, each in processes of its own, in turns.

usage: python bench/spark.py [--scale 0.01] [--rounds 2] [--only CASE...]

Iceberg's runtime comes from Maven, of the newest release there is for the PySpark that is installed; without it (or
without mvn) a line says so and the other two run. Times are seconds by the clock and of CPU, of the process and all
below it: the JVM and Python's workers. The first time of a case in a session is told from the best of those after it.
Cases that are not run keep what was measured of them before, with its scale; those that are run are saved one engine
after another, so that a failure takes nothing away that was measured before it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measure import RESULTS, save
from spark_cases import CASES, ENGINES, best
from spark_tables import make_tables

HERE = Path(__file__).parent


def runtime_jar() -> Path | None:
    """Iceberg's runtime for the installed Spark, or None after a line that says why there is none."""
    import pyspark

    release = ".".join(pyspark.__version__.split(".")[:2])
    artifact = f"iceberg-spark-runtime-{release}_2.13"
    fetch = ["mvn", "--quiet", "--batch-mode", "dependency:get", "-Dtransitive=false"]
    try:
        done = subprocess.run(
            [*fetch, f"-Dartifact=org.apache.iceberg:{artifact}:LATEST"], capture_output=True, check=False
        )
    except OSError as e:
        print(f"without Iceberg's runtime: {e}")
        return None
    folder = Path.home() / ".m2" / "repository" / "org" / "apache" / "iceberg" / artifact
    jars = sorted(folder.glob(f"*/{artifact}-*.jar"), key=_release)
    if done.returncode or not jars:
        print(f"without Iceberg's runtime: Maven has no {artifact}")
        return None
    return jars[-1]


def _release(jar: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in jar.parent.name.split(".") if part.isdigit())


def versions(jar: Path | None) -> dict[str, Any]:
    return {"pyspark": version("pyspark"), "iceberg": jar.parent.name if jar else None}


def before(jar: Path | None) -> dict[str, Any]:
    """The stored results by case, where they are of these versions."""
    path = RESULTS / "spark.json"
    found = json.loads(path.read_text())["results"] if path.is_file() else {}
    same = all(found.get(k) == v for k, v in versions(jar).items())
    cases: dict[str, Any] = found.get("cases", {}) if same else {}
    return cases


def run(engine: str, case: str, folder: Path, jar: Path | None) -> dict[str, Any]:
    """The results of a case that a process of its own measured."""
    command = [sys.executable, str(HERE / "spark_cases.py"), engine, case, str(folder), str(jar or "")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines(case: str, engine: str, found: dict[str, Any]) -> Iterator[str]:
    if "failed" in found:
        yield f"{case:10} {engine:10} failed: {found['failed']}"
        return
    for name, of in found.items():
        times = ", ".join(f"{k} {v['wall_s']:.2f} / {v['cpu_s']:.2f}" for k, v in of.items() if isinstance(v, dict))
        yield f"{case:10} {engine:10} {name:34} {times}  {of.get('answer', '')}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--only", nargs="*", default=list(CASES))
    given = options.parse_args()
    jar = runtime_jar()
    engines = [e for e in ENGINES if e != "iceberg" or jar]
    results = before(jar)
    with tempfile.TemporaryDirectory(prefix="icecore-bench-") as folder:
        make_tables(Path(folder), given.scale, given.only)
        for case in given.only:
            kept: dict[str, Any] = {"scale": given.scale}
            results[case] = kept
            for round_ in range(given.rounds):
                for engine in engines if round_ % 2 == 0 else engines[::-1]:
                    found = run(engine, case, Path(folder), jar)
                    kept[engine] = best(kept[engine], found) if engine in kept else found
                    save("spark", versions(jar) | {"cases": {c: results[c] for c in CASES if c in results}})
            for engine in engines:
                print("\n".join(lines(case, engine, kept[engine])), flush=True)


if __name__ == "__main__":
    main()
