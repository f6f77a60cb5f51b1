"""The server as a process: it listens until it is told to end, and answers what was begun."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable

from icecore.engine.catalog.catalog import open_catalog
from icecore.engine.errors import ValidationError
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.wire.serving import DEFAULT_PORT, ServerSettings


def serve(
    path: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    settings: ServerSettings | None = None,
    location_roots: Iterable[str] | None = (),
    without_tokens: bool = False,
) -> None:
    """Serves the warehouse of a folder as an Iceberg REST catalog until the process is told to end.

    Port 0 takes a free one; the address is printed once it listens. Clients may have tables in the warehouse's folder
    and in `location_roots`, each in a place of its own; None lets them be anywhere. Raises StorageError, ReadOnlyError,
    MissingDependencyError, and ValidationError for an address beyond this machine where the warehouse has no tokens,
    unless it is to be served `without_tokens`.
    """
    from icecore.engine.server.application import application
    from icecore.engine.server.listening.http_server import HttpServer

    with open_catalog(path, location_roots=location_roots, unique_locations=location_roots is not None) as catalog:
        if not (without_tokens or AccessTokens(catalog._warehouse.store).are_used or _is_loopback(host)):
            raise ValidationError(
                f"{host} is reached from other machines, and the warehouse has no tokens: make one by `icecore token "
                "create`, or say --without-tokens"
            )
        server = HttpServer(application(catalog, settings), host, port)
        print(f"http://{host}:{server.port}", flush=True)
        server.answer()


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address).split("%")[0]).is_loopback for address in found)
