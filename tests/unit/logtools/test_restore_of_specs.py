"""A restore brings back partition specs that a commit since then removed, by the ids that manifests name (PT1)."""

from __future__ import annotations

import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import CommitConflictError, ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


def respecified(catalog: icecore.Catalog) -> tuple[icecore.Table, int]:
    """A table with a row by spec 1 and none by spec 2, which is the default, without spec 1; and when it was whole."""
    table = catalog.create_table("ns.t", SCHEMA)
    for field in ("city", "bucket(4, id)"):
        with table.update_spec() as update:
            for f in table.spec().fields:
                update.remove_field(f.name)
            update.add_field(field)
        if field == "city":
            table.append([{"id": 1, "city": "Oslo"}])
            whole = catalog.position
    table.delete("true")
    remove_specs(catalog, [1])
    return table.refresh(), whole


def remove_specs(catalog: icecore.Catalog, ids: list[int]) -> None:
    catalog.commit_table("ns.t", requirements=[], updates=[{"action": "remove-partition-specs", "spec-ids": ids}])


@pytest.mark.parametrize("default_goes", [False, True])
def test_rows_of_a_removed_spec_are_there_again(catalog: icecore.Catalog, default_goes: bool) -> None:
    """Whether or not the spec was the default then; a later restore of now goes back again."""
    table, whole = respecified(catalog)
    if default_goes:
        with table.update_spec() as update:
            update.remove_field("id_bucket_4")
        remove_specs(catalog, [2])
    now = catalog.position
    catalog.restore(whole, table="ns.t")
    table = catalog.load_table("ns.t")
    assert table.scan("city = 'Oslo'").to_arrow()["id"].to_pylist() == [1]
    assert table.spec() == catalog.at(whole).load_table("ns.t").spec()
    assert catalog.verify().ok
    table.append([{"id": 2, "city": "Rome"}])
    catalog.restore(now, table="ns.t")
    assert catalog.load_table("ns.t").scan().count() == 0 and catalog.verify().ok


def test_a_snapshot_whose_spec_is_gone_says_so(catalog: icecore.Catalog) -> None:
    """A client removed a spec that a snapshot needs: what its partitions are nobody knows."""
    table, whole = respecified(catalog)
    old = catalog.at(whole).load_table("ns.t").current_snapshot()
    assert old is not None
    scan = table.scan(snapshot_id=old.snapshot_id)
    for read in (scan.plan_files, scan.to_arrow):
        with pytest.raises(ValidationError, match=r"no partition spec 1; there are \[0, 2\]"):
            read()
    assert catalog.at(whole).load_table("ns.t").scan().count() == 1


def test_a_spec_whose_id_means_another_one_by_now(catalog: icecore.Catalog) -> None:
    """Its files would be taken for those of the other."""
    table, whole = respecified(catalog)
    spec = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1009, "transform": "identity", "name": "other"}]}
    catalog.commit_table("ns.t", requirements=[], updates=[{"action": "set-default-spec", "spec-id": 0}])
    remove_specs(catalog, [2])
    catalog.commit_table("ns.t", requirements=[], updates=[{"action": "add-spec", "spec": spec}])
    assert sorted(table.refresh().specs()) == [0, 1]
    with pytest.raises(CommitConflictError, match=r"ns\.t: partition spec 1 was removed, and is another one now"):
        catalog.restore(whole, table="ns.t")


@pytest.mark.parametrize("has_rows", [False, True])
def test_a_spec_whose_equal_has_another_id_by_now(catalog: icecore.Catalog, has_rows: bool) -> None:
    """Its files could not be read; a spec that has none is as good by the other id."""
    table, whole = respecified(catalog)
    if not has_rows:
        whole = catalog.position - 1
    with table.update_spec() as update:
        update.remove_field("id_bucket_4").add_field("city")
    assert sorted(table.refresh().specs()) == [0, 2, 3]
    if has_rows:
        with pytest.raises(CommitConflictError, match="spec 1 was removed, and an equal one has another id now"):
            catalog.restore(whole, table="ns.t")
    else:
        catalog.restore(whole, table="ns.t")
        assert table.refresh().spec().spec_id == 2 and table.scan().count() == 0
