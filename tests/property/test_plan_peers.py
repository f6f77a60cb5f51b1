"""Plans of tables with any history: no row is lost, and no file is planned that PyIceberg leaves out."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st
from peer_filters import peer_filter
from pyiceberg.expressions.visitors import _StrictMetricsEvaluator, inclusive_projection, manifest_evaluator
from pyiceberg.table import StaticTable
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform

import icecore
from icecore.engine.expression.nodes import TRUE, BoundTerm, Expression, PredicateOperator
from icecore.engine.expression.walk import predicates
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.types import DoubleType, FloatType, TimestampType, TimestamptzType, UUIDType

FILTERS = 5


@pytest.mark.parametrize("version", [1, 2, 3])
@examples(5)
@given(data=st.data())
def test_SP1_SP8_no_row_is_lost_and_no_file_is_planned_in_vain(version: int, data: st.DataObject) -> None:
    """DuckDB over all rows, and PyIceberg over the same manifests, after any deletes and evolution of schema and spec.

    PyIceberg plans no equality deletes, so tables that it looks at have none.
    """
    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), version, data)
        evolving.apply(("append", [0, 1, 2, 3, 4]))
        for step in data.draw(steps(deletes=True, keys=version == 3), label="steps"):
            evolving.apply(step)
        table = evolving.table
        rows_of = rows_by_file(table)
        assert sorted(i for ids in rows_of.values() for i in ids) == evolving.select("TRUE")
        location = table.metadata_location
        peer = StaticTable.from_metadata(location) if version < 3 and location else None
        for _ in range(FILTERS):
            text = data.draw(filter_texts(evolving.columns()), label="filter")
            wanted = evolving.select(text)
            if wanted is not None:
                check(table, text, wanted, rows_of, peer)


def check(
    table: icecore.Table, text: str, wanted: list[int], rows_of: dict[str, list[int]], peer: StaticTable | None
) -> None:
    scan = table.scan(text, selected_fields=("id",))
    assert sorted(scan.to_arrow()["id"].to_pylist()) == wanted, text
    assert scan.count() == len(wanted), text
    tasks = {t.file.file_path: t for t in scan.plan_files()}
    for path, ids in rows_of.items():
        matching = set(ids) & set(wanted)
        assert path in tasks or not matching, text
        if path in tasks and tasks[path].residual == TRUE:
            assert matching == set(ids), text
    if peer is not None:
        check_peer(peer, scan, text)


def check_peer(peer: StaticTable, scan: icecore.DataScan, text: str) -> None:
    wanted = peer_filter(scan.row_filter)
    if wanted is None or is_exception(scan.row_filter, peer):
        return
    tasks = {t.file.file_path: t for t in scan.plan_files()}
    try:
        theirs = {t.file.file_path: t for t in peer.scan(row_filter=wanted).plan_files()}
    except TypeError:
        # Its residuals compare null partition values with the literal.
        return
    assert all(path in theirs or has_no_unit(tasks[path].file, scan.row_filter) for path in tasks), text
    assert scan.planned.counts.manifests_scanned <= len(peer_manifests(peer, wanted)), text
    if any(p.op is PredicateOperator.LIKE for p in predicates(scan.row_filter)):
        # PyIceberg is asked for the prefix, which may hold where the pattern does not.
        return
    # PyIceberg's strict metrics know no fields of structs.
    nested = any("." in p.term.name for p in predicates(scan.row_filter))
    whole = _StrictMetricsEvaluator(peer.schema(), wanted)
    for path, task in tasks.items():
        if path not in theirs or has_no_unit(task.file, scan.row_filter):
            continue
        surely = str(theirs[path].residual) == "AlwaysTrue()" or (not nested and whole.eval(theirs[path].file))
        assert task.residual == TRUE or not surely, (text, theirs[path].residual)


def has_no_unit(file: ContentFile, bound: Expression) -> bool:
    """Whether a filter is of timestamps whose bounds in a file may be milliseconds, by which PyIceberg loses rows."""
    asked = {p.term.field.field_id for p in predicates(bound) if isinstance(p.term, BoundTerm) and is_time(p.term)}
    bounds = [[b[i] for b in (file.lower_bounds or {}, file.upper_bounds or {}) if i in b] for i in asked]
    last = 253_402_300_799_999  # millisecond of the year 9999
    return any(all(abs(int.from_bytes(b, "little", signed=True)) <= last for b in both) for both in bounds)


def is_time(term: BoundTerm) -> bool:
    return isinstance(term.source_type, (TimestampType, TimestamptzType))


def is_exception(bound: Expression, peer: StaticTable) -> bool:
    """What PyIceberg may leave out while a plan here keeps it, on purpose.

    - Times before 1970 through year, month, day and hour: writers of Iceberg up to 0.10 rounded them up, so files may
      have a partition value that is one too high. Java makes room for that, and so does icecore; PyIceberg does not.
    - Bounds of UUIDs: Java orders them as two signed longs, the spec and PyIceberg as unsigned bytes. A bound may be of
      either writer, so only what both orders agree on counts.
    - Doubles that a table is partitioned by: PyIceberg 0.12 reads them from manifests as floats, 0.1 as
      0.10000000149011612, and leaves files with matching rows out.
    - Infinity in floats: PyIceberg takes it for a double beyond what a float can hold, so that nothing equals it.
    """
    times = {
        f.source_id
        for spec in peer.specs().values()
        for f in spec.fields
        if isinstance(f.transform, (YearTransform, MonthTransform, DayTransform, HourTransform))
    }
    partitioned = {f.source_id for spec in peer.specs().values() for f in spec.fields}
    return any(
        isinstance(p.term, BoundTerm)
        and (
            isinstance(p.term.source_type, UUIDType)
            or (isinstance(p.term.source_type, DoubleType) and p.term.field.field_id in partitioned)
            or (isinstance(p.term.source_type, FloatType) and any(math.isinf(v) for v in p.literals))
            or (p.term.field.field_id in times and any(v <= 0 for v in p.literals))
        )
        for p in predicates(bound)
    )


def peer_manifests(peer: StaticTable, wanted: Any) -> list[Any]:
    """The manifests that PyIceberg would open."""
    snapshot, schema = peer.current_snapshot(), peer.schema()
    assert snapshot is not None
    out = []
    for m in snapshot.manifests(peer.io):
        spec = peer.specs()[m.partition_spec_id]
        projected = inclusive_projection(schema, spec)(wanted)
        if manifest_evaluator(spec, schema, projected)(m):
            out.append(m)
    return out


def rows_by_file(table: icecore.Table) -> dict[str, list[int]]:
    rows = table.scan(selected_fields=("_file", "id")).to_arrow().to_pylist()
    out: dict[str, list[int]] = {}
    for r in rows:
        out.setdefault(r["_file"], []).append(r["id"])
    return out
