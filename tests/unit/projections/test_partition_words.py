"""Partitions in words are those that folders of data files have."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import icecore
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.formats.entry_arrow import encode_partition
from icecore.projections.entries.partition_words import PartitionWords

SCHEMA = parse_schema("s string, d date, ts timestamptz, n decimal(9, 2), u uuid, b binary, flag boolean")
FIELDS = {
    "s": ("a/b=c é", "a/b=c é", "s=a%2Fb%3Dc+%C3%A9"),
    "bucket(8, s)": (3, "3", "s_bucket_8=3"),
    "d": (19_000, "2022-01-08", "d=2022-01-08"),
    "month(d)": (-1, "1969-12", "d_month=1969-12"),
    "hour(ts)": (455_000, "2021-11-27-08", "ts_hour=2021-11-27-08"),
    "n": (Decimal("-1.50"), "-1.50", "n=-1.50"),
    "u": (UUID(int=5), f"{UUID(int=5)}", f"u={UUID(int=5)}"),
    "truncate(2, b)": (b"\xff\x00", "/wA=", "b_trunc_2=%2FwA%3D"),
    "flag": (True, "true", "flag=true"),
}


def test_words_are_those_of_the_folders(catalog: icecore.Catalog) -> None:
    """Of every kind of value and of nulls, of the fields that each spec has."""
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=list(FIELDS))
    first = table.metadata.default_spec_id
    table.update_spec().remove_field("s").commit()
    metadata = table.metadata
    words = PartitionWords(metadata)
    for values in ([v for v, _, _ in FIELDS.values()], [None] * len(FIELDS)):
        for spec_id in (first, metadata.default_spec_id):
            spec = metadata.specs[spec_id]
            chosen = values[len(values) - len(spec.fields) :]
            items = encode_partition(spec, metadata.all_fields, chosen)
            assert words.path(spec_id, items) == spec.partition_to_path(chosen, metadata.all_fields)
    items = encode_partition(metadata.specs[first], metadata.all_fields, [v for v, _, _ in FIELDS.values()])
    assert words.path(first, items) == "/".join(segment for _, _, segment in FIELDS.values())
    assert [text for _, text in words.texts(first, items)] == [text for _, text, _ in FIELDS.values()]
    assert {text for _, text in words.texts(first, None)} == {None}
