"""The catalog as of a position of the log or a time, which a prefix of paths names: `at/<position or time>`."""

from __future__ import annotations

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.text import number_in
from icecore.engine.errors import ReadOnlyError
from icecore.engine.expression.timestamps import to_epoch_ms
from icecore.engine.server.wire.endpoint import Endpoint

AT = "at/"


def past(catalog: Catalog, at: str) -> CatalogAt:
    """The catalog as of a position, or a time in ISO 8601. Raises ValidationError."""
    position = number_in(at)
    return catalog.at(timestamp=at) if position is None else catalog.at(position)


def check_at(at: str) -> None:
    """Raises ValidationError for what is neither a position nor a time.

    Whether the log goes so far is told to those alone who may read: that is how many events there are.
    """
    if number_in(at) is None:
        to_epoch_ms(at, "timestamp")


def check_reads(endpoint: Endpoint, at: str) -> None:
    """Raises ReadOnlyError for an operation that changes something."""
    if endpoint.is_write:
        raise ReadOnlyError(f"the catalog as of {at[:60]} can only be read")
