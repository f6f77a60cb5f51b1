"""The HTTP server of one process, by uvicorn: told to end it answers what was begun, and ends streams that never do."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from icecore.engine.common.optional_packages import needs

with needs("uvicorn", "icecore[server]"):
    import uvicorn

if TYPE_CHECKING:
    from starlette.applications import Starlette


class HttpServer(uvicorn.Server):
    """A server of the application, listening at an address; port 0 takes a free one."""

    patience_s = 5.0
    """How long a client may take nothing of its answer before it is cut off, once the server is to end."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        super().__init__(uvicorn.Config(app, host, port, log_level="warning", lifespan="on"))
        self._app = app
        self.socket = self.config.bind_socket()
        self.socket.listen(self.config.backlog)

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return int(self.socket.getsockname()[1])

    def answer(self) -> None:
        """Answers until the process is told to end, or `should_exit` is set."""
        self.run([self.socket])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.serving.feed.end()
        impatient = asyncio.create_task(self._abort_stuck())
        await super().shutdown(sockets)
        impatient.cancel()

    async def _abort_stuck(self) -> None:
        """Cuts connections off whose clients take nothing of their answers, now and again."""
        waiting: dict[asyncio.Transport, int] = {}
        while True:
            sizes = {c.transport: c.transport.get_write_buffer_size() for c in self.server_state.connections}
            for transport, size in sizes.items():
                if size and waiting.get(transport) == size:
                    transport.abort()
            waiting = sizes
            await asyncio.sleep(self.patience_s)
