"""Rules over real tables of other writers, of the corpus of `test_corpus.py`: errors only where something is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_corpus import CORPUS, entries, load_tool

import icecore
from icecore.projections.audit.rules.rule import Severity

HEALTHY = {
    "duckdb-iceberg/uuid",
    "duckdb-iceberg/legacy_v1",
    "impala/iceberg_v2_no_deletes_orc",
    "impala/iceberg_timestamp_part",
    "iceberg-cxx/all_spark_types",
    "iceberg-cxx/partitioned_table",
    "pg_lake/v3_partitioned_identity",
    "pg_lake/v3_primitives",
    "dremio/nation",
    "glaredb/tables-v2_lineitem_simple",
    "glaredb/tables-v1_lineitem_simple",
    "icebird/rename_column",
    "unitycatalog/marksheet_uniform",
    "iceberg-java/test-table",
    "pyiceberg/tests_warehouse_target",
    "icelake/simple_table",
}
"""A few tables of each writer, whose files are as they were written."""
DAMAGED = {
    "duckdb-iceberg/test_nulls": "file-sizes",
    "impala/iceberg_v2_null_delete_record": "manifest-counts",
}
"""Tables that somebody edited, by what a rule finds."""


def test_errors_are_of_tables_that_are_broken(tmp_path: Path) -> None:
    chosen = {p.id: p.values[0] for p in entries() if p.id in {*HEALTHY, *DAMAGED}}
    if not chosen:
        pytest.skip(f"no corpus at {CORPUS}; set ICECORE_CORPUS")
    tool, names = load_tool(), {}
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        for number, (name, entry) in enumerate(chosen.items()):
            mapping = tool.location_mapping(entry, CORPUS.resolve(), None)
            metadata = str(CORPUS.resolve() / entry["metadata_location_relative"])
            catalog.register_table(f"ns.t{number}", metadata, location_mapping=mapping)
            names[f"ns.t{number}"] = name
        found = catalog.audit()
    errors = {(names[str(f.table)], f.rule) for f in found.findings if f.severity is Severity.ERROR}
    assert errors >= set(DAMAGED.items())
    assert {name for name, _ in errors} == DAMAGED.keys()
