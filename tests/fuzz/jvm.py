"""A JVM with Iceberg's classes that takes commands as JSON lines: its jars, how it is compiled, and how it is asked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

SOURCES = Path(__file__).with_name("java")
POM = SOURCES / "pom.xml"
CACHE = Path(__file__).parents[2] / ".fuzz"
TOOLS = ("java", "javac", "mvn")


class JavaUnavailable(Exception):
    """Java, its compiler, Maven or the jars can't be had here."""


class JavaError(Exception):
    """What Java threw: the class and message, then its trace."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


@frozen
class Jvm:
    """A running JVM."""

    process: subprocess.Popen[str]

    def ask(self, op: str, **fields: Any) -> Any:
        """What the command answers. Raises JavaError where Java throws."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise JavaError("the JVM has ended", "")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise JavaError(found["error"], found["trace"])
        return found["ok"]


@contextmanager
def running_jvm() -> Iterator[Jvm]:
    """Raises JavaUnavailable, saying what is missing."""
    jars = _jars()
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{_classes(jars)}:{jars}/*"]
    command += ["-Duser.timezone=UTC", "org.apache.iceberg.data.FuzzPeer"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Jvm(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


def _classes(jars: Path) -> Path:
    """The folder of the compiled peer, beside the jars; made again where a source, a jar or the compiler changed."""
    sources = sorted(SOURCES.glob("*.java"))
    version = subprocess.run(["javac", "-version"], capture_output=True, check=False).stdout
    known = hashlib.sha256(b"".join([version, jars.name.encode(), *(s.read_bytes() for s in sources)]))
    folder = CACHE / f"classes-{known.hexdigest()[:12]}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            options = ["-J-XX:TieredStopAtLevel=1", "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", f"{fresh}/made"]
            _run(["javac", *options, *map(str, sources)], "compiling the peer")
            if not folder.is_dir():
                os.rename(f"{fresh}/made", folder)
    return folder


def _jars() -> Path:
    """The folder of the jars that the pom names; Maven fetches them once."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise JavaUnavailable(f"needs {', '.join(TOOLS)}; not found: {', '.join(missing)}")
    folder = CACHE / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    if not folder.is_dir():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fresh}/jars"]
            _run(["mvn", "--quiet", "--batch-mode", "--file", str(POM), *goal], "fetching the jars by Maven")
            if not folder.is_dir():
                os.rename(f"{fresh}/jars", folder)
    return folder


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    except subprocess.TimeoutExpired:
        raise JavaUnavailable(f"{what} took too long") from None
    if done.returncode:
        raise JavaUnavailable(f"{what} failed: {(done.stdout + done.stderr).strip()[-2000:]}")
