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
    """The answer without words of what was carried out before."""
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

    `is_write` operations change something. Under an idempotency key they are carried out once; `again` answers
    the same request when it comes again. `has_keys` ones change nothing and may have a key, too. `is_bodiless` ones say
    all in their path, where others that are posted need a body. `refusal` is how one is refused that the server could
    not carry out, where nothing was stored. A token must grant `level` in the namespaces that a call names; `is_of_all`
    operations name none and tell of the whole catalog, `is_open` ones need no token and have no keys. Those with
    `has_dry_run` can be asked for what they would do. The body of an `is_form` operation is no JSON; `is_page` ones are
    for browsers, where a token is the password; `is_audit` ones of these look for findings.
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
        """Whether a request without a body is none, as the document says of what creates or changes something."""
        return self.method == "POST" and self.is_write and not self.is_bodiless

    @property
    def documented(self) -> str:
        """The operation as a server lists it among its `endpoints`."""
        return f"{self.method} {V1}{'/{prefix}' if self.has_prefix else ''}{self.path}"
