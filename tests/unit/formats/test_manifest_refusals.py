"""Entries that a manifest can't hold are refused before it is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from own_manifests import BY_DAY, DV, EQUALITY, SIMPLE, entry, write

from icecore.engine.errors import UnsupportedFormatVersionError, ValidationError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import UnknownTransform


@pytest.mark.parametrize(
    ("table", "version", "content", "words"),
    [
        (entry({}), 1, ManifestContent.DATA, "snapshot id"),
        (entry({}), 1, ManifestContent.DELETES, "no delete manifests"),
        (entry({"status": 0}), 2, ManifestContent.DATA, "inherits it, found sequence_number"),
        (
            entry({"status": 2, "file_sequence_number": 3}),
            2,
            ManifestContent.DATA,
            "inherits it, found sequence_number",
        ),
        (entry({"spec_id": 0}), 2, ManifestContent.DATA, "partition spec 7, found spec_id 0"),
        (entry({"status": 3}), 2, ManifestContent.DATA, "status"),
        (entry({"first_row_id": 1}), 2, ManifestContent.DATA, "first_row_id"),
        (entry({"partition": [(999, b"")]}), 2, ManifestContent.DATA, r"partition field \[999\]"),
        (entry({"partition": [(1000, b"12")]}), 2, ManifestContent.DATA, "not a binary value"),
        (entry({}, EQUALITY), 2, ManifestContent.DATA, "content 2"),
        (entry({}), 2, ManifestContent.DELETES, "content 0"),
        (entry({"equality_ids": None}, EQUALITY), 2, ManifestContent.DELETES, "equality_ids"),
        (entry({"content_offset": None}, DV), 3, ManifestContent.DELETES, "deletion vector"),
        (entry({"content_offset": None, "content_size_in_bytes": None}, DV), 2, ManifestContent.DELETES, "version 3"),
    ],
)
def test_M2_M4_D1_what_a_manifest_can_not_hold_is_refused(
    table: pa.Table, version: int, content: ManifestContent, words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        write(table, BY_DAY, SIMPLE, version, content=content)


def test_G1_unknown_versions_codecs_and_transforms_are_refused() -> None:
    with pytest.raises(UnsupportedFormatVersionError):
        write(entry({}), BY_DAY, SIMPLE, 4)
    with pytest.raises(ValidationError, match="codec"):
        write(entry({}), BY_DAY, SIMPLE, codec="lzo")
    unknown = PartitionSpec((PartitionField((1,), 1000, UnknownTransform("zorder"), "z"),), 7)
    with pytest.raises(ValidationError, match="unknown transform"):
        write(ENTRY_SCHEMA.empty_table(), unknown, SIMPLE)
