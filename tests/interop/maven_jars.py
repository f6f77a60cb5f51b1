"""The class path of a pom.xml, whose jars Maven fetches once into its own folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

MOST_S = 400


def class_path(pom: Path, out: Path) -> str:
    """The jars of a pom, by way of the file `out`; skips where Java, Maven or what it fetches from is missing."""
    if missing := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"no {' and no '.join(missing)}")
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={out}"]
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), *goal]
    try:
        subprocess.run(command, check=True, timeout=MOST_S, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        pytest.skip(f"Maven fetches no jars: {(e.stdout or b'').decode()[-300:]}")
    return out.read_text().strip()
