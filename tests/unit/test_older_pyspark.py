"""PySpark 4.1, the newest one that Iceberg's own runtime is for: what it lacks beside later ones."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import MissingDependencyError

pytest.importorskip("pyspark")


def test_its_arrow_schemas_have_no_other_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import types as T
    from pyspark.sql.pandas import types as of_pyspark

    from icecore.engine.spark_source.shown_arrow import spark_arrow_schema

    struct = T.StructType().add("at", T.TimestampType()).add("ats", T.ArrayType(T.TimestampType()))
    now = spark_arrow_schema(struct)
    later = of_pyspark.to_arrow_schema

    def to_arrow_schema(schema: Any, error_on_duplicated_field_names_in_struct: bool = False) -> pa.Schema:
        return later(schema, timezone="UTC")

    monkeypatch.setattr(of_pyspark, "to_arrow_schema", to_arrow_schema)
    assert spark_arrow_schema(struct) == now
    assert now.field("at").type == pa.timestamp("us", "UTC")


def test_a_read_of_nothing_has_no_partition(catalog: icecore.Catalog) -> None:
    from icecore.engine.spark_source.iceberg_source import IcecoreSource

    catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
    for name in ("ns.t", "ns.t.files"):
        source = IcecoreSource({"warehouse": str(catalog.path), "path": name})
        reader = source.reader(source.schema())
        assert (reader.partitions(), list(reader.read(None))) == ([], [])


def test_a_stream_from_a_table_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "icecore.engine.spark_source.stream.stream_reader"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    with pytest.raises(MissingDependencyError, match=r"needs PySpark 4.2 or later: pip install 'pyspark>=4.2'"):
        __import__(name)
