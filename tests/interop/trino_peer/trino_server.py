"""Trino's own server in a JVM, asked over its HTTP protocol."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

FOLDER = Path(__file__).parent
MIN_JAVA_VERSION = 25


@frozen
class Trino:
    """A client of a running server."""

    uri: str

    def sql(self, text: str, user: str = "ann") -> list[Any]:
        """The rows of a statement; raises AssertionError with what Trino says of one that fails."""
        # Without the capability times are cut to milliseconds.
        headers = {"X-Trino-User": user, "X-Trino-Time-Zone": "UTC"}
        headers["X-Trino-Client-Capabilities"] = "PARAMETRIC_DATETIME"
        request = urllib.request.Request(f"{self.uri}/v1/statement", text.encode(), headers)
        found: list[Any] = []
        while True:
            with urllib.request.urlopen(request, timeout=60) as answer:
                page = json.load(answer)
            assert "error" not in page, f"{page['error']['message']}: {text}"
            found += page.get("data", [])
            if "nextUri" not in page:
                return found
            request = urllib.request.Request(page["nextUri"], headers=headers)


def java_25() -> Path | None:
    """A `java` that Trino runs on: of JAVA_HOME, PATH or where Debian has its own; None where there is none.

    The server is a source file, so one without a compiler is none.
    """
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    known = [*([Path(home, "bin", "java")] if home else []), *([Path(on_path)] if on_path else [])]
    for java in [*known, *sorted(Path("/usr/lib/jvm").glob("*/bin/java"))]:
        with contextlib.suppress(OSError):
            said = subprocess.run(
                [java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False
            ).stdout
            found = re.search(r"^jdk\.compiler@(\d+)", said, re.MULTILINE)
            if found is not None and int(found[1]) >= MIN_JAVA_VERSION:
                return java
    return None


@contextlib.contextmanager
def trino_server(java: Path, class_path: str, log: Path) -> Iterator[Trino]:
    """A server as long as the block, over the jars of `pom.xml`; `log` is a file for what it says."""
    # The server is short-lived, so quick compiling costs least.
    command: list[str | Path] = [
        java,
        "-Xmx2g",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "--add-modules",
        "jdk.incubator.vector",
    ]
    command += ["-cp", class_path, FOLDER / "TrinoServer.java"]
    # Its logging takes over what is printed.
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, text=True, cwd=log.parent
        )
    try:
        yield Trino(_ready(process, log))
    finally:
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()


def _ready(process: subprocess.Popen[str], log: Path) -> str:
    """The address that the server says; raises AssertionError with what it said where it ends, or says none."""
    for _ in range(1800):
        if (found := re.search(r"ready (http://[\d.:]+)", log.read_text())) is not None:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.terminate()
    raise AssertionError(log.read_text()[-3000:])
