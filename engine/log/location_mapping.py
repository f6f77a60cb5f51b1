"""The location mapping of a warehouse whose log came from elsewhere, to the present locations of its files."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from icecore.engine.common.location import LocationMapping, to_uri
from icecore.engine.errors import CorruptLogError, ValidationError
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log.warehouse_folder import SHARED, WarehouseFolder
from icecore.engine.storage.file_io import Storage

KEY = "location-mapping"


def storage_of(store: EventStore, folder: WarehouseFolder) -> Storage:
    """The storage of a warehouse. Raises CorruptLogError where its mapping can't be read."""
    shared = store.warehouse_value(SHARED)
    return Storage(
        mapping_of(store).then(folder.mapping()),
        refusal=store.refusal,
        only_under=None if shared is None else folder.root,
        shared=() if shared is None else tuple(orjson.loads(shared)),
    )


def mapping_of(store: EventStore) -> LocationMapping:
    """The mapping that a warehouse was imported with. Raises CorruptLogError where it can't be read."""
    text = store.warehouse_value(KEY)
    try:
        return LocationMapping.of(None if text is None else orjson.loads(text))
    except (ValueError, TypeError, AttributeError) as e:
        raise CorruptLogError(f"{store.path}: its location mapping can't be read: {e}") from e


def put_mapping(store: EventStore, location_mapping: Mapping[str, str]) -> None:
    """Stores the mapping of a warehouse that is new or empty.

    Raises ValidationError where the log has events, or a prefix is mapped to a place below itself, where no location
    could be told from one that was mapped already.
    """
    if store.head()[0]:
        raise ValidationError(f"{store.path.parent} is not empty: its log has {store.head()[0]} events")
    mapping = {to_uri(old).rstrip("/"): to_uri(new).rstrip("/") for old, new in location_mapping.items()}
    for old in mapping:
        for new in mapping.values():
            if f"{new}/".startswith(f"{old}/"):
                raise ValidationError(f"{old} can't be mapped while {new}, where locations lead to, lies below it")
    with store.write():
        store.execute(MODELS, "set_warehouse", key=KEY, value=orjson.dumps(mapping).decode())
