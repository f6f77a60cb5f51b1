"""Groups of files made from columns: the same that come of looking at file by file, and none where that is needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve

pytest.importorskip("pyspark")

import icecore
from icecore.engine.common.location import LocationMapping
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spark.read import routing
from icecore.engine.spark.read.native_scan import NativeGroup
from icecore.engine.spark.read.plain_files import plain_groups
from icecore.engine.spark.read.routing import routes
from icecore.engine.spark.read.scan_context import ScanContext
from icecore.engine.spark.read.whole_files import whole_files

MAPPING = "schema.name-mapping.default"
NO_NAMES = "[]"
IDS = pa.schema(
    [pa.field(n, t, metadata={"PARQUET:field_id": i}) for n, t, i in (("id", pa.int64(), "1"), ("k", pa.string(), "2"))]
)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "k": [str(i % 2) for i in ids]}, schema=IDS)


def of_others(table: icecore.Table, folder: Path, *names: str) -> None:
    """Adds files of these names, whose columns have ids, and takes the mapping of names away."""
    folder.mkdir(parents=True, exist_ok=True)
    for n, name in enumerate(names):
        pq.write_table(rows(100 + n), folder / name)
    table.add_files([f"file://{folder}/{name}" for name in names])
    if MAPPING in table.properties:
        table.remove_properties(MAPPING)


def appended(table: icecore.Table) -> None:
    table.append(rows(1, 2))


def added(table: icecore.Table) -> None:
    table.update_schema().add_column("more", "long").commit()
    table.append(pa.table({"id": [7], "k": ["1"], "more": [1]}))


def partitioned_again(table: icecore.Table) -> None:
    table.update_spec().add_identity("k").commit()
    table.append(rows(8, 9))


OF_ICEBERG = "00000-0-3f0e7a52-9d41-4c8b-8a06-5b1f2c7d9e10-00001.parquet"
STEPS: dict[str, Callable[[icecore.Table, Path], None]] = {
    "append": lambda t, _: appended(t),
    "schema": lambda t, _: added(t),
    "spec": lambda t, _: partitioned_again(t),
    "others": lambda t, there: of_others(t, there / "own" / str(t.metadata.last_sequence_number), OF_ICEBERG),
}


def context_of(table: icecore.Table, columns: tuple[str, ...]) -> tuple[ScanContext, Any]:
    """What a classic session has, without a session."""
    scan = table.scan(selected_fields=columns)
    context = ScanContext(None, table.metadata, scan.storage, scan.projection, TRUE)
    context.__dict__.update(planned_frames=object(), takes_names_for_patterns=False)
    return context, scan.planned


def not_again(*args: Any) -> Any:
    raise AssertionError("opened again")


def evolved(context: ScanContext, **changes: Any) -> ScanContext:
    made = evolve(context, **changes)
    made.__dict__["planned_frames"] = object()
    return made


def both(table: icecore.Table, columns: tuple[str, ...] = ("*",)) -> tuple[Any, Any]:
    context, planned = context_of(table, columns)
    files, found = planned.plain_columns(), routes(context, whole_files(planned.tasks(), context.storage))
    return None if files is None else plain_groups(context, files), found


def told(group: NativeGroup) -> dict[str, Any]:
    files = group.files
    numbers = (files.locations, files.sizes, files.spec_ids, files.first_row_ids, files.sequence_numbers, group.paths)
    return {
        "columns": group.columns, "lacking": group.lacking, "by_id": group.by_id,
        "files": [n.to_pylist() for n in numbers], "partitions": list(files.partitions),
    }  # fmt: skip


ORDERS = [(steps, 3) for steps in itertools.permutations(STEPS)] + [(tuple(STEPS), 1), (tuple(STEPS), 2)]


@pytest.mark.parametrize(("steps", "version"), ORDERS, ids=lambda v: "-".join(v) if isinstance(v, tuple) else f"v{v}")
def test_groups_are_those_of_looking_at_each_file(tmp_path: Path, steps: tuple[str, ...], version: int) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS, format_version=version)
        for step in steps:
            STEPS[step](table, tmp_path)
            for columns in (("*",), ("id",)):
                groups, found = both(table, columns)
                assert found.python == () and groups is not None
                assert [told(g) for g in groups] == [told(g) for g in found.native]


@pytest.mark.parametrize("name", ["a.parquet", "part-0-3f0e7a52.parquet", OF_ICEBERG])
@pytest.mark.parametrize("mapped", [True, False])
def test_files_that_may_lack_ids_are_opened_once(
    tmp_path: Path, name: str, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS, partition_spec=["k"])
        table.append(rows(1, 2))
        mapping = table.properties.get(MAPPING, NO_NAMES)
        of_others(table, tmp_path / "others", name)
        if mapped:
            table.set_properties({MAPPING: mapping})
        groups, found = both(table)
        assert [told(g) for g in groups] == [told(g) for g in found.native]
        with monkeypatch.context() as patched:
            patched.setattr(routing, "_file_columns", not_again)
            context, planned = context_of(table, ("*",))
            assert [told(g) for g in plain_groups(context, planned.plain_columns()) or ()] == [told(g) for g in groups]


@pytest.mark.parametrize("first", [True, False])
def test_a_file_without_ids_among_others_is_looked_at(tmp_path: Path, first: bool) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS)
        (tmp_path / "others").mkdir()
        bare = pa.table({"k": ["1"], "id": pa.array([1], pa.int64())})
        places = [tmp_path / "others" / f"{n}.parquet" for n in "abc"]
        for place in places:
            pq.write_table(bare if place is places[-1] else rows(1), place)
        table.add_files([p.as_uri() for p in (reversed(places) if first else places)])
        for _ in range(2):
            groups, found = both(table)
            assert groups is None
            assert sorted(g.by_id for g in found.native) == [False, True]


@pytest.mark.parametrize("name", [f"x:y/{OF_ICEBERG}", f".x/{OF_ICEBERG}"])
def test_files_of_other_spellings_are_looked_at(tmp_path: Path, name: str) -> None:
    """Their paths are written in another way than Spark takes them, or are nothing that it opens."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS)
        table.append(rows(1))
        (tmp_path / "others" / name).parent.mkdir(parents=True)
        of_others(table, tmp_path / "others", name)
        assert both(table)[0] is None


def test_mapped_locations_are_looked_at(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS)
        table.append(rows(1))
        context, planned = context_of(table, ("*",))
        files = planned.plain_columns()
        assert files is not None and plain_groups(context, files) is not None
        storage = context.storage.behind(LocationMapping.of({"s3://there": "file:///here"}))
        assert plain_groups(evolved(context, storage=storage), files) is None


def test_columns_that_a_struct_lacks_are_looked_at(tmp_path: Path) -> None:
    """The partition has the value of a field inside of a struct, which files of others may lack."""
    inner = pa.field("k", pa.string(), metadata={"PARQUET:field_id": "2"})
    kind = pa.schema([pa.field("s", pa.struct([inner]), metadata={"PARQUET:field_id": "1"})])
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", kind, partition_spec=["s.k"])
        folder = tmp_path / "others"
        folder.mkdir()
        pq.write_table(pa.table({"s": [{"k": "1"}]}, schema=kind), folder / OF_ICEBERG)
        table.add_files([(folder / OF_ICEBERG).as_uri()])
        table.remove_properties(MAPPING)
        assert both(table)[0] is None


def test_what_needs_a_look_is_given_none(tmp_path: Path) -> None:
    """Columns without ids, though a file has a name of ours; deletes, a file that comes twice."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", IDS, properties={"write.delete.mode": "merge-on-read"})
        table.append(rows(1, 2))
        [own] = table.scan().plan_files()
        assert both(table)[0] is not None
        copy = tmp_path / "copies" / own.file.file_path.rsplit("/", 1)[1]
        copy.parent.mkdir()
        pq.write_table(pa.table({"id": [3], "k": ["1"]}), copy)
        other = catalog.create_table("ns.o", IDS)
        other.add_files([copy.as_uri()])
        assert both(other)[0] is None
        table.delete("id = 1")
        assert both(table)[0] is None
        twice = catalog.create_table("ns.twice", IDS)
        twice.append(rows(1))
        context, planned = context_of(twice, ("*",))
        files = planned.plain_columns()
        assert files is not None and plain_groups(context, files.take([0, 0])) is None
