"""Views in a catalog: made, found, replaced, renamed and dropped, and their names, which tables share."""

from __future__ import annotations

import pyarrow as pa
import pytest
from core_tables import SCHEMA, ids_of, make_table, rows

import icecore
from icecore.engine.errors import (
    CommitConflictError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ReadOnlyError,
    StorageError,
    TableAlreadyExistsError,
    ValidationError,
)
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DecimalType, IntegerType, LongType, NestedField, StringType


def test_v1_a_view_holds_what_it_was_made_of(catalog: icecore.Catalog) -> None:
    catalog.create_namespace("other")
    schema = Schema((NestedField(5, "n", LongType(), doc="how many"),), 3)
    view = catalog.create_view(
        "ns.v",
        "SELECT count(*) FROM t",
        dialect="spark",
        representations={"trino": "SELECT count(1) FROM t"},
        schema=schema,
        default_namespace="other",
        default_catalog="prod",
        properties={"owner": "me"},
        comment="counts",
        summary={"user": "you"},
        location="/tmp/elsewhere/",
    )
    version = view.current_version()
    assert [(r.type, r.dialect, r.sql) for r in version.representations] == [
        ("sql", "spark", "SELECT count(*) FROM t"),
        ("sql", "trino", "SELECT count(1) FROM t"),
    ]
    assert (version.version_id, version.schema_id) == (1, 0)
    assert (version.default_namespace, version.default_catalog) == (("other",), "prod")
    assert version.summary["user"] == "you"
    assert version.summary["engine-name"] == "icecore"
    assert view.schema() == Schema(schema.fields, 0)
    assert view.properties == {"owner": "me", "comment": "counts"}
    assert view.location() == "file:///tmp/elsewhere"
    assert [(e.version_id, e.timestamp_ms) for e in view.history()] == [(1, version.timestamp_ms)]
    assert catalog.load_view("ns.v") == view


def test_v1_the_schema_is_learnt_from_the_query_without_reading_a_row(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2))
    for task in table.scan().plan_files():
        table_file = task.file.file_path.removeprefix("file://")
        pa.OSFile(table_file, "wb").close()
    view = catalog.create_view("ns.v", "SELECT name AS who, sum(id) AS s, count(*)::INT AS n FROM t GROUP BY 1")
    assert [(f.name, f.field_type, f.optional) for f in view.schema().fields] == [
        ("who", StringType(), True),
        ("s", DecimalType(38, 0), True),
        ("n", IntegerType(), True),
    ]


def test_v1_the_default_namespace_is_that_of_the_view(catalog: icecore.Catalog) -> None:
    catalog.create_namespace(("deep", "er"))
    catalog.create_table(("deep", "er", "t"), SCHEMA).append(rows(7))
    view = catalog.create_view(("deep", "er", "v"), "SELECT id FROM t")
    assert view.current_version().default_namespace == ("deep", "er")
    assert view.to_arrow()["id"].to_pylist() == [7]


def test_tables_and_views_share_their_names(catalog: icecore.Catalog) -> None:
    make_table(catalog)
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    with pytest.raises(
        TableAlreadyExistsError,
        match=r"^View with same name already exists: ns\.v; it was created at position 3 by tester$",
    ):
        make_table(catalog, "v")
    with pytest.raises(
        TableAlreadyExistsError, match=r"^View already exists: ns\.v; it was created at position 3 by tester$"
    ):
        catalog.create_view("ns.v", "SELECT 2 AS x")
    for replace in (False, True):
        with pytest.raises(
            TableAlreadyExistsError,
            match=r"^Table with same name already exists: ns\.t; it was created at position 2 by",
        ):
            catalog.create_view("ns.t", "SELECT 2 AS x", replace=replace)
    with pytest.raises(
        TableAlreadyExistsError, match=r"^Cannot rename ns\.v to ns\.t\. Table already exists; it was created at"
    ):
        catalog.rename_view("ns.v", "ns.t")
    with pytest.raises(
        TableAlreadyExistsError, match=r"^Cannot rename ns\.t to ns\.v\. View already exists; it was created at"
    ):
        catalog.rename_table("ns.t", "ns.v")
    with pytest.raises(NoSuchTableError, match="it is a view"):
        catalog.load_table("ns.v")
    with pytest.raises(NoSuchViewError, match="it is a table"):
        catalog.load_view("ns.t")
    with pytest.raises(NoSuchViewError, match="it is a table"):
        catalog.drop_view("ns.t")
    assert (catalog.list_tables("ns"), catalog.list_views("ns")) == ([("ns", "t")], [("ns", "v")])
    assert (catalog.view_exists("ns.v"), catalog.view_exists("ns.t"), catalog.table_exists("ns.v")) == (1, 0, 0)
    assert list(catalog.views()) == [view]


def test_v1_replacing_adds_a_version_and_keeps_the_view(catalog: icecore.Catalog) -> None:
    first = catalog.create_view("ns.v", "SELECT 1 AS x", properties={"a": "1"})
    second = catalog.create_view("ns.v", "SELECT 'two' AS y", properties={"b": "2"}, replace=True)
    assert second.metadata.view_uuid == first.metadata.view_uuid
    assert second.properties == {"a": "1", "b": "2"}
    assert [(v.version_id, v.schema_id) for v in second.versions()] == [(1, 0), (2, 1)]
    assert sorted(second.schemas()) == [0, 1]
    assert second.to_arrow().to_pydict() == {"y": ["two"]}
    assert [e.version_id for e in second.history()] == [1, 2]
    assert first.current_version().version_id == 1
    assert first.refresh() == second


def test_v1_a_definition_that_was_there_before_comes_back_under_its_id(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    before = view.current_version()
    position = catalog.position
    view.replace("SELECT 1 AS x")
    assert catalog.position == position, "nothing changed, so there is no event"
    view.replace("SELECT 2 AS x").replace("SELECT 1 AS x")
    assert view.current_version() == before
    assert [e.version_id for e in view.history()] == [1, 2, 1]
    assert len({e.timestamp_ms for e in view.history()}) == 3


def test_v1_a_kept_version_can_become_the_current_one_again(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x", properties={"version.history.num-entries": "2"})
    view.replace("SELECT 2 AS x").replace("SELECT 3 AS x")
    assert [v.version_id for v in view.versions()] == [2, 3]
    assert view.set_current_version(2).to_arrow()["x"].to_pylist() == [2]
    assert [e.version_id for e in view.history()] == [2, 3, 2]
    for gone in (1, -1):
        with pytest.raises(ValidationError, match=r"no (view )?version"):
            view.set_current_version(gone)


def test_v1_a_dialect_is_not_lost_by_accident(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x", representations={"spark": "SELECT 1 x"})
    with pytest.raises(ValidationError, match="lose its SQL for spark"):
        view.replace("SELECT 2 AS x")
    view.replace("SELECT 2 AS x", representations={"SPARK": "SELECT 2 x"})
    view.replace("SELECT 3 AS x", properties={"replace.drop-dialect.allowed": "true"})
    assert view.current_version().dialects == {"duckdb"}


def test_namespace_and_catalog_of_a_view_stay_unless_given(catalog: icecore.Catalog) -> None:
    catalog.create_namespace("other")
    view = catalog.create_view("ns.v", "SELECT 1 AS x", default_namespace="other", default_catalog="icecore")
    version = view.replace("SELECT 2 AS x").current_version()
    assert (version.default_namespace, version.default_catalog) == (("other",), "icecore")
    version = catalog.create_view("ns.v", "SELECT 3 AS x", replace=True).current_version()
    assert version.default_namespace == ("ns",)


def test_properties_and_location_change_without_a_new_version(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    view.set_properties({"a": "1", "b": "2"}, message="why").remove_properties("a", "never there")
    view.set_location("/tmp/moved")
    assert view.properties == {"b": "2"}
    assert view.location() == "file:///tmp/moved"
    assert view.metadata_location.startswith("file:///tmp/moved/metadata/00003-")
    assert len(view.versions()) == len(view.history()) == 1


def test_metadata_files_can_not_be_sent_where_nothing_can_be(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    with pytest.raises(StorageError):
        view.set_location("nowhere://bucket/v")
    with pytest.raises(StorageError):
        catalog.create_view("ns.w", "SELECT 1 AS x", location="nowhere://bucket/w")
    assert (catalog.load_view("ns.v") == view, catalog.view_exists("ns.w")) == (True, False)


def test_a_view_is_renamed_and_dropped(catalog: icecore.Catalog) -> None:
    catalog.create_namespace("other")
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    renamed = catalog.rename_view("ns.v", "other.w")
    assert renamed.name() == ("other", "w")
    assert renamed.metadata == view.metadata
    assert not catalog.view_exists("ns.v")
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_view("other.w", "nowhere.w")
    with pytest.raises(NoSuchViewError):
        catalog.rename_view("ns.v", "ns.x")
    with pytest.raises(NamespaceNotEmptyError, match="holds 'w'"):
        catalog.drop_namespace("other")
    catalog.drop_view("other.w")
    catalog.drop_namespace("other")
    with pytest.raises(NoSuchViewError):
        catalog.load_view("other.w")
    with pytest.raises(NoSuchViewError, match="was dropped"):
        renamed.refresh()
    with pytest.raises(NoSuchViewError, match="was dropped"):
        renamed.set_properties({"a": "1"})
    again = catalog.create_view("ns.v", "SELECT 2 AS x")
    assert again.metadata.view_uuid != view.metadata.view_uuid
    assert again.location() != view.location()


@pytest.mark.parametrize(
    ("sql", "options", "message"),
    [
        (None, {}, "at least one dialect"),
        ("", {}, "not empty"),
        ("SELECT 1 AS x", {"dialect": ""}, "not empty"),
        ("SELECT 1 AS x", {"representations": {"DuckDB": "SELECT 2 AS x"}}, "multiple queries for dialect duckdb"),
        ("SELECT 1 AS x", {"schema": "int"}, "icecore, pyarrow, Spark or PyIceberg schema"),
        ("SELECT 1 AS x", {"properties": {"a": 1}}, "strings to strings"),
        ("SELECT 1 AS x", {"summary": {"a": None}}, "strings to strings"),
        ("SELECT 1 AS x; SELECT 2", {}, "one SELECT, found 2"),
        ("DROP TABLE t", {}, "must be one SELECT"),
        ("SELEC 1", {}, "can't be parsed"),
        ("SELECT 1 AS x, 2 AS x", {}, "x"),
        ("SELECT INTERVAL 1 DAY AS x", {}, "give a schema"),
        ("SELECT 1 AS x", {"dialect": "klingon"}, "no dialect that can be translated"),
    ],
)
def test_v1_what_is_no_view_is_refused(
    catalog: icecore.Catalog, sql: str | None, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        catalog.create_view("ns.v", sql, **options)  # type: ignore[call-overload]
    assert not catalog.view_exists("ns.v")


def test_v1_a_view_of_any_dialect_can_be_kept_where_the_schema_is_given(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "qapla'", dialect="klingon", schema=pa.schema([("x", pa.int32())]))
    assert view.sql_for("KLINGON").sql == "qapla'"
    with pytest.raises(ValidationError, match="no SQL for duckdb, and none can be made"):
        view.to_arrow()


def test_a_read_only_catalog_reads_views_and_changes_none(catalog: icecore.Catalog, warehouse: str) -> None:
    make_table(catalog).append(rows(1, 2))
    catalog.create_view("ns.v", "SELECT id FROM t")
    with icecore.open(warehouse, read_only=True) as reader:
        assert sorted(reader.load_view("ns.v").to_arrow()["id"].to_pylist()) == [1, 2]
        for change in (
            lambda: reader.create_view("ns.w", "SELECT 1 AS x"),
            lambda: reader.drop_view("ns.v"),
            lambda: reader.load_view("ns.v").replace("SELECT 1 AS x"),
        ):
            with pytest.raises(ReadOnlyError):
                change()


def test_another_process_sees_and_changes_the_same_view(catalog: icecore.Catalog, open_again: object) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    other: icecore.Catalog = open_again()  # type: ignore[operator]
    other.load_view("ns.v").replace("SELECT 2 AS x")
    view.set_properties({"a": "1"})
    assert [v.version_id for v in view.versions()] == [1, 2]
    assert other.load_view("ns.v") == view


def test_the_row_that_other_engines_read_follows_and_its_loss_is_noticed(catalog: icecore.Catalog) -> None:
    make_table(catalog).append(rows(1))
    view = catalog.create_view("ns.v", "SELECT id FROM t")
    connection = catalog._warehouse.store.connection()

    def shared() -> list[tuple[str | None, ...]]:
        found = connection.execute(
            "SELECT table_namespace, table_name, iceberg_type, metadata_location, previous_metadata_location "
            "FROM iceberg_tables WHERE iceberg_type = 'VIEW'"
        )
        return [tuple(row) for row in found]

    first = view.metadata_location
    assert shared() == [("ns", "v", "VIEW", first, None)]
    second = view.replace("SELECT id + 1 AS id FROM t").metadata_location
    assert shared() == [("ns", "v", "VIEW", second, first)]
    catalog.rename_view("ns.v", "ns.w")
    assert shared() == [("ns", "w", "VIEW", second, first)]
    connection.execute("UPDATE iceberg_tables SET metadata_location = 'file:///theirs' WHERE table_name = 'w'")
    with pytest.warns(ForeignCommitWarning), pytest.raises(CommitConflictError, match="file:///theirs"):
        view.refresh().set_properties({"a": "1"})
    with pytest.raises(CommitConflictError, match="file:///theirs"):
        catalog.rebuild()
    connection.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'w'", (second,))
    catalog.drop_view("ns.w")
    assert shared() == []
    assert ids_of(catalog.load_table("ns.t")) == [1]
