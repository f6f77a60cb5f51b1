from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for all tests; skips where PySpark or Java is missing."""
    pytest.importorskip("pyspark")
    from icecore.engine.spark.java import java_available
    from icecore.spark import session

    if not java_available():
        pytest.skip("no Java 17 or later")
    started = session("icecore-tests", spark__sql__shuffle__partitions=4)
    # Another test of this process may have left one, which is this one then.
    started.conf.set("spark.sql.shuffle.partitions", "4")
    yield started
    started.stop()


@pytest.fixture(params=["true", "false"], ids=["planned-files", "public-api"])
def either_way(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session, reading by a relation of the planned files, and as it would in Spark Connect."""
    key = "spark.icecore.plannedFiles.enabled"
    spark.conf.set(key, request.param)
    yield spark
    spark.conf.unset(key)
