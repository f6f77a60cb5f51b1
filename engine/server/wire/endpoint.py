"""An operation of the REST document: its method, its path as the document has it, and the function that answers."""

from __future__ import annotations

import enum
from collections.abc import Callable

from attrs import frozen

from icecore.engine.log.request_keys import StoredAnswer
from icecore.engine.server.auth.grants import Level
from icecore.engine.server.wire.answer import NO_CONTENT, Answer
from icecore.engine.server.wire.call import Call, Handler
from icecore.engine.server.wire.refusal import Refusal

V1 = "/v1"
Again = Callable[[Call, StoredAnswer], Answer]


def nothing_again(_call: Call, _stored: StoredAnswer) -> Answer:
    """The answer without a body, for a request that was carried out before."""
    return NO_CONTENT


class Work(enum.Enum):
    """A kind of work, which has threads of its own."""

    READ = "reader"
    WRITE = "writer"
    PAGE = "page"
    AUDIT = "audit"


@frozen
class Endpoint:
    """One operation; `path` follows `/v1/{prefix}`, or `/v1` alone.

    `is_write` operations change something. Under an idempotency key they are carried out once, and `again` answers the
    same request when it comes again. `has_keys` ones change nothing, yet take a key. `is_bodiless` ones need no body,
    which other writes by POST do. `refusal` is the answer where the server could not carry the operation out and
    nothing was stored. A token must grant `level` in the namespaces that a call names; `is_of_all` operations name none
    and are about the whole catalog, `is_open` ones need no token and take no keys. `has_dry_run` ones can be asked for
    what they would do. `is_form` ones read a form, not JSON. `is_page` ones are for browsers, where a token is the
    password, and those with `is_audit` look for findings.
    """

    method: str
    path: str
    answer: Handler
    is_write: bool = False
    has_dry_run: bool = False
    has_keys: bool = False
    is_bodiless: bool = False
    again: Again = nothing_again
    has_prefix: bool = True
    refusal: Refusal = Refusal.AS_IT_IS
    asks: Level | None = None
    is_of_all: bool = False
    is_open: bool = False
    is_form: bool = False
    is_page: bool = False
    is_audit: bool = False

    @property
    def work(self) -> Work:
        """The kind of work that it is."""
        if self.is_audit:
            return Work.AUDIT
        return Work.PAGE if self.is_page else Work.WRITE if self.is_write else Work.READ

    @property
    def level(self) -> Level:
        """The level that a token must grant: `asks`, else `manage` where something is changed and `read` where not."""
        return self.asks or (Level.MANAGE if self.is_write else Level.READ)

    @property
    def needs_body(self) -> bool:
        """Whether a request must have a body, as the document says of most that create or change something."""
        return self.method == "POST" and self.is_write and not self.is_bodiless

    @property
    def documented(self) -> str:
        """The operation as a server lists it among its `endpoints`."""
        return f"{self.method} {V1}{'/{prefix}' if self.has_prefix else ''}{self.path}"
