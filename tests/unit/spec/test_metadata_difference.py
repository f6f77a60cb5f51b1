"""What an adopted commit did is told in the words of our own commits, removed schemas and specs included."""

from __future__ import annotations

from typing import Any

from core_tables import make_table

import icecore
from icecore.engine.metadata.metadata_difference import metadata_difference
from icecore.engine.spec.metadata import TableMetadata


def told(before: TableMetadata, after: TableMetadata) -> list[dict[str, Any]]:
    return [u.to_dict() for u in metadata_difference(before, after)]


def test_removed_schemas_and_specs(catalog: icecore.Catalog) -> None:
    """As an expiry in another engine removes them; the id of another spec by now is told as removed and added."""
    table = make_table(catalog, partition_spec=["name"])
    first = table.metadata
    with table.update_spec() as spec:
        spec.remove_field("name").add_field("bucket(4, id)")
    with table.update_schema() as schema:
        schema.delete_column("name")
    second = table.metadata
    assert [u["action"] for u in told(first, second)] == [
        *("add-schema", "set-current-schema", "add-spec", "set-default-spec")
    ]
    gone = [{"action": "remove-schemas", "schema-ids": [0]}, {"action": "remove-partition-specs", "spec-ids": [0]}]
    catalog.commit_table("ns.t", requirements=[], updates=gone)
    third = table.refresh().metadata
    assert told(second, third) == gone and told(third, third) == []
    spec_again = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1002, "transform": "identity", "name": "i"}]}
    added = {"action": "add-spec", "spec": spec_again}
    moved = metadata_of(third, added)
    assert told(second, moved) == [*gone, added]


def metadata_of(before: TableMetadata, update: dict[str, Any]) -> TableMetadata:
    obj = before.to_dict()
    obj["partition-specs"].append(update["spec"])
    return TableMetadata.from_dict(obj | {"last-partition-id": 1002})
