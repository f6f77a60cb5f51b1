"""Position deletes are of the partitions of the files that they are for. Spec: partition equality (SP5), SP7."""

from __future__ import annotations

import contextlib
import math
import struct

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import ids_of, make_table, respec, rows

import icecore
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import CommitConflictError, ConflictingCommitsError, ValidationError
from icecore.engine.spec.types import LongType
from icecore.engine.table.written_files import WrittenFiles

KINDS = [(2, "file"), (2, "partition"), (3, "file")]


@pytest.mark.parametrize(("version", "granularity"), KINDS)
def test_sp5_deletes_of_both_zeros_are_of_two_partitions(
    catalog: icecore.Catalog, version: int, granularity: str
) -> None:
    """0.0 and -0.0 are equal to Python: of one partition for both the rows of one would come back, or be unreadable."""
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": granularity}
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    table = catalog.create_table("ns.t", schema, partition_spec=["x"], format_version=version, properties=properties)
    table.append([{"id": i, "x": x} for x in (0.0, -0.0, math.nan) for i in range(4)])
    table.delete("id = 1")
    table.delete("id = 2")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 0, 0, 3, 3, 3]
    table.rewrite_position_delete_files()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 0, 0, 3, 3, 3]
    assert catalog.verify(deep=True).ok


@pytest.mark.parametrize("then", ["file", "partition"])
@pytest.mark.parametrize("partial", ["false", "true"])
def test_a_merge_of_deletes_that_files_share_is_done_once(catalog: icecore.Catalog, then: str, partial: str) -> None:
    """A file that only shares a delete file is merged too: that one would stay, and each call would write another."""
    shared = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = make_table(catalog, format_version=2, properties=shared)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    table.delete("id in (1, 4)")
    table.delete("id = 2")
    table.set_properties({"write.delete.granularity": then})
    options = {"partial-progress.enabled": partial}
    result = table.rewrite_position_delete_files(options=options)
    assert (result.removed_delete_files, result.added_delete_files) == (2, 1 if then == "partition" else 2)
    assert [len(task.delete_files) for task in table.scan().plan_files()] == [1, 1] and ids_of(table) == [3, 5, 6]
    position = catalog.position
    assert table.rewrite_position_delete_files(options=options).added_delete_files == 0
    assert catalog.position == position


def test_sp5_nan_of_other_bits_is_the_same_partition(catalog: icecore.Catalog) -> None:
    """Others write it as their processor made it; such a file takes the place of all that are there."""
    data = pa.table({"id": [1], "x": [math.nan]})
    table = catalog.create_table("ns.t", data.schema, partition_spec=["x"])
    [file] = write_data_files(
        data,
        schema=table.schema(),
        spec=table.spec(),
        location=f"{table.location()}/data",
        storage=table.scan().storage,
        properties={},
        file_prefix="of-others",
    )
    [other] = struct.unpack("<d", (0xFFF8 << 48).to_bytes(8, "little"))
    table.append(pa.table({"id": [2], "x": [math.nan]}))
    table.dynamic_partition_overwrite(WrittenFiles((evolve(file, partition=(other,)),)))
    assert table.scan().to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("promotes", [False, True])
def test_sp5_a_partition_is_the_same_after_a_promotion(catalog: icecore.Catalog, promotes: bool) -> None:
    """Manifests from before have narrower bytes of it: deletes by key would take a row from a file that comes back."""

    def data(i: int) -> pa.Table:
        kind = pa.int64() if table.schema().find_field("p").field_type == LongType() else pa.int32()
        return pa.table({"id": pa.array([i]), "p": pa.array([1], kind)})

    def promote() -> None:
        if promotes:
            with table.update_schema() as update:
                update.update_column("p", LongType())

    schema, options = pa.schema([("id", pa.int64()), ("p", pa.int32())]), {"write.wap.enabled": "true"}
    table = catalog.create_table("ns.t", schema, partition_spec=["p"], properties=options)
    table.append(data(1))
    table.dynamic_partition_overwrite(data(2), snapshot_properties={"wap.id": "w"})
    table.delete("p = 1")
    deleted = catalog.position
    promote()
    with table.transaction() as changes:
        changes.delete_keys(data(1), ["id"])
    with pytest.raises(CommitConflictError, match="other delete files than then"):
        catalog.revert(deleted)
    table.append(data(3))
    with pytest.raises(ValidationError, match="added files to a partition that it replaces"):
        table.manage_snapshots().publish("w").commit()
    table.overwrite(data(4))
    head = table.current_snapshot()
    assert head is not None and head.summary is not None and head.summary["changed-partition-count"] == "1"


@pytest.mark.parametrize("spec", [None, ["name"]])
def test_sp6_keys_are_deleted_whatever_spec_came_meanwhile_or_not_at_all(
    catalog: icecore.Catalog, spec: list[str] | None
) -> None:
    """Files that another commit wrote by a new spec would keep rows that were to be deleted in old partitions."""
    table = make_table(catalog, partition_spec=spec)
    table.append(rows(1, 2))
    transaction, other = table.transaction(), catalog.load_table("ns.t")
    transaction.delete_keys(rows(1), ["id"])
    respec(other, ["bucket(2, id)"])
    other.rewrite_data_files(options={"rewrite-all": "true"})
    refused = pytest.raises(ConflictingCommitsError, match=r"ns\.t: keys were deleted in partitions of spec 0")
    with refused if spec else contextlib.nullcontext():
        transaction.commit()
    assert ids_of(table.refresh()) == ([1, 2] if spec else [2])
