"""The metadata file of another engine as an event keeps it: its bytes, compressed, and what they say."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from icecore.engine.common.compressed_json import decompress
from icecore.engine.common.json_reader import loads
from icecore.engine.errors import CorruptLogError, ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.metadata_json import WHERE


def kept_file(data: bytes) -> dict[str, Any]:
    """The part of an event's payload that holds the file."""
    return {
        "metadata-file": base64.b64encode(zlib.compress(data, 6)).decode(),
        "metadata-sha256": hashlib.sha256(data).hexdigest(),
        "metadata-length": len(data),
    }


def original_bytes(payload: Mapping[str, Any]) -> bytes:
    """The bytes of the metadata file that an event adopted. Raises CorruptLogError where they are not there whole."""
    where = payload["metadata-location"]
    try:
        data = zlib.decompress(base64.b64decode(payload["metadata-file"], validate=True))
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
