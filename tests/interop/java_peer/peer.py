"""Asks Iceberg's own Java classes: compiles `Peer.java` against a runtime jar and talks to it in JSON lines.

No test needs it: they compare with the golden answers that `generate.py` writes by it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from attrs import frozen

SOURCE = Path(__file__).with_name("Peer.java")
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
"""Logging and Hadoop classes, which the runtime jar leaves to Spark."""


@frozen
class Peer:
    """A JVM that answers one question a line."""

    process: subprocess.Popen[str]

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """`{"ok": answer}`, or `{"error": message}` where Java throws."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask_all(self, questions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.ask(q) for q in questions]


@contextmanager
def java_peer(jar: Path) -> Iterator[Peer]:
    """A peer over an Iceberg Spark runtime jar, which has all classes that are needed; a JDK must be on PATH."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["javac", "-nowarn", "-cp", str(jar), "-d", folder, str(SOURCE)], check=True)
        logging = [*SPARK_JARS.glob("slf4j-api-*.jar"), *SPARK_JARS.glob("hadoop-client-*.jar")]
        path = ":".join(map(str, (jar, folder, *logging)))
        command = ["java", "-Xss8m", "-Xmx1g", "-cp", path, "org.apache.iceberg.Peer"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                yield Peer(process)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(timeout=30)
