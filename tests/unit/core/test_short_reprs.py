"""Every public object shows itself in at most 500 characters, whatever it holds, and tables and scans as HTML too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.engine.common.text import MOST_OF_A_REPR
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat

FILTER = " OR ".join(f"column_1 = '{n}'" for n in range(300))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A warehouse with a table of 60 columns, 300 files and 60 properties, and a wide view."""
    with icecore.open(tmp_path_factory.mktemp("wide"), actor="ann") as catalog:
        catalog.create_namespace("ns")
        schema = pa.schema([(f"column_{i}", pa.string()) for i in range(60)])
        properties = {f"property.{i}": "x" * 40 for i in range(60)}
        table = catalog.create_table("ns.t", schema, properties=properties)
        table.append_files([_file(table.location(), n) for n in range(300)])
        small = catalog.create_table(
            "ns.small", pa.schema([("id", pa.int64())]), properties={"history.expire.max-snapshot-age-ms": "0"}
        )
        for n in range(12):
            small.append([{"id": n}])
        catalog.create_view("ns.v", "SELECT " + ", ".join(f"{i} AS c{i}" for i in range(100)))
        yield catalog


def test_reprs_are_short(wide: icecore.Catalog) -> None:
    for name, value in _public(wide):
        assert len(repr(value)) <= MOST_OF_A_REPR, f"{name}: {len(repr(value))} characters"
        assert "\n" not in repr(value), name


def test_a_repr_has_the_first_things_and_their_number(wide: icecore.Catalog) -> None:
    table = wide.load_table("ns.t")
    assert "… 57 more" in repr(table.schema()) and repr(table.schema()).startswith("Schema(fields=[NestedField(")
    dry = table.delete("TRUE", dry_run=True)
    assert repr(dry).startswith("DryRun(conflicts=[], added_files=[], removed_files=['file:") and "… 297 more" in repr(
        dry
    )


def test_reprs_say_what_a_table_is_and_what_is_pending(wide: icecore.Catalog) -> None:
    """Each change with what was given, the first ones and their number; once it is made, that it has ended."""
    table = wide.load_table("ns.small")
    assert repr(table).startswith("Table('ns.small', format_version=2, events=13, records=12, data_files=")
    refs = table.manage_snapshots().remove_tag("v1").rename_branch("main", "x" * 600).publish("w").publish("z")
    assert repr(refs).startswith("ManageSnapshots('ns.small', pending: remove_tag(tag_name='v1'), rename_branch(")
    assert repr(refs).endswith(" and 1 more)") and len(repr(refs)) <= MOST_OF_A_REPR
    assert repr(table.update_spec().add_field("id")).startswith("UpdateSpec('ns.small', pending: AddField(term='id'")
    with wide.transaction(dry_run=True) as both:
        both.table("ns.small").set_properties(a="b").append([{"id": 1}])
        part = "Transaction('ns.small', pending: metadata=1, snapshots=1, files=1)"
        assert [repr(both), repr(both.table("ns.small"))] == ["CatalogTransaction(pending: ns.small)", part]
    assert repr(both) == "CatalogTransaction(ended)"


@pytest.mark.parametrize("kind", ["table", "view", "scan", "plan", "explanation", "query"])
def test_notebooks_show_html(wide: icecore.Catalog, kind: str) -> None:
    """Short too, and text of the warehouse is no markup."""
    table = wide.load_table("ns.small")
    scan = table.scan("id < 5 AND id <> 7")
    plan = scan.plan() if kind == "plan" else None
    shown: dict[str, Any] = {"table": table, "view": wide.load_view("ns.v"), "scan": scan, "plan": plan}
    shown["query"] = wide.query("SELECT range AS \"<i>\", '<b>' AS b FROM range(30) ORDER BY range")
    value = scan.explain() if kind == "explanation" else shown[kind]
    html = value._repr_html_()
    assert html.startswith("<table>") and html.count("<tr>") <= 25
    if kind in ("scan", "explanation"):
        assert "id &lt; 5" in html and "id < 5" not in html
    if kind == "query":
        assert "<td>19</td><td>&lt;b&gt;</td></tr></tbody></table><p>… more rows</p>" in html and "<i>" not in html


def _public(catalog: icecore.Catalog) -> Iterator[tuple[str, object]]:
    """One of each object that calls give back."""
    table, small, view = catalog.load_table("ns.t"), catalog.load_table("ns.small"), catalog.load_view("ns.v")
    scan = table.scan(FILTER)
    yield from {"catalog": catalog, "table": table, "view": view, "scan": scan, "schema": table.schema()}.items()
    yield from {"plan": scan.plan(), "explanation": scan.explain(), "task": table.scan().plan().tasks[0]}.items()
    yield from {"counts": scan.plan().counts, "named": table.prefetch(FILTER, name="p")}.items()
    yield from {"metadata": table.metadata, "state": table.state, "snapshot": table.current_snapshot()}.items()
    yield from {"spec": table.spec(), "order": table.sort_order(), "ref": table.refs()["main"]}.items()
    yield from {"maintenance": table.maintenance, "inspect": table.inspect, "manifest": table.manifests()[0]}.items()
    yield from {"file": _file("x", 1), "view metadata": view.metadata, "view state": view.state}.items()
    yield from {"version": view.current_version(), "at": catalog.at(5), "diff": catalog.diff(1)}.items()
    yield from {"dry run": table.delete("TRUE", dry_run=True), "appended": small.incremental_append_scan()}.items()
    yield from {"changes": small.incremental_changelog_scan(), "verified": catalog.verify("ns.small")}.items()
    yield from {"schema change": table.update_schema(), "refs": table.manage_snapshots()}.items()
    yield from {"transaction": table.transaction(), "together": catalog.transaction()}.items()
    yield "rewritten", small.rewrite_data_files(options={"rewrite-all": True}, dry_run=True)
    yield "maintained", small.maintain(dry_run=True)
    yield "expired", small.maintenance.expire_snapshots().dry_run()
    yield "orphans", small.maintenance.remove_orphan_files(dry_run=True)
    yield "forgotten", small.forget(dry_run=True)
    yield "dropped", catalog.drop_table("ns.t", dry_run=True)
    yield "audit", catalog.audit()
    yield from {"found": catalog.find_value("x"), "differing": small.diff(small.history()[0].snapshot_id)}.items()
    yield from ((rule.id, rule) for rule in catalog.audit_rules())


def _file(location: str, number: int) -> ContentFile:
    bounds = dict.fromkeys(range(1, 30), b"a" * 16)
    return ContentFile(
        DataFileContent.DATA,
        f"{location}/data/{number:040}.parquet",
        FileFormat.PARQUET,
        0,
        (),
        record_count=1000,
        file_size_in_bytes=12345,
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
