"""The settings of a server, and the limits among them, which are options of `icecore serve`."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

DEFAULT_PORT = 8181
LIMIT, LEAST = "limit", "least"


def _limit(default: float, text: str, least: int = 0) -> Any:
    """A limit from `least` on, with the words that `icecore serve` has for its option."""
    return field(default=default, metadata={LIMIT: text, LEAST: least})


@frozen
class ServerSettings:
    """The settings of a server: limits, and what it tells clients.

    Bodies of requests may come as slowly as `body_rate` after `body_s`. `most_connections` is lower where the process
    may not open so many files. `plans_scans` tells clients to have scans planned here (`scan-planning-mode`).
    `asks_for_tokens` says whether clients must show a token, by default where the warehouse has any. With
    `makes_namespaces` a table or view that is created in a missing namespace makes it too, where the document has 404.
    `names` are those that clients may call the warehouse, by default any.
    """

    most_body_bytes: int = _limit(32 * 2**20, "The longest request, decompressed.")
    most_bodies_bytes: int = _limit(256 * 2**20, "All requests together that are not answered yet.")
    most_connections: int = _limit(4_096, "Connections of clients.")
    most_head_bytes: int = _limit(64 * 1024, "The longest head of a request.")
    head_s: float = _limit(10.0, "Seconds for the head of a request.")
    body_s: float = _limit(30.0, "Seconds for a body before it may be too slow.")
    body_rate: int = _limit(16 * 1024, "Bytes a second of a body after that.", least=1)
    query_s: float = _limit(10.0, "Seconds for a query of the page's SQL prompt.")
    end_s: float = _limit(5.0, "Seconds for a client to take its answer when the server ends.")
    plans_scans: bool = False
    readers: int = _limit(4, "Threads that answer what changes nothing.", least=1)
    writers: int = _limit(8, "Threads that commit, in groups where several wait.", least=1)
    page_makers: int = _limit(2, "Threads that make pages; findings have one more.", least=1)
    most_audits: int = _limit(32, "Requests for findings that wait.", least=1)
    asks_for_tokens: bool | None = None
    makes_namespaces: bool = False
    names: tuple[str, ...] = ()
    kept_bytes: int = _limit(256 * 2**20, "Answers kept in memory.")
    plan_files: int = _limit(20_000, "Files of a plan that are answered at once.")
    most_followers: int = _limit(1_000, "Clients that follow the log.")
    heartbeat_s: float = _limit(15.0, "Seconds until these hear something.")
