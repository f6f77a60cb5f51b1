"""Each rule finds the table that is broken its way, and passes the healthy ones; nothing that it finds stops others."""

from __future__ import annotations

import math
import shutil
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from broken_tables import (
    BROKEN,
    MERGE_ON_READ,
    Record,
    edit,
    edit_manifest,
    healthy,
    list_of,
    make_all,
    named,
    register,
    unreadable,
    with_deletes,
)
from core_tables import SCHEMA, local, make_table, rows, store_of

import icecore
from icecore.engine.errors import CorruptFileError, MovedWarehouseWarning
from icecore.engine.formats import event_content
from icecore.engine.spec.reserved import DELETE_PATH_ID
from icecore.projections.audit.rules.audit_findings import Audit, AuditFinding
from icecore.projections.audit.rules.rule import Scope, Severity
from icecore.projections.audit.rules.rule_files import own_rules


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    folder = tmp_path_factory.mktemp("rules")
    with icecore.open(folder / "theirs") as theirs, icecore.open(folder / "ours") as ours:
        make_all(ours, theirs)
        yield ours


@pytest.fixture(scope="module")
def found(ours: icecore.Catalog) -> Audit:
    return ours.audit()


def of(found: Audit, rule: str) -> list[AuditFinding]:
    return [f for f in found.findings if f.rule == rule]


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_finds_the_table_that_is_broken_its_way(found: Audit, rule: str) -> None:
    """And no healthy one, nor one that is broken another way."""
    findings = of(found, rule)
    assert {f.table for f in findings} == {f"ns.{named(rule)}"}, found
    for f in findings:
        assert f.severity is own_rules()[rule].severity and f.mend == own_rules()[rule].mend
        assert f.subject and f.message and f.table_uuid


def test_each_rule_is_broken_somewhere(found: Audit) -> None:
    """Here, or in one of the tests below."""
    below = {"damaged-files", "unreadable-tables"}
    assert {r.id for r in own_rules().values() if r.scope is not Scope.WAREHOUSE} == BROKEN.keys() | below
    assert {f.rule for f in found.findings} == BROKEN.keys()


def test_a_table_that_cant_be_read_keeps_no_other_from_being_told_of(catalog: icecore.Catalog, tmp_path: Path) -> None:
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        unreadable(catalog, theirs, "unreadable")
        BROKEN["missing-files"](catalog, theirs, "other")
    found = catalog.audit()
    assert {(f.rule, f.table) for f in found.findings} == {
        ("damaged-files", "ns.unreadable"),
        ("unreadable-tables", "ns.unreadable"),
        ("missing-files", "ns.other"),
    }


def test_a_table_that_cant_be_read_says_what_its_list_has_wrong(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Not with the number alone that Python names: one of a partition spec that is none."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = healthy(theirs, "t")
        edit(list_of(table), lambda listed: listed[0].update(partition_spec_id=7))
        register(catalog, table, "t")
    for rules in (["unreadable-tables"], None):
        [found] = of(catalog.audit(rules=rules), "unreadable-tables")
        assert "partition spec 7" in found.message and "KeyError" not in found.message


def test_secrets_and_personal_data_are_not_told_again(found: Audit) -> None:
    said = "".join(f"{f.message} {f.subject} {dict(f.row)}" for f in found.findings)
    assert "hunter2" not in said and "zoe@" not in said
    assert "example.org" not in said


def test_settings_of_columns_and_switches_are_no_secrets(catalog: icecore.Catalog) -> None:
    """Whatever the columns are called, such as those whose bounds are left out for personal data's sake."""
    settings = {
        "write.metadata.metrics.column.password": "none",
        "write.parquet.bloom-filter-fpp.column.access_token": "0.01",
        "oauth.token-refresh-enabled": "TRUE",
    }
    table = catalog.create_table("ns.t", pa.schema([("password", pa.string())]), properties=settings)
    table.set_properties({"write.metadata.metrics.column.password": "counts", "oauth.token-refresh-enabled": "false"})
    assert catalog.audit(rules=["secrets", "secrets-in-log"]).findings == ()
    table.set_properties({"store.column.url": "https://x.org/?token=abcd", "password.column.x": "hunter2"})
    found = catalog.audit(rules=["secrets"]).findings
    assert sorted(f.subject for f in found) == ["password.column.x", "store.column.url"]


def test_secrets_that_were_are_found_until_they_are_forgotten(catalog: icecore.Catalog) -> None:
    """Of tables, views and namespaces, also of those that are gone; the rule's mend ends its finding."""
    table = make_table(catalog, properties={"jdbc": "pg://x?password=hunter2a"})
    table.remove_properties("jdbc")
    view = catalog.create_view("ns.v", "SELECT 1 AS a", properties={"api.key": "hunter2b", "x": "1"})
    view.set_properties({"api.key": "hunter2c"})
    view.remove_properties("api.key")
    catalog.create_namespace("gone", {"db.password": "hunter2d"})
    catalog.drop_namespace("gone")
    catalog.create_namespace("kept", {"db.password": "hunter2e"})
    catalog.update_namespace_properties("kept", updates={"db.password": "hunter2f"})
    found = catalog.audit(rules=["secrets", "secrets-in-log"]).findings
    assert [(f.rule, f.table, f.subject) for f in found] == [
        ("secrets", None, "namespace kept db.password"),
        ("secrets-in-log", None, "namespace gone db.password"),
        ("secrets-in-log", None, "namespace kept db.password"),
        ("secrets-in-log", None, "view ns.v api.key"),
        ("secrets-in-log", "ns.t", "jdbc"),
    ]
    for last in "abcde":
        catalog.forget_text(f"hunter2{last}")
    assert [f.rule for f in catalog.audit(rules=["secrets", "secrets-in-log"]).findings] == ["secrets"]


def test_the_findings_of_some_rules_of_some_tables(ours: icecore.Catalog, found: Audit) -> None:
    """Are the same as those of all, and nothing is told of other tables."""
    chosen = ours.audit(
        rules=["secrets", "shared-folders", "log-health"], tables=["ns.secrets", ("ns", "shared_folders")]
    )
    assert {(f.rule, f.table) for f in chosen.findings} == {
        ("secrets", "ns.secrets"),
        ("shared-folders", "ns.shared_folders"),
    }
    assert set(chosen.findings) <= set(found.findings)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_loads_that_came_twice_are_told_by_position_until_they_are_undone(
    catalog: icecore.Catalog, tmp_path: Path, version: int
) -> None:
    """Of another engine's snapshots, which came by one event, by their ids. Files of one value are no such load."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = theirs.create_table("ns.t", SCHEMA, format_version=version)
        for ids in ((1,), (1,), (2, 3), (3, 4)):
            table.append(rows(*ids), message="loaded")
        assert theirs.audit(rules=["loaded-twice"]).findings == ()
        table = theirs.create_table("ns.u", SCHEMA, format_version=version)
        for ids in ((1, 2), (5, 6), (1, 2), (1, 2)):
            table.append(rows(*ids), message="loaded")
        last = theirs.position
        register(catalog, table, "u")
        [told] = theirs.audit(rules=["loaded-twice"]).findings
        positions = [f"position {last - n}" for n in (3, 1, 0)]
        assert (told.subject, told.row["commits"]) == (positions[0], positions)
        [told] = catalog.audit(rules=["loaded-twice"]).findings
        snapshots = table.metadata.snapshots
        assert told.row["commits"] == [f"snapshot {snapshots[n].snapshot_id}" for n in (0, 2, 3)]
        for position in (last, last - 1):
            theirs.revert(position)
        assert theirs.audit(rules=["loaded-twice"]).findings == ()


def test_summaries_of_uuids_may_be_in_java_s_order(tmp_path: Path) -> None:
    """To Java, which takes them for two signed longs, the last one is the first; plans take both orders."""
    first, last = bytes(16), b"\xff" * 16

    def found(theirs: icecore.Catalog, ours: icecore.Catalog, lower: bytes, upper: bytes) -> int:
        table = theirs.create_or_replace_table("ns.t", pa.schema([("u", pa.uuid())]), partition_spec=["u"])
        table.append([{"u": uuid.UUID(bytes=first)}, {"u": uuid.UUID(bytes=last)}])
        edit(list_of(table), lambda m: m[0]["partitions"][0].update(lower_bound=lower, upper_bound=upper))
        register(ours, table, f"t_{upper[0]}")
        return len(ours.audit(rules=["manifest-summaries"], tables=[("ns", f"t_{upper[0]}")]).findings)

    with icecore.open(tmp_path / "theirs") as theirs, icecore.open(tmp_path / "ours") as ours:
        theirs.create_namespace("ns")
        ours.create_namespace("ns")
        assert found(theirs, ours, last, first) == 0
        assert found(theirs, ours, first, b"\x7f" * 16) == 1


@pytest.mark.parametrize("lower", [1.0, math.nan])
def test_summaries_of_writers_that_took_nan_for_the_greatest_hold(
    catalog: icecore.Catalog, tmp_path: Path, lower: float
) -> None:
    """As Iceberg Java did before summaries had `contains_nan`: plans rule out nothing by such a bound."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = theirs.create_table("ns.t", pa.schema([("x", pa.float64())]), partition_spec=["x"])
        table.append([{"x": 1.0}, {"x": math.nan}])
        bounds = {"lower_bound": struct.pack("<d", lower), "upper_bound": struct.pack("<d", math.nan)}
        edit(list_of(table), lambda listed: listed[0]["partitions"][0].update(bounds, contains_nan=None))
        table = register(catalog, table, "t")
    assert [table.scan(f).count() for f in ("x = 1", "isnan(x)", "x < 2", "x > 7")] == [1, 1, 1, 1]
    assert catalog.audit(rules=["manifest-summaries"]).findings == ()


def test_deletes_of_a_file_that_their_bounds_name_are_dangling(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Where the file is gone, and not where it is spelled otherwise; the mend ends it."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        for name in ("gone", "there"):
            table = with_deletes(theirs, name, 2)

            def name_by_bounds(entries: list[Record], gone: bool = name == "gone") -> None:
                for file in (e["data_file"] for e in entries):
                    path = (
                        "file:///gone.parquet" if gone else file["referenced_data_file"].replace("file:///", "file:/")
                    )
                    bound = [{"key": DELETE_PATH_ID, "value": path.encode()}]
                    file.update(referenced_data_file=None, lower_bounds=bound, upper_bounds=bound)

            edit_manifest(table, 1, name_by_bounds)
            register(catalog, table, name)
    tables = {name: catalog.load_table(("ns", name)) for name in ("gone", "there")}
    assert [tables[name].scan().count() for name in ("gone", "there")] == [20, 18]
    [found] = catalog.audit(rules=["dangling-deletes"]).findings
    assert found.table == "ns.gone" and found.row["delete_files"] == 2
    assert tables["gone"].remove_dangling_deletes().removed_delete_files == 2
    assert catalog.audit(rules=["dangling-deletes"]).findings == ()


def test_what_a_later_list_says_of_a_manifest_is_looked_at(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """That of the snapshot which brought it is right; scans go by that of the current one, and lose rows."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = healthy(theirs, "t")
        bound = (100).to_bytes(8, "little")
        wrong = {"lower_bound": bound, "upper_bound": bound}
        edit(list_of(table), lambda listed: [r["partitions"][0].update(wrong) for r in listed])
        table = register(catalog, table, "t")
    assert (table.scan("id < 10").count(), table.scan().count()) == (0, 20)
    [found] = catalog.audit(rules=["manifest-summaries"]).findings
    assert found.table == "ns.t"
    told = catalog.sql("SELECT summaries_hold FROM manifest_contents ORDER BY ALL")["summaries_hold"].to_pylist()
    assert told == [False, True, True]


@pytest.mark.parametrize("content", [0, 1])
@pytest.mark.parametrize("is_one", [True, False])
@pytest.mark.parametrize("change", [{"added_rows_count": 99}, {"added_files_count": 0}, {"partitions": 8}])
def test_what_is_said_to_mend_a_list_does(
    catalog: icecore.Catalog, tmp_path: Path, change: dict[str, int], is_one: bool, content: int
) -> None:
    """Also of a single manifest, and rows that a list hid are there again; of what other snapshots have, by expiry."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = make_table(theirs, "t", partition_spec=["truncate(100, id)"], properties=MERGE_ON_READ)
        for first in [100] if is_one else [100, 0]:
            table.append(rows(*range(first, first + 10)))
        if content:
            table.delete("id = 103")

        def break_one(listed: list[Record]) -> None:
            record = [r for r in listed if r["content"] == content][-1]
            bound = (0).to_bytes(8)
            wrong = {"lower_bound": bound, "upper_bound": bound}
            record.update({"partitions": [record["partitions"][0] | wrong]} if "partitions" in change else change)

        edit(list_of(table), break_one)
        table = register(catalog, table, "t")
    [rule] = {f.rule for f in catalog.audit(rules=["manifest-counts", "manifest-summaries"]).findings}
    assert rule == ("manifest-summaries" if "partitions" in change else "manifest-counts")
    table.rewrite_manifests()
    if content:
        table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"})
    assert not content or rule in {f.rule for f in catalog.audit(rules=[rule]).findings}
    table.maintenance.expire_snapshots().older_than(2**53).commit()
    assert catalog.audit(rules=[rule]).findings == ()
    is_lost = content and "added_files_count" in change
    assert table.scan().count() == (10 if is_one else 20) - (content and not is_lost)
    assert table.scan("id >= 100").count() == 10 - (content and not is_lost)
    if not content:
        last = catalog.position
        table.rewrite_manifests()
        assert catalog.position == last, "it is clean"


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("change", [{"contains_nan": False}, {"added_files_count": 0, "existing_files_count": 2}])
def test_a_single_manifest_is_rewritten_for_all_that_audits_tell_of_it(
    catalog: icecore.Catalog, tmp_path: Path, change: dict[str, int], version: int
) -> None:
    """NaNs that a list hid, whose rows are there again, and statuses whose counts are wrong but not their sum."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
        table = theirs.create_table("ns.t", schema, partition_spec=["x"], format_version=version)
        table.append([{"id": 1, "x": 1.0}, {"id": 2, "x": math.nan}])
        edit(
            list_of(table),
            lambda rows: (rows[0]["partitions"][0] if "contains_nan" in change else rows[0]).update(change),
        )
        table = register(catalog, table, "t")
    fields = ("id", "_row_id", "_last_updated_sequence_number") if version == 3 else ("id",)
    read = table.scan(selected_fields=fields).to_arrow().sort_by("id")
    rules = ["manifest-counts", "manifest-summaries", "sequence-numbers"]
    assert catalog.audit(rules=rules).findings
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(2**53).commit()
    assert catalog.audit(rules=rules).findings == ()
    assert table.scan("isnan(x)").count() == 1
    assert table.scan(selected_fields=fields).to_arrow().sort_by("id") == read
    last = catalog.position
    table.rewrite_manifests()
    assert catalog.position == last, "it is clean"


def test_what_is_said_to_mend_a_file_with_two_vectors_does(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """The vector that a branch has of the same file is put beside that of main."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = with_deletes(theirs, "t", 3)
        table.append(rows(500))
        table.manage_snapshots().create_branch(table.snapshots()[1].snapshot_id, "side").commit()
        table.delete("id = 4", branch="side")
        side = table.metadata.snapshot_by_ref("side")
        assert side is not None
        others: list[Record] = []
        edit(local(side.manifest_list), lambda listed: others.extend(r for r in listed if r["content"] == 1))
        edit(list_of(table), lambda listed: listed.extend(others))
        table = register(catalog, table, "t")
    [found] = catalog.audit(rules=["several-deletion-vectors"]).findings
    with pytest.raises(CorruptFileError, match="2 deletion vectors"):
        table.delete("id = 5")
    table.overwrite_files([found.row["referenced_data_file"]])
    assert catalog.audit(rules=["several-deletion-vectors"]).findings == ()
    table.append(rows(0, 1, 2, 5, 6, 7, 8, 9))
    assert table.scan().count() == 18


def test_a_warehouse_that_was_copied_is_found(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        healthy(catalog, "t")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with pytest.warns(MovedWarehouseWarning), icecore.open(tmp_path / "copy") as copy:
        assert [(f.rule, f.table) for f in copy.audit().findings] == [("warehouse-elsewhere", None)]


def test_a_log_that_was_changed_is_found(catalog: icecore.Catalog) -> None:
    healthy(catalog, "t")
    connection = store_of(catalog).connection()
    connection.execute("DROP TRIGGER event_is_append_only_update")
    connection.execute("UPDATE event SET actor = 'nobody' WHERE position = 2")
    (finding,) = catalog.audit(rules=["log-health"]).findings
    assert finding.severity is Severity.ERROR and finding.table is None
    assert finding.message.startswith("hash chain: position 2")


def test_files_of_a_commit_are_decoded_once(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all rules together, and to compare the log with what follows from it."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append([{"id": number}])
    catalog._warehouse.repository.entries.forget()
    decoded: list[int] = []
    decode = event_content.decode_content

    def counted(data: bytes, position: int) -> pa.Table:
        decoded.append(position)
        return decode(data, position)

    monkeypatch.setattr(event_content, "decode_content", counted)
    catalog.audit()
    assert sorted(decoded) == [3, 4, 5]
