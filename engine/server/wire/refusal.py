"""The answers to requests that the server could not carry out for a reason of its own, as a lock or a full disk.

Clients take 500, 502, 503 and 504 for a commit to mean that it may have been made: they keep its files and go no
further. So these are for requests that may have been stored; where nothing was stored, the answer says so. Any other
request that another process's lock on the log stands in the way of gets 429: 409 would say of a drop that the namespace
is not empty and of a rename that the name is taken, and clients try no other 4xx again by themselves.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Mapping
from typing import Any

from icecore.engine.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    IcecoreError,
    MissingFileError,
    StorageError,
    ValidationError,
    WarehouseLockedError,
)
from icecore.engine.spec.updates.requirement import AssertCreate


class Refusal(enum.Enum):
    """The way in which a request is refused where nothing of it was stored: by status and Java's class.

    A creation is never refused with 409, which says that the name is taken: `IF NOT EXISTS` would pass over it.
    """

    AS_IT_IS = None
    COMMIT = (409, "CommitFailedException")
    CREATION = (400, "BadRequestException")

    def of(self, body: Mapping[str, Any]) -> Refusal:
        """The way for a request of that body: a commit that asserts that there is no table yet creates one."""
        asserted = body.get("requirements")
        creates = isinstance(asserted, list) and {"type": AssertCreate.type} in asserted
        return Refusal.CREATION if self is Refusal.COMMIT and creates else self

    def answer_to(self, error: IcecoreError, *, is_stored: bool) -> tuple[int, str]:
        """The status and the Java class for an error; `is_stored` says that something was committed before it."""
        if is_stored:
            return CommitStateUnknownError.http_status, CommitStateUnknownError.rest_type
        is_own = error.http_status >= 500 or isinstance(error, StorageError | WarehouseLockedError)
        given: tuple[int, str] | None = self.value
        if is_own and given is not None and not isinstance(error, CommitStateUnknownError):
            return given
        return error.http_status, error.rest_type


@contextlib.contextmanager
def refusing_file() -> Iterator[None]:
    """A context that makes a bad request of a file that the client chose and that can't be read or is of another kind.

    A missing file stays 404. Raises ValidationError.
    """
    try:
        yield
    except MissingFileError:
        raise
    except (CorruptFileError, StorageError) as e:
        raise ValidationError(str(e)) from e
