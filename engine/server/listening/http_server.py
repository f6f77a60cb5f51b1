"""The HTTP server of one process, by uvicorn: at its end it finishes answers, and ends streams that never would."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import socket
import ssl
import threading
from typing import TYPE_CHECKING

from attrs import frozen

from icecore.engine.common.optional_packages import needs
from icecore.engine.errors import ValidationError

with needs("uvicorn", "icecore[server]"):
    import uvicorn

    from icecore.engine.server.listening.guarded_connection import GuardedConnection, GuardedState

if TYPE_CHECKING:
    from starlette.applications import Starlette

BACKLOG = 2048
MOST_FILES, SPARE_FILES = 2**16, 256
"""The number of open files that the process asks for, and the share of them that is not for connections."""


@frozen
class Tls:
    """The files of a certificate and its key, which may be in the same file."""

    certificate: str
    key: str | None = None

    def check(self) -> None:
        """Raises ValidationError for files that can't be used."""
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as e:
            raise ValidationError(f"the certificate {self.certificate} can't be used with its key: {e}") from e


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes a free one. Raises ValidationError where it can't be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
    except (OSError, OverflowError) as e:
        raise ValidationError(f"can't listen at {host}:{port}: {e}") from e
    return made


def _files() -> int:
    """The number of files that the process may open, after it asked for as many as it can have."""
    try:
        import resource
    except ImportError:
        return 2 * SPARE_FILES
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)
    if 0 <= now < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            now = wanted
    return max(now if now >= 0 else MOST_FILES, 2 * SPARE_FILES)


class HttpServer(uvicorn.Server):
    """A server of the application at a socket that listens."""

    def __init__(self, app: Starlette, listening: socket.socket, tls: Tls | None = None) -> None:
        config = uvicorn.Config(app, log_level="warning", lifespan="on", backlog=BACKLOG, ws="none")
        if tls is not None:
            config.ssl_certfile, config.ssl_keyfile = tls.certificate, tls.key
        config.http = GuardedConnection
        super().__init__(config)
        limits = app.state.serving.settings
        self.patience_s = limits.end_s
        self.server_state: GuardedState = GuardedState(
            min(limits.most_connections, _files() - SPARE_FILES), limits.head_s, limits.most_head_bytes
        )
        self._app = app
        self._listening = listening

    def answer(self) -> None:
        """Answers until the process is told to end, or `should_exit` is set."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                # uvicorn has its own handlers while its loop runs, and then raises the signals again that it took.
                signal.signal(number, lambda *_: self._end())
        self.run([self._listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if (parent := multiprocessing.parent_process()) is not None:
            # Once its parent is gone, nobody else would end this process.
            asyncio.get_running_loop().add_reader(parent.sentinel, self._end_without, parent.sentinel)

    def _end(self) -> None:
        self.should_exit = True

    def _end_without(self, parent: int) -> None:
        # The sentinel stays readable, so the loop would call this without a pause until all answers are made.
        asyncio.get_running_loop().remove_reader(parent)
        self._end()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.serving.feed.end()
        impatient = asyncio.create_task(self._abort_stuck())
        await super().shutdown(sockets)
        impatient.cancel()

    async def _abort_stuck(self) -> None:
        """Cuts off clients that take no more of an answer, or did not take its end or end their request in time."""
        before: dict[GuardedConnection, tuple[int, int]] = {}
        while True:
            # A buffer from which the client took may be filled to the same size again, so `resumed` counts too.
            held = (c for c in self.server_state.connections if isinstance(c, GuardedConnection))
            now = {c: (c.transport.get_write_buffer_size(), c.resumed) for c in held}
            for connection, found in now.items():
                if found[0] and before.get(connection) == found:
                    connection.transport.abort()
            before = now
            await asyncio.sleep(self.patience_s)
            for connection in list(self.server_state.waiting):
                if not connection.is_answered:
                    connection.transport.abort()
