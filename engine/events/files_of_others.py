"""The files of others as events keep them: metadata files of adopted commits, and manifests and manifest lists.

Their writers differ from ours, so their bytes follow from nothing else. A metadata file is in the payload, compressed;
manifests and lists are named there, and their bytes stand behind the event's entries: see `formats/event_content.py`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from icecore.engine.common.compressed_json import decompress
from icecore.engine.common.json_reader import get, get_list, loads
from icecore.engine.errors import CorruptLogError, ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.metadata_json import WHERE

KEPT_FILES = "kept-files"
METADATA_FILE = "metadata-file"
MANIFEST, MANIFEST_LIST = "manifest", "manifest-list"
MOST_BYTES = 256 * 2**20
"""The most bytes of files that one event keeps; of further files it has only length and checksum."""


def kept_file(data: bytes) -> dict[str, Any]:
    """The part of an event's payload that holds the file."""
    return {
        METADATA_FILE: base64.b64encode(zlib.compress(data, 6)).decode(),
        "metadata-sha256": hashlib.sha256(data).hexdigest(),
        "metadata-length": len(data),
    }


def original_bytes(payload: Mapping[str, Any]) -> bytes:
    """The bytes of the metadata file that an event adopted. Raises CorruptLogError where they are not there whole."""
    where = payload["metadata-location"]
    try:
        data = zlib.decompress(base64.b64decode(payload[METADATA_FILE], validate=True))
    except (zlib.error, binascii.Error, KeyError, TypeError, ValueError) as e:
        raise CorruptLogError(f"the log's copy of {where} can't be read: {e}") from e
    if hashlib.sha256(data).hexdigest() != payload["metadata-sha256"]:
        raise CorruptLogError(f"the log's copy of {where} is not what was adopted")
    return data


def adopted_dict(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of the metadata file that an event adopted. Raises CorruptLogError where it can't be read."""
    try:
        found: dict[str, Any] = loads(decompress(original_bytes(payload)), WHERE)
    except ValidationError as e:
        raise CorruptLogError(f"the log's copy of {payload['metadata-location']} can't be read: {e}") from e
    return found


def adopted_metadata(payload: Mapping[str, Any], table_uuid: str | None) -> TableMetadata:
    """The metadata that a `table.adopted` event brings; `table_uuid` is the table's, which v1 files may lack (G1).

    Early events have it beside the file. Raises CorruptLogError where it can't be read.
    """
    try:
        metadata = TableMetadata.from_dict(payload["metadata"] if "metadata" in payload else adopted_dict(payload))
    except ValidationError as e:
        raise CorruptLogError(f"the log's copy of {payload['metadata-location']} can't be read: {e}") from e
    return metadata if metadata.table_uuid is not None else evolve(metadata, table_uuid=table_uuid)


@frozen
class GivenFile:
    """A file that somebody else wrote; its kind is `manifest` or `manifest-list`."""

    location: str
    kind: str
    data: bytes = field(repr=False)


@frozen
class KeptFile:
    """A file as an event names it: its length in bytes and SHA-256, and whether its bytes are beside the event."""

    location: str
    kind: str
    length: int
    sha256: str
    has_bytes: bool = True

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"location": self.location, "kind": self.kind}
        out |= {"length": self.length, "sha256": self.sha256}
        return out if self.has_bytes else out | {"has-bytes": False}


@frozen
class Keeping:
    """The part of an event that keeps files: what its payload says, and their bytes by location."""

    files: tuple[KeptFile, ...]
    data: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, given: Iterable[GivenFile]) -> Keeping:
        """The files as an event keeps them, as many of them whole as fit."""
        files, data, size = [], dict[str, bytes](), 0
        for g in given:
            fits = size + len(g.data) <= MOST_BYTES
            if fits:
                data[g.location], size = g.data, size + len(g.data)
            files.append(KeptFile(g.location, g.kind, len(g.data), hashlib.sha256(g.data).hexdigest(), fits))
        return cls(tuple(files), data)

    def to_payload(self) -> dict[str, Any]:
        return {KEPT_FILES: [f.to_dict() for f in self.files]} if self.files else {}


def kept_files(payload: Mapping[str, Any]) -> tuple[KeptFile, ...]:
    """The files that an event's payload names as kept. Raises ValidationError where they can't be read."""
    where = "a kept file"
    return tuple(
        KeptFile(
            get(f, "location", str, where),
            get(f, "kind", str, where),
            get(f, "length", int, where),
            get(f, "sha256", str, where),
            get(f, "has-bytes", bool, where, True),
        )
        for f in get_list(payload, KEPT_FILES, "payload", default=[])
    )
