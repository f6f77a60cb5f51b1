"""Other engines write null for partition values of a dropped column: files stay of one partition (SP5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import SCHEMA, ids_of, local, make_table
from pinned_files import position_deletes, rewritten

import icecore
from icecore.engine.errors import CommitConflictError, CorruptFileError, ValidationError
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro, write_manifest
from icecore.engine.spec.content_file import ManifestContent

MERGE = {"write.delete.mode": "merge-on-read"}
KINDS = ("vector", "named", "unnamed", "equality")
Change = Callable[[Any], Any]
PARTITION_FIELD = 1000


def lost(value: Any) -> Any:
    return None


def partitioned(catalog: icecore.Catalog, kind: str) -> icecore.Table:
    """Rows 1 and 2 in one partition, 3 and 4 in two others; 1 is deleted, and then the partition's column dropped."""
    granularity = {"write.delete.granularity": "partition" if kind == "unnamed" else "file"}
    version = 3 if kind == "vector" else 2
    table = make_table(catalog, partition_spec=["name"], properties=MERGE | granularity, format_version=version)
    table.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "a", "b", None]}, schema=SCHEMA))
    if kind == "equality":
        table.delete_keys(pa.table({"id": [1], "name": ["a"]}, schema=SCHEMA), ["id", "name"])
    else:
        table.delete("id = 1")
    table.update_spec().remove_field("name").commit()
    table.update_schema().delete_column(("name",)).commit()
    return table


def change_partitions(table: icecore.Table, content: ManifestContent, change: Change, *, is_named: bool = True) -> None:
    """Writes the manifests of a kind again, where they are, with other partition values."""
    for listed in table.manifests():
        if listed.manifest.content is not content:
            continue
        path, spec = local(listed.manifest.manifest_path), table.metadata.specs[0]
        entries = decode_manifest_fastavro(path.read_bytes(), where=str(path), spec_id=0, metadata_spec=spec)
        changed = entries.to_pylist()
        for entry in changed:
            entry["partition"] = [(f, change(v) if f == PARTITION_FIELD else v) for f, v in entry["partition"]]
            if not is_named:
                entry["referenced_data_file"] = None
        path.write_bytes(
            write_manifest(
                pa.Table.from_pylist(changed, schema=entries.schema),
                spec=spec, schema=table.schema(), all_fields=table.metadata.all_fields, content=content,
                format_version=table.format_version, sync_marker=bytes(16),
            )
        )  # fmt: skip


@pytest.fixture
def again(tmp_path: Path) -> Callable[[icecore.Table], icecore.Table]:
    """The table in a warehouse that knows nothing but its files."""

    def register(table: icecore.Table) -> icecore.Table:
        metadata = tmp_path / "v9.metadata.json"
        metadata.write_bytes(local(table.metadata_location).read_bytes())
        ours = icecore.open(tmp_path / "ours")
        ours.create_namespace("ns")
        return ours.register_table("ns.t", str(metadata))

    return register


@pytest.mark.parametrize("content", ManifestContent)
@pytest.mark.parametrize("kind", KINDS)
def test_SP5_deletes_apply_where_one_side_has_lost_its_values(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table], kind: str, content: ManifestContent
) -> None:
    theirs = partitioned(catalog, kind)
    change_partitions(theirs, content, lost)
    if kind == "unnamed":
        change_partitions(theirs, ManifestContent.DELETES, lambda value: value, is_named=False)
    ours = again(theirs)
    assert ids_of(ours) == [2, 3, 4]
    assert ours.scan().count() == 3
    # What other engines have of the partition is a null for all: the rows written again are the same.
    ours.rewrite_data_files(options={"rewrite-all": True})
    assert ids_of(ours) == [2, 3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_SP7_values_that_differ_are_of_two_partitions_all_the_same(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table], kind: str
) -> None:
    theirs = partitioned(catalog, kind)
    change_partitions(theirs, ManifestContent.DELETES, lambda _: b"z", is_named=kind != "unnamed")
    ours = again(theirs)
    if kind in ("vector", "named"):
        with pytest.raises(CorruptFileError, match="which is in another partition"):
            ours.scan().plan_files()
    else:
        assert ids_of(ours) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["vector", "named"])
def test_SP7_a_null_is_a_partition_of_its_own_as_long_as_the_column_is_there(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table], kind: str
) -> None:
    theirs = make_table(catalog, partition_spec=["name"], properties=MERGE, format_version=3 if kind == "vector" else 2)
    theirs.append(pa.table({"id": [1, 2], "name": ["a", "a"]}, schema=SCHEMA))
    theirs.delete("id = 1")
    change_partitions(theirs, ManifestContent.DELETES, lost)
    with pytest.raises(CorruptFileError, match="which is in another partition"):
        again(theirs).scan().plan_files()


@pytest.mark.parametrize("kind", ["vector", "named"])
def test_SP7_a_row_delta_may_name_a_file_by_the_partition_that_another_engine_saw(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table], kind: str
) -> None:
    theirs = partitioned(catalog, kind)
    ours = again(theirs)
    [deletes] = position_deletes(ours, "id = 3")
    other = [f.file.partition for f in ours.scan().plan_files() if f.file.partition not in (deletes.partition, (None,))]
    with pytest.raises(ValidationError, match="which is in another partition"):
        ours.row_delta([], [evolve(deletes, partition=other[0])])
    ours.row_delta([], [evolve(deletes, partition=(None,))])
    assert ids_of(ours) == [2, 4]


def test_SP5_a_named_plan_learns_of_deletes_whose_partition_has_lost_its_value(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table]
) -> None:
    """It keeps what it knows of the data manifests, which have the value."""
    ours = again(partitioned(catalog, "named"))
    assert len(ours.prefetch(name="p").plan_files()) == 3
    [deletes] = position_deletes(ours, "id = 3")
    ours.row_delta([], [evolve(deletes, partition=(None,), referenced_data_file=None)])
    tasks = [ours.named_plan("p").plan_files(), ours.scan().plan_files()]
    assert [sorted(len(t.delete_files) for t in found) for found in tasks] == [[0, 1, 1]] * 2


def test_SP5_a_commit_from_an_earlier_base_sees_deletes_whose_partition_has_lost_its_value(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table]
) -> None:
    ours = again(partitioned(catalog, "named"))
    [deletes] = position_deletes(ours, "id = 3")
    gone, added = rewritten(ours, "id = 3")
    base = ours.current_snapshot()
    assert base is not None
    ours.row_delta([], [evolve(deletes, partition=(None,), referenced_data_file=None)])
    with pytest.raises(CommitConflictError, match="delete"):
        ours.rewrite_files([f.file_path for f in gone], added, base_snapshot_id=base.snapshot_id)


@pytest.mark.parametrize("content", ManifestContent)
@pytest.mark.parametrize("kind", ["vector", "named"])
def test_MD5_partition_statistics_count_rows_where_their_file_is(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table], kind: str, content: ManifestContent
) -> None:
    """By vectors, whatever partition they say; other deletes by position leave the number of rows unknown."""
    theirs = partitioned(catalog, kind)
    change_partitions(theirs, content, lost)
    ours = again(theirs)
    assert ours.compute_partition_statistics() is not None
    found = ours.partition_statistics()
    assert found is not None
    counts = {r["partition"]["name"]: (r["data_record_count"], r["total_record_count"]) for r in found.to_pylist()}
    known = kind == "vector"
    expected: dict[str | None, tuple[int, int | None]] = {"a": (2, 1), "b": (1, 1), None: (1, 1)}
    if content is ManifestContent.DATA:
        expected = {"a": (0, 0), None: (4, 3)}
    assert counts == {name: (rows, total if known else None) for name, (rows, total) in expected.items()}


def test_SP8_a_column_that_came_back_is_not_looked_up_in_values_that_were_lost(
    catalog: icecore.Catalog, again: Callable[[icecore.Table], icecore.Table]
) -> None:
    theirs = partitioned(catalog, "named")
    catalog.revert(catalog.position)
    change_partitions(theirs, ManifestContent.DATA, lost)
    ours = again(theirs.refresh())
    for where, expected in (("name = 'a'", [2]), ("name = 'b'", [3]), ("name IS NULL", [4]), ("name < 'b'", [2])):
        assert ids_of(ours, row_filter=where) == expected
        assert ours.scan(where).count() == len(expected)
    assert ours.scan().aggregate("count(name)", "min(name)", "max(name)").answers == (2, "a", "b")
    reasons = [r["reason"] for r in ours.scan("name = 'b'").explain().to_arrow().to_pylist()]
    assert sorted(reasons) == ["metrics", "metrics", "planned"]
    ours.delete("name = 'b'")
    assert ids_of(ours) == [2, 4]


def test_SP8_a_column_that_is_younger_than_the_table_is_looked_up(catalog: icecore.Catalog) -> None:
    """Earlier schemas lack it too, but nothing of it was ever lost."""
    table = make_table(catalog)
    table.update_schema().add_column("part", "long").commit()
    table.update_spec().add_identity("part").commit()
    table.append(pa.table({"id": [1, 2], "part": [1, 2]}))
    assert table.scan("part = 1").plan().counts.pruned_by_partition == 1
