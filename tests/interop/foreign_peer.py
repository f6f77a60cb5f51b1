"""What tests of PyIceberg beside the log look at: the kinds of events, and where a table's metadata file is."""

from __future__ import annotations

from core_tables import store_of
from pyiceberg.catalog.sql import SqlCatalog

import icecore


def kinds(catalog: icecore.Catalog, after: int = 0) -> list[str]:
    return [e.kind for e in store_of(catalog).events(after)]


def location_of(peer: SqlCatalog, name: str = "ns.t") -> str:
    found: str = peer.load_table(name).metadata_location
    return found
