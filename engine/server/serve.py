"""The server as processes: they listen until they are told to end, and answer what was begun."""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
import sys
from collections.abc import Iterable
from functools import partial

from attrs import frozen

from icecore.engine.catalog.catalog import Catalog, open_catalog
from icecore.engine.errors import ValidationError
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.server_settings import DEFAULT_PORT, ServerSettings

SWITCH_S = 0.001


@frozen
class _Served:
    """A warehouse as each process that serves it has to know it."""

    path: str
    settings: ServerSettings | None
    location_roots: tuple[str, ...] | None
    certificate: str | None
    key: str | None

    def open(self) -> Catalog:
        roots = self.location_roots
        return open_catalog(self.path, location_roots=roots, unique_locations=roots is not None)

    def answer(self, listening: socket.socket) -> None:
        """Answers at a socket until the process is told to end."""
        import pyarrow as pa

        from icecore.engine.server.application import application
        from icecore.engine.server.listening.http_server import HttpServer, Tls

        # The event loop waits for the GIL until the interpreter's next switch of threads: 5 ms by default.
        sys.setswitchinterval(SWITCH_S)
        # Arrow's own pool keeps the most memory that each thread ever had: a tenth of what many threads' plans take.
        pa.set_memory_pool(pa.system_memory_pool())
        tls = None if self.certificate is None else Tls(self.certificate, self.key)
        with self.open() as catalog:
            server = HttpServer(application(catalog, self.settings), listening, tls)
            # A full collection of garbage would go through all modules, while nobody is answered.
            gc.freeze()
            try:
                server.answer()
            finally:
                gc.unfreeze()


def serve(
    path: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    settings: ServerSettings | None = None,
    location_roots: Iterable[str] | None = (),
    without_tokens: bool = False,
    workers: int = 1,
    tls_certificate: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
) -> None:
    """Serves the warehouse of a folder as an Iceberg REST catalog until the process is told to end.

    Port 0 takes a free one; the address is printed once it listens. Clients may have tables in the warehouse's folder
    and in `location_roots`, each in a place of its own; None lets them be anywhere. Several `workers` are processes at
    one address. With the PEM files of a certificate and its key it speaks TLS. Raises StorageError, ReadOnlyError,
    MissingDependencyError, and ValidationError for an address that can't be had, for TLS files that can't be used, and
    for an address beyond this machine where the warehouse has no tokens, unless it is to be served `without_tokens`.
    """
    from icecore.engine.server.listening.http_server import Tls, listening_socket
    from icecore.engine.server.listening.worker_processes import WorkerProcesses

    if workers < 1:
        raise ValidationError(f"workers must be a whole number from 1, found {workers}")
    if tls_key is not None and tls_certificate is None:
        raise ValidationError("a key for TLS needs its certificate")
    certificate, key = (None if file is None else os.fspath(file) for file in (tls_certificate, tls_key))
    if certificate is not None:
        Tls(certificate, key).check()
    roots = None if location_roots is None else tuple(location_roots)
    served = _Served(os.fspath(path), settings, roots, certificate, key)
    with served.open() as catalog:
        if not (without_tokens or AccessTokens(catalog._warehouse.store).are_used or _is_loopback(host)):
            raise ValidationError(
                f"{host} is reached from other machines, and the warehouse has no tokens: make one by `icecore token "
                "create`, or say --without-tokens"
            )
    with listening_socket(host, port) as listening:
        scheme = "http" if certificate is None else "https"
        print(f"{scheme}://{host}:{listening.getsockname()[1]}", flush=True)
        if workers == 1:
            served.answer(listening)
        else:
            WorkerProcesses(partial(served.answer, listening), workers, listening).run()


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address).split("%")[0]).is_loopback for address in found)
