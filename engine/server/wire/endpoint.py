"""An operation of the REST document: its method, its path as the document has it, and the function that answers."""

from __future__ import annotations

from attrs import frozen

from icecore.engine.server.wire.call import Operation

V1 = "/v1"


@frozen
class Endpoint:
    """One operation. `is_write` operations are made one at a time; `path` follows `/v1/{prefix}`, or `/v1` alone."""

    method: str
    path: str
    answer: Operation
    is_write: bool = False
    has_prefix: bool = True

    @property
    def documented(self) -> str:
        """The operation as a server lists it among its `endpoints`."""
        return f"{self.method} {V1}{'/{prefix}' if self.has_prefix else ''}{self.path}"
