from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from core_tables import pyiceberg_catalog
from pyiceberg.catalog.sql import SqlCatalog

import icecore


@pytest.fixture(scope="module")
def named_lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A catalog with a namespace `ns` that the session has as `lake`."""
    with icecore.open(tmp_path_factory.mktemp("named") / "lake", actor="test") as catalog:
        catalog.create_namespace("ns")
        icecore.spark.catalog(spark, catalog)
        yield catalog


@pytest.fixture(params=["true", "false"], ids=["planned-files", "public-api"])
def either_way(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session, reading by a relation of the planned files, and as it would in Spark Connect."""
    key = "spark.icecore.plannedFiles.enabled"
    spark.conf.set(key, request.param)
    yield spark
    spark.conf.unset(key)


@pytest.fixture
def peer(catalog: icecore.Catalog) -> Iterator[SqlCatalog]:
    """PyIceberg's catalog on the same file."""
    made = pyiceberg_catalog(catalog.path)
    yield made
    made.close()
