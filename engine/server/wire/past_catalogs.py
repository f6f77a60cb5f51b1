"""The catalog as of a position of the log or a time, which a prefix of paths names: `at/<position or time>`."""

from __future__ import annotations

from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.text import number_in
from icecore.engine.errors import ForbiddenError, ReadOnlyError
from icecore.engine.expression.timestamps import to_epoch_ms
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint

AT = "at/"


def past(call: Call, at: str) -> CatalogAt:
    """The catalog as of a position, or a time in ISO 8601. Raises ValidationError, ForbiddenError.

    The positions that are there tell how many events the whole log has, so a client that may not read all of the
    catalog has to name a time.
    """
    if (position := number_in(at)) is None:
        return call.catalog.at(timestamp=at)
    if not call.may_read(()):
        raise ForbiddenError("positions are for who may read the whole catalog; a time can be named, as at/2030-01-31")
    return call.catalog.at(position)


def check_at(at: str) -> None:
    """Raises ValidationError for a text that is neither a position nor a time.

    It does not tell whether the log has the position, since only clients that may read all learn the number of events.
    """
    if number_in(at) is None:
        to_epoch_ms(at, "timestamp")


def check_reads(endpoint: Endpoint, at: str) -> None:
    """Raises ReadOnlyError for an operation that changes something."""
    if endpoint.is_write:
        raise ReadOnlyError(f"the catalog as of {at[:60]} can only be read")
