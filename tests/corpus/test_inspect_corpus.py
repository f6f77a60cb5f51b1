"""Metadata tables of real tables of other writers, equal to what PyIceberg's `inspect` says of them.

Every method of every table of the corpus that PyIceberg can read; the corpus is that of `test_corpus.py`. What differs,
and why, is in `DIFFERENT` and in the functions that make rows comparable.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ResolveError
from pyiceberg.exceptions import ValidationError as PeerValidationError
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table as PeerTable
from test_corpus import CORPUS, entries, load_tool

import icecore

OF_METADATA = ("snapshots", "history", "refs", "metadata_log_entries")
OF_MANIFESTS = ("manifests", "all_manifests", "entries", "files", "all_files", "partitions")
OF_LARGE = ("manifests", "all_files")
BY_CONTENT = ("data_files", "delete_files", "all_data_files", "all_delete_files")
"""Asked of tables with deletes: without any they are all files, or none."""
DELETES = 1
DIFFERENT = {
    ("impala/iceberg_alltypes_part", "partition"): (
        "the manifest has 2.222 as a double, which PyIceberg rounds to a float"
    ),
    ("iceberg-cxx/dangling_deletes", "partitions"): (
        "PyIceberg leaves out deletes that are older than all data; Java counts them"
    ),
    ("iceberg-cxx/v_20240913_migrated", "partitions"): (
        "PyIceberg adds up equal partitions of two specs; Java has a row for each spec"
    ),
    ("pg_lake/spark_generated_iceberg_test_2", "partitions"): (
        "a file that was deleted updates its partition in Java, not in PyIceberg"
    ),
}
LARGE = {
    "iceberg-cxx/perf_manifest_entries",
    "iceberg-cxx/perf_snapshots",
    "iceberg-cxx/perf_schemas",
    "duckdb-iceberg/generated_bounds",
}
"""Tables of which PyIceberg takes seconds for each method: the others only choose among the rows of these."""
ELSEWHERE = {"dremio/metastore_table": "its manifests are on S3, and a test tries no network"}
"""Tables that PyIceberg and we read the metadata of only."""


class MappedFileIO(PyArrowFileIO):  # type: ignore[misc]  # PyIceberg has no types here
    """Files of a table that was copied to another folder."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        super().__init__({})
        self.mapping = mapping

    def new_input(self, location: str) -> InputFile:
        for prefix in sorted(self.mapping, key=len, reverse=True):
            if location == prefix or location.startswith(prefix.rstrip("/") + "/"):
                return super().new_input(self.mapping[prefix] + location[len(prefix.rstrip("/")) :])
        return super().new_input(location)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """One warehouse, with which all tables are registered in turn."""
    with icecore.open(tmp_path_factory.mktemp("inspected")) as made:
        made.create_namespace("ns")
        yield made


@pytest.mark.parametrize("entry", [p for p in entries() if not p.values[0] or p.values[0]["kind"] == "table"])
def test_metadata_tables_equal_pyiceberg_s(catalog: icecore.Catalog, entry: dict[str, Any]) -> None:
    plan_file = entry["expected"].get("plan_file")
    plan = json.loads((CORPUS / plan_file).read_text()) if plan_file else None
    mapping = load_tool().location_mapping(entry, CORPUS.resolve(), plan)
    location = str(CORPUS.resolve() / entry["metadata_location_relative"])
    io = MappedFileIO(mapping)
    try:
        metadata = FromInputFile.table_metadata(io.new_input(location))
    except (ValueError, PeerValidationError) as e:
        pytest.skip(f"PyIceberg can't read it: {str(e).splitlines()[-1]}")
    peer = PeerTable(("ns", "t"), metadata, location, io, NoopCatalog("peer"))
    table = catalog.register_table("ns.t", location, location_mapping=mapping)
    try:
        for method, theirs in answers_of(peer, entry["id"]):
            if theirs is not None:
                assert_same(entry["id"], method, theirs, getattr(table.inspect, method)())
    finally:
        catalog.drop_table("ns.t")


def answers_of(peer: PeerTable, name: str) -> Iterator[tuple[str, pa.Table | None]]:
    """PyIceberg's answers, by the methods that are asked of this table."""
    methods = OF_METADATA if name in ELSEWHERE else (*OF_METADATA, *(OF_LARGE if name in LARGE else OF_MANIFESTS))
    answers = {method: answer_of(peer, method) for method in methods}
    yield from answers.items()
    listed = answers.get("all_manifests")
    is_without_deletes = listed is not None and DELETES not in listed["content"].to_pylist()
    if not (name in ELSEWHERE or name in LARGE or is_without_deletes):
        yield from ((method, answer_of(peer, method)) for method in BY_CONTENT)


def answer_of(peer: PeerTable, method: str) -> pa.Table | None:
    """PyIceberg's answer; None where it has none: files are missing, counts of v1, ids of 64 bits, UUIDs in structs."""
    try:
        found = getattr(peer.inspect, method)()
        found.to_pylist()
    except (OSError, ValueError, TypeError, OverflowError, pa.ArrowException, PeerValidationError, ResolveError):
        return None
    return found


def assert_same(table: str, method: str, theirs: pa.Table, ours: pa.Table) -> None:
    """Asserts that they have the same rows in PyIceberg's columns, in any order, and its types of columns."""
    if (table, method) in DIFFERENT:
        return
    for name in theirs.column_names:
        if name not in ("data_file", "readable_metrics", "partition"):
            assert ours.schema.field(name).type == theirs.schema.field(name).type, f"{method}.{name}"
    of_theirs = [comparable(table, r) for r in theirs.to_pylist()]
    of_ours = [comparable(table, r) for r in ours.select(theirs.column_names).to_pylist()]
    known = [known_to(a, b) for a, b in zip(sorted(of_theirs, key=key), sorted(of_ours, key=key), strict=True)]
    for their_row, our_row in known:
        assert our_row == their_row, method


def key(row: dict[str, Any]) -> str:
    """What tells a row from others of its table."""
    file = row.get("data_file") or row
    names = ("file_path", "path", "file", "snapshot_id", "status", "spec_id", "reference_snapshot_id", "name")
    return repr([row.get(n, file.get(n)) for n in names] + [file.get("partition"), file.get("record_count")])


def known_to(theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both rows without what only one has.

    An entry of ours has all of Java's columns. Of a struct PyIceberg has metrics that are always null, where we have
    those of the fields inside, by their full names, as Java has.
    """
    for name in ("data_file", "readable_metrics"):
        if theirs.get(name) is not None:
            shared = theirs[name].keys() & ours[name].keys()
            theirs = {**theirs, name: {k: theirs[name][k] for k in shared}}
            ours = {**ours, name: {k: ours[name][k] for k in shared}}
    return theirs, ours


def comparable(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row in which the same things are said the same way.

    PyIceberg makes a text of a missing operation, and an empty map of missing counts in entries (in `files` it does
    not); a time with whole seconds has no fraction; a metadata file is named as it was opened.
    """
    found: dict[str, Any] = {k: plain(v) for k, v in row.items()}
    if found.get("operation") == "None":
        found["operation"] = None
    if "file" in found:
        found["file"] = found["file"].removeprefix("file://")
    for file in (found, found.get("data_file")):
        if file is not None and (table, "partition") in DIFFERENT:
            file.pop("partition", None)
    if found.get("data_file") is not None:
        found["data_file"] = {k: None if v == [] else v for k, v in found["data_file"].items()}
    for summary in found.get("partition_summaries") or ():
        for bound in ("lower_bound", "upper_bound"):
            summary[bound] = summary[bound] and re.sub(r"(:\d\d)\.000000(?=$|\+)", r"\1", summary[bound])
    return found


def plain(value: Any) -> Any:
    """A value whose parts compare by what they are: maps in any order, NaN equal to itself."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return sorted(value) if value and isinstance(value[0], tuple) else [plain(v) for v in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def test_every_difference_is_of_a_table_that_is_there() -> None:
    ids = {p.id for p in entries()}
    if ids == {"no corpus"}:
        pytest.skip(f"no corpus at {CORPUS}; set ICECORE_CORPUS")
    assert {table for table, _ in DIFFERENT} | ELSEWHERE.keys() | LARGE <= ids
