"""The sessions of Spark that all tests share: one in this process, and one over Spark Connect in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import spark_jvm

CONNECT_SERVER = """
import os
import sys
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder

small = {"spark.ui.enabled": "false", "spark.buffer.pageSize": "1m", "spark.sql.shuffle.partitions": "4"}
spark = SparkSession.builder.remote("local[2]").config(map=small).getOrCreate()
print("ready", DefaultChannelBuilder.default_port(), os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"], flush=True)
sys.stdin.read()
spark.stop()
"""


CONNECT_CLIENT = """
import json
import os
import sys
import traceback

for line in sys.stdin:
    script, sys.argv[1:], folder = json.loads(line)
    os.chdir(folder)
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    print("ended", flush=True)
"""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for all tests; skips where PySpark or Java is missing."""
    pytest.importorskip("pyspark")
    from icecore.engine.spark.java import java_available
    from icecore.spark import session

    if not java_available():
        pytest.skip("no Java 17 or later")
    spark_jvm.remember_classes()
    # Where each function of a Column was called is noted for messages of errors, by six calls of the JVM. The hash
    # table of a broadcast join takes a page, of 64 MB else, and stays as long as Python knows the DataFrame.
    quick = {"spark.python.sql.dataFrameDebugging.enabled": "false", "spark.buffer.pageSize": "1m"}
    # Each query is described for a UI that there is not: in full, for a tenth of the JVM's time.
    quick |= {"spark.sql.ui.explainMode": "simple", "spark.sql.codegen.cache.maxEntries": "2000"}
    started = session("icecore-tests", spark__sql__shuffle__partitions=4, **quick)
    # Another test of this process may have left one, which is this one then.
    started.conf.set("spark.sql.shuffle.partitions", "4")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which clients find one Spark Connect server, on a port that was free and without settings."""
    pytest.importorskip("pyspark")
    for module in ("grpc", "grpc_status", "google.rpc"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("connect")
    # With SPARK_TESTING the server takes any free port.
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    command = [sys.executable, "-c", CONNECT_SERVER]
    pipe = subprocess.PIPE
    with (folder / "errors").open("w") as errors:
        server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=env, cwd=folder, text=True)
    assert server.stdout is not None
    said = next((line.split() for line in server.stdout if line.startswith("ready ")), [])
    assert said, (folder / "errors").read_text()
    yield {"SPARK_REMOTE": f"sc://localhost:{said[1]}", "SPARK_CONNECT_AUTHENTICATE_TOKEN": said[2]}
    server.communicate(timeout=600)


@pytest.fixture(scope="session")
def connect_client(
    connect_server: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """One process for all scripts, since a process has Connect sessions or classic ones; it ends by itself."""
    errors, pipe = tmp_path_factory.mktemp("client") / "errors", subprocess.PIPE
    command, env = [sys.executable, "-c", CONNECT_CLIENT], {**os.environ, **connect_server}
    with errors.open("w") as file:
        client = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=file, env=env, text=True)
    yield client
    # A session that was never stopped keeps no Python from ending.
    client.communicate(timeout=600)
    assert client.returncode == 0, errors.read_text()


@pytest.fixture
def over_connect(connect_client: subprocess.Popen[str], tmp_path: Path) -> Callable[..., None]:
    """Runs a script, which says `done` at its end, in a folder of its own."""

    def run(script: str, *arguments: object) -> None:
        assert connect_client.stdin is not None and connect_client.stdout is not None
        print(json.dumps([script, [str(a) for a in arguments], str(tmp_path)]), file=connect_client.stdin, flush=True)
        said = []
        for line in connect_client.stdout:
            if line == "ended\n":
                break
            said.append(line.strip())
        assert "done" in said, "\n".join(said)

    return run
