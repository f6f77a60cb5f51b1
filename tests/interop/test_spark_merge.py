"""Merges and upserts by Spark: the rows are those of a model in plain dicts, by the rules of SQL's MERGE."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from core_tables import pyiceberg_catalog  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from spark_change_tables import KINDS, Row, files_of, lineage_of, make, row, rows_of  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import ConflictingCommitsError, ValidationError  # noqa: E402
from icecore.engine.spark.change import row_merge  # noqa: E402
from icecore.engine.spark.change.changed_rows import with_row_numbers  # noqa: E402
from icecore.engine.spark.change.row_merge import RowMerge  # noqa: E402

SOURCE = "id BIGINT, k INT, name STRING, x DOUBLE, op STRING"
Pair = Callable[[Row, Row], bool]
Change = Callable[[Row, Row], Row | None]


@pytest.fixture(scope="module", autouse=True)
def active(spark: Any) -> Iterator[None]:
    yield


def source_of(spark: Any, rows: list[Row]) -> Any:
    return spark.createDataFrame([tuple(r[c] for c in ("id", "k", "name", "x", "op")) for r in rows], SOURCE)


def source_row(i: int | None, op: str, x: float = -1.0) -> Row:
    return {"id": i, "k": 5, "name": f"s{i}", "x": x, "op": op}


def without_op(s: Row) -> Row:
    return {c: v for c, v in s.items() if c != "op"}


def always(_: Row, __: Row) -> bool:
    return True


CLAUSES: dict[str, list[tuple[Callable[[Any], Any], Pair, Change]]] = {
    "matched": [
        (lambda m: m.when_matched_delete("source.op = 'D'"), lambda t, s: s["op"] == "D", lambda t, s: None),
        (
            lambda m: m.when_matched_update({"x": "target.x + source.x", "name": F.lit("u")}, "target.id % 2 = 0"),
            lambda t, s: t["id"] % 2 == 0,
            lambda t, s: {**t, "x": t["x"] + s["x"], "name": "u"},
        ),
        (
            lambda m: m.when_matched_update_all(F.col("source.op") == "U"),
            lambda t, s: s["op"] == "U",
            lambda t, s: without_op(s),
        ),
        (lambda m: m.when_matched_delete("target.name IS NULL"), lambda t, s: t["name"] is None, lambda t, s: None),
    ],
    "not matched": [
        (
            lambda m: m.when_not_matched_insert({"id": "source.id + 1000", "k": F.lit(1)}, "source.op = 'D'"),
            lambda t, s: s["op"] == "D",
            lambda t, s: {"id": s["id"] + 1000, "k": 1, "name": None, "x": None},
        ),
        (lambda m: m.when_not_matched_insert_all(), always, lambda t, s: without_op(s)),
    ],
    "by source": [
        (
            lambda m: m.when_not_matched_by_source_update({"x": "target.x + 1"}, "target.id % 5 = 0"),
            lambda t, s: t["id"] % 5 == 0,
            lambda t, s: {**t, "x": None if t["x"] is None else t["x"] + 1},
        ),
        (
            lambda m: m.when_not_matched_by_source_delete("target.id % 7 = 0"),
            lambda t, s: t["id"] % 7 == 0,
            lambda t, s: None,
        ),
    ],
}


# By version: draws in which every clause acts, and every update changes its row.
SEEDS = {2: 3688, 3: 5636}
# The kinds of clauses of one merge after another. How rows are deleted, and whether they have ids, is nothing to the
# joins that find them: those for the lone rows of one side are made once each, and one merge by all kinds in each way.
STEPS = {
    (2, "copy-on-write"): [["matched", "not matched"], ["matched", "not matched", "by source"], ["not matched"]],
    (3, "merge-on-read"): [["by source"], ["matched", "not matched", "by source"]],
    (2, "merge-on-read"): [["matched", "not matched", "by source"]],
    (3, "copy-on-write"): [["matched", "not matched", "by source"]],
}


def drawn_steps(version: int, mode: str) -> list[tuple[list[Row], dict[str, list[Any]]]]:
    """The source and the clauses of each merge, always the same ones."""
    numbers, out = random.Random(SEEDS[version]), []
    for step, kinds in enumerate(STEPS[version, mode]):
        ids = [*numbers.sample(range(40), 8), 100 + step]
        source = [source_row(i, numbers.choice("DUX")) for i in ids]
        chosen = {
            kind: numbers.sample(parts, numbers.randint(1, len(parts))) if kind in kinds else []
            for kind, parts in CLAUSES.items()
        }
        # What has no condition comes last.
        chosen["not matched"].sort(key=lambda part: part[1] is always)
        out.append((source, chosen))
    return out


def merged(
    model: dict[int, Row], source: list[Row], chosen: dict[str, list[Any]], acted: list[Any] | None = None
) -> dict[int, Row]:
    """What a merge by `id` makes of the model; `acted` gets the clause of each change."""
    found = {s["id"]: s for s in source if s["id"] is not None}
    pairs = [("matched" if i in found else "by source", t, found.get(i, {})) for i, t in model.items()]
    pairs += [("not matched", {}, s) for s in source if s["id"] is None or s["id"] not in model]
    out = []
    for kind, t, s in pairs:
        part = next((part for part in chosen[kind] if part[1](t, s)), None)
        out.append((t or None) if part is None else part[2](t, s))
        if part is not None and acted is not None:
            acted.append(part[0])
    return {r["id"]: r for r in out if r is not None}


@pytest.mark.parametrize(("version", "mode"), [kind for kind, steps in STEPS.items() if len(steps) > 1])
def test_every_clause_acts_in_the_merges_that_are_made(version: int, mode: str) -> None:
    acted: list[Any] = []
    model = {i: row(i) for i in range(30)}
    for source, chosen in drawn_steps(version, mode):
        model = merged(model, source, chosen, acted)
    assert set(acted) == {part[0] for parts in CLAUSES.values() for part in parts}


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_merges_are_those_of_the_model(
    spark: Any,
    catalog: icecore.Catalog,
    warehouse: Path,
    version: int,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random clauses and sources, one merge after another; rows keep their ids, and changed ones say when (v3).

    Every other merge is made as into a large table: files that are touched are looked for before they are written.
    """
    table, model = make(catalog, version, mode), {i: row(i) for i in range(30)}
    conditions: list[Any] = ["id", "target.id = source.id", F.col("target.id") == F.col("source.id")]
    usual_limits = {name: getattr(row_merge, name) for name in ("_SMALL_BYTES", "_FEW_FILES")}
    for step, (source, chosen) in enumerate(drawn_steps(version, mode)):
        for limit, usual in usual_limits.items():
            monkeypatch.setattr(row_merge, limit, 0 if (step + version) % 2 == 0 else usual)
        merge = table.spark.merge(source_of(spark, source), conditions[(step + version) % 3])
        for part in (p for parts in chosen.values() for p in parts):
            merge = part[0](merge)
        before = lineage_of(table) if version == 3 else {}
        result = merge.commit()
        after = merged(model, source, chosen)
        assert rows_of(table) == after
        changed = {i for i in model if i in after and after[i] != model[i]}
        assert result.rows_updated == len(changed)
        assert (result.rows_deleted, result.rows_inserted) == (len(model.keys() - after), len(after.keys() - model))
        if version == 3:
            now, sequence = lineage_of(table), table.metadata.last_sequence_number
            for i in model.keys() & after.keys():
                assert now[i] == ((before[i][0], sequence) if i in changed else before[i])
            assert len({row_id for row_id, _ in now.values()}) == len(now)
        model = after
    assert catalog.verify().ok
    if version < 3:
        peer = pyiceberg_catalog(warehouse).load_table("ns.t").scan().to_arrow()
        assert {r["id"]: r for r in peer.to_pylist()} == model


def test_a_row_that_two_would_change_is_an_error(spark: Any, catalog: icecore.Catalog) -> None:
    """But for the delete of all that match, and where the clause acts on one of them alone."""
    table = make(catalog)
    source = source_of(spark, [source_row(3, "U"), source_row(3, "X"), source_row(4, "U"), source_row(None, "U")])
    before, files = rows_of(table), files_of(table)
    with pytest.raises(ValidationError, match="more than one row of the source"):
        table.spark.merge(source, "id").when_matched_update_all().commit()
    with pytest.raises(ValidationError, match="more than one row of the source"):
        table.spark.merge(source, "id").when_matched_delete("source.x < 0").commit()
    assert rows_of(table) == before and files_of(table) == files
    result = table.spark.merge(source, "id").when_matched_update_all("source.op = 'X'").commit()
    assert (result.rows_updated, rows_of(table)[3]["name"]) == (1, "s3")
    result = table.spark.merge(source, "id").when_matched_delete().commit()
    assert result.rows_deleted == 2 and set(rows_of(table)) == set(range(30)) - {3, 4}


def test_a_null_key_matches_nothing_unless_it_is_to(spark: Any, catalog: icecore.Catalog) -> None:
    table = make(catalog)
    table.append([{**row(50), "id": None}])
    source = source_of(spark, [source_row(None, "U")])
    merge = table.spark.merge(source, "t.id <=> s.id", target_alias="t", source_alias="s")
    assert merge.when_matched_update({"id": F.lit(60)}).commit().rows_updated == 1
    result = table.spark.merge(source, ["id"]).when_matched_delete().when_not_matched_insert_all().commit()
    assert (result.rows_deleted, result.rows_inserted) == (0, 1)
    assert table.scan("id IS NULL").count() == 1 and table.scan("id = 60").count() == 1


def test_only_files_that_match_are_written_again(spark: Any, catalog: icecore.Catalog) -> None:
    table = make(catalog, partition_spec=None)
    first, second, third = (
        f["file_path"] for f in sorted(table.files().to_pylist(), key=lambda f: f["sequence_number"])
    )
    source = source_of(spark, [source_row(12, "U"), source_row(60, "U")])
    table.spark.merge(source, "source.id = target.id").when_matched_update_all().when_not_matched_insert_all().commit()
    left = set(table.files()["file_path"].to_pylist())
    assert {first, third} <= left and second not in left


def test_an_upsert_is_that_of_the_table(spark: Any, catalog: icecore.Catalog) -> None:
    """Where keys are null or twice in the source too, and of the columns that the source has."""
    mine, other = make(catalog, 3, "merge-on-read"), make(catalog, 3, "merge-on-read", "ns.other")
    rows = [{**row(3), "x": 9.0}, row(4), {**row(70), "id": None}, row(80)]
    mine_result = mine.spark.upsert(spark.createDataFrame([tuple(r.values()) for r in rows], SOURCE[:-11]), ["id"])
    assert mine_result == other.upsert(rows, ["id"])
    assert rows_of(mine) == rows_of(other)
    with pytest.raises(ValidationError, match="id=1 more than once"):
        mine.spark.upsert(spark.sql("SELECT 1L AS id UNION ALL SELECT 1L"), ["id"])
    part = spark.sql("SELECT 5L AS id, 'only the name' AS name")
    assert mine.spark.upsert(part, "id").rows_updated == 1
    assert rows_of(mine)[5] == {**row(5), "name": "only the name"}


VALUES = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("d", pa.decimal128(9, 2)),
        ("st", pa.struct([("a", pa.int32()), ("y", pa.float64())])),
        ("l", pa.list_(pa.float64())),
        ("u", pa.uuid()),
        ("t", pa.time64("us")),
    ]
)
# Each is other than the first by what stands for one column.
CHANGES = [
    "id",
    "-f AS f",
    "-x AS x",
    "double('nan') AS x",
    "NULL AS x",
    "d + 0.01 AS d",
    "named_struct('y', -st.y, 'a', st.a) AS st",
    "named_struct('y', st.y, 'a', 2L) AS st",
    "array(-l[0], l[1]) AS l",
    "array() AS l",
    "'00000000-0000-0000-0000-00000000000b' AS u",
    "t + 1 AS t",
]
# Zeros whose value Spark finds when it computes them: its optimizer takes -0.0 for 0.0.
ZERO = "double(id div 99)"
SAME = f"""{ZERO} AS f, {ZERO} AS x, 1.5BD AS d, named_struct('y', {ZERO}, 'a', 1) AS st,
    array({ZERO}, double('nan')) AS l, '00000000-0000-0000-0000-00000000000a' AS u, 5L AS t"""


def test_an_upsert_changes_rows_that_differ(spark: Any, catalog: icecore.Catalog) -> None:
    """By one column, -0.0 for 0.0 too, and no others: fields in another order and wider numbers are no difference."""
    mine, other = (catalog.create_table(f"ns.{name}", VALUES, format_version=2) for name in ("mine", "other"))
    rows = spark.sql(f"SELECT id, {SAME} FROM range(0, {len(CHANGES)}, 1, 1)")
    for table in (mine, other):
        table.append(rows)
    assert mine.spark.upsert(rows, ["id"]).rows_updated == 0
    values = {name: name for name in rows.columns}
    for i, change in list(enumerate(CHANGES))[1:]:
        value, name = change.split(" AS ")
        values[name] = f"CASE WHEN id = {i} THEN {value} ELSE {values[name]} END"
    source = rows.selectExpr(*[f"{value} AS {name}" for name, value in values.items()])
    assert mine.spark.upsert(source, ["id"]).rows_updated == len(CHANGES) - 1
    other.spark.merge(source, ["id"]).when_matched_update_all().commit()
    found, wanted = (sorted(t.scan().to_arrow().to_pylist(), key=itemgetter("id")) for t in (mine, other))
    assert repr(found) == repr(wanted)
    assert mine.spark.upsert(source, ["id"]).rows_updated == 0


def test_an_upsert_of_nanoseconds(spark: Any, catalog: icecore.Catalog) -> None:
    """Spark sees them no further than microseconds, so that a row which has any counts as changed."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns")), ("l", pa.list_(pa.timestamp("ns", "UTC")))])
    table = catalog.create_table("ns.t", schema, format_version=3)
    table.append(pa.table({"id": [1, 2], "at": [1001, 1000], "l": [[2001], [2000]]}).cast(schema))
    at = "timestamp_micros(1)::timestamp_ntz"
    source = spark.sql(f"SELECT id, {at} AS at, array(timestamp_micros(2)) AS l FROM range(1, 3)")
    assert table.spark.upsert(source, ["id"]).rows_updated == 2
    found = table.scan().to_arrow()
    assert found["at"].cast(pa.int64()).to_pylist() == [1000, 1000]
    assert found["l"].cast(pa.list_(pa.int64())).to_pylist() == [[2000], [2000]]


def test_a_target_filter_leaves_rows_and_files_out(spark: Any, catalog: icecore.Catalog) -> None:
    """Rows that it does not select take no part, not even as rows without a match."""
    table = make(catalog, partition_spec=["k"])
    source = source_of(spark, [source_row(0, "U"), source_row(1, "U")])
    merge = table.spark.merge(source, "id", target_filter="k = 1").when_matched_update({"x": F.lit(0)})
    assert merge.when_not_matched_by_source_delete("target.id < 20").commit().rows_deleted == 6
    found = rows_of(table)
    assert found[0] == row(0) and found[1]["x"] == 0.0
    assert {i for i in found if i % 3 == 1} == {1, 22, 25, 28} and len(found) == 24


def test_mistakes_are_found_before_any_job(spark: Any, catalog: icecore.Catalog) -> None:
    table = make(catalog)
    source = source_of(spark, [source_row(0, "U")])
    merge = table.spark.merge(source, "id")
    for wrong, text in (
        (merge, "must have a clause"),
        (merge.when_matched_delete().when_matched_update_all(), "comes after one without a condition"),
        (merge.when_matched_update({"y": "1"}), "no column 'y'"),
        (merge.when_not_matched_insert({"x": "source.name"}), "column 'x': the table has double"),
        (table.spark.merge(source, ["op"]).when_matched_delete(), "key column 'op'"),
    ):
        with pytest.raises(ValidationError, match=text):
            wrong.commit()
    assert len(table.snapshots()) == 3


def test_new_columns_of_the_source_and_defaults(spark: Any, catalog: icecore.Catalog) -> None:
    table = make(catalog, 3)
    with table.update_schema() as update:
        update.add_column("kind", "string", default_value="plain")
    source = spark.sql("SELECT 2L AS id, 7 AS extra UNION ALL SELECT 200L, 8")
    merge = table.spark.merge(source, "id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().commit()
    found = rows_of(table)
    assert found[2] == {**row(2), "kind": "plain", "extra": 7}
    assert found[200] == {"id": 200, "k": None, "name": None, "x": None, "kind": "plain", "extra": 8}
    assert found[3]["extra"] is None


def test_a_source_is_the_same_whichever_order_its_rows_come_in(spark: Any, catalog: icecore.Catalog) -> None:
    """A task that Spark runs twice may get its rows in another order; those that can't be sorted have no numbers."""
    rows = [source_row(3, "D"), source_row(None, "U"), source_row(1, "U", float("nan")), source_row(1, "U", 2.0)]
    numbered = [with_row_numbers(source_of(spark, given).coalesce(1), "n") for given in (rows, rows[::-1])]
    assert len({str(sorted(map(tuple, frame.collect()), key=itemgetter(-1))) for frame in numbered}) == 1
    table = make(catalog)
    source = spark.sql("SELECT 2L AS id, map('k', 7) AS m UNION ALL SELECT 200L, map('k', 8)")
    merge = table.spark.merge(source, "id").when_matched_update({"k": "source.m['k']"})
    merge.when_not_matched_insert({"id": "source.id", "k": "source.m['k']"}).commit()
    found = rows_of(table)
    assert (found[2]["k"], found[200]["k"]) == (7, 8)


@pytest.mark.parametrize("name", ["__icecore_source_row", "__Icecore_clause"])
def test_a_name_as_a_merge_gives_its_own_columns(spark: Any, catalog: icecore.Catalog, name: str) -> None:
    """Is refused: the number of the source's row was written in place of the source's value."""
    rows = spark.sql(f"SELECT 1L AS id, 7 AS {name}")
    named = catalog.create_table("ns.named", pa.schema([("id", pa.int64()), (name, pa.int32())]))
    plain = catalog.create_table("ns.plain", pa.schema([("id", pa.int64()), ("n", pa.int32())]))
    merges = [named.spark.merge(rows, "id").when_not_matched_insert_all()]
    merges += [plain.spark.merge(rows, "id").when_not_matched_insert({"id": "source.id", "n": f"source.{name}"})]
    for table, merge in zip((named, plain), merges, strict=True):
        with pytest.raises(ValidationError, match=f"'__icecore_': '{name}' needs another"):
            merge.commit()
        assert table.refresh().current_snapshot() is None


def test_what_comes_meanwhile_is_a_conflict_where_it_has_a_key(
    spark: Any, catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is computed once, whatever it gives later; an idempotency key gives the same counts again."""
    table, other = make(catalog), catalog.load_table("ns.t")
    job, ids = RowMerge.write, iter([500, 3, 501])

    def slow(merge: RowMerge, tasks: Any) -> Any:
        written = job(merge, tasks)
        other.append([row(next(ids))])
        return written

    monkeypatch.setattr(RowMerge, "write", slow)
    source = source_of(spark, [source_row(2, "U"), source_row(3, "U"), source_row(300, "U")])
    merge = table.spark.merge(source, "id").when_matched_update_all().when_not_matched_insert_all()
    first = merge.commit(idempotency_key="once")
    assert (first.rows_updated, first.rows_inserted) == (2, 1)
    assert merge.commit(idempotency_key="once") == first
    files = files_of(table)
    with pytest.raises(ConflictingCommitsError, match="was added"):
        merge.commit()
    assert files_of(table) == files + 1
    outcome = merge.commit(dry_run=True, isolation_level="snapshot").outcome
    assert outcome is not None and not outcome.is_empty
