"""Registration of tables and views that another engine wrote: their metadata goes into the log as it is."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA
from icecore.engine.common.location import LocationMapping, to_uri
from icecore.engine.errors import CorruptFileError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.events.files_of_others import kept_file
from icecore.engine.properties.table_properties import VIEW_METADATA_COMPRESSION
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.view import ViewMetadata
from icecore.engine.storage.file_io import Storage

_VERSION = re.compile(r"^(?:v(\d+)|(\d+)-.*?)(?:\.gz)?\.metadata\.json(?:\.gz)?$")


def registration_payload(
    identifier: tuple[str, ...], metadata_location: str, location_mapping: Mapping[str, str] | None, storage: Storage
) -> tuple[dict[str, Any], str]:
    """The payload of a `table.registered` event, and the table's UUID.

    Raises MissingFileError, CorruptFileError naming the file, UnsupportedFormatVersionError.
    """
    mapping = LocationMapping.of({old: to_uri(new) for old, new in (location_mapping or {}).items()})
    data = evolve(storage, mapping=mapping).read_bytes(metadata_location, MOST_BYTES_OF_METADATA)
    metadata = parse_metadata_file(data, metadata_location)
    if metadata.table_uuid is None:
        # v1 tables may lack a UUID; one made from the file stays the same if the file is registered again.
        derived = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{metadata.location}#{hashlib.sha256(data).hexdigest()}"))
        metadata = evolve(metadata, table_uuid=derived)
    table_uuid = metadata.table_uuid
    assert table_uuid is not None, "it was filled in above"
    payload = {
        "identifier": list(identifier),
        "metadata-location": to_uri(metadata_location),
        "metadata-version": metadata_version(metadata_location),
        "metadata": metadata.to_dict(),
        **kept_file(data),
        "location-mapping": mapping.to_dict(),
    }
    return payload, table_uuid


def view_registration_payload(
    identifier: tuple[str, ...], metadata_location: str, storage: Storage
) -> tuple[dict[str, Any], str]:
    """The payload of a `view.registered` event, and the view's UUID.

    Raises MissingFileError, CorruptFileError naming the file, UnsupportedFormatVersionError.
    """
    data = storage.read_bytes(metadata_location, MOST_BYTES_OF_METADATA)
    try:
        metadata = ViewMetadata.from_json(data)
        VIEW_METADATA_COMPRESSION.of(metadata.properties)
    except UnsupportedFormatVersionError as e:
        raise UnsupportedFormatVersionError(f"{metadata_location}: {e}") from e
    except ValidationError as e:
        raise CorruptFileError(f"{metadata_location}: {e}") from e
    payload = {
        "identifier": list(identifier),
        "metadata-location": to_uri(metadata_location),
        "metadata-version": metadata_version(metadata_location),
        "metadata": metadata.to_dict(),
        **kept_file(data),
    }
    return payload, metadata.view_uuid


def parse_metadata_file(data: bytes, location: str) -> TableMetadata:
    """The metadata of a file. Raises CorruptFileError naming it, UnsupportedFormatVersionError."""
    try:
        return TableMetadata.from_json(data)
    except UnsupportedFormatVersionError as e:
        raise UnsupportedFormatVersionError(f"{location}: {e}") from e
    except ValidationError as e:
        raise CorruptFileError(f"{location}: {e}") from e


def metadata_version(location: str) -> int:
    """The version in a metadata file's name (MD7); 0 where it has none."""
    m = _VERSION.match(location.rsplit("/", 1)[-1])
    return int(m[1] or m[2]) if m else 0
