"""The server as an ASGI application: operations by method and path, bodies read and written, threads that answer."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from attrs import define, evolve, field

from icecore.engine.common.json_reader import loads_sent
from icecore.engine.common.optional_packages import needs
from icecore.engine.errors import IcecoreError, StorageError, TooManyAuditsError
from icecore.engine.events.commit_watch import watching_commits
from icecore.engine.events.provenance import Client, on_behalf_of
from icecore.engine.server.feed.late_hints import LateHints
from icecore.engine.server.page.page_endpoints import PAGES
from icecore.engine.server.resources import (
    commits,
    configuration,
    event_pages,
    event_stream,
    functions,
    metrics_reports,
    namespace_operations,
    oauth_tokens,
    scans,
    tables,
    views,
)
from icecore.engine.server.server_settings import ServerSettings
from icecore.engine.server.wire.answer import NO_CONTENT, Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import V1, Endpoint, Work
from icecore.engine.server.wire.error_answers import error_answer, named_error
from icecore.engine.server.wire.keyed_calls import answered
from icecore.engine.server.wire.past_catalogs import AT, check_reads, past
from icecore.engine.server.wire.path_names import decoded
from icecore.engine.server.wire.permissions import check_grants, check_origin, principal_of
from icecore.engine.server.wire.quick_loads import Key, quick_headers, takes_gzip
from icecore.engine.server.wire.request_body import RefusedBodyError, has_body, read_body
from icecore.engine.server.wire.responses import packed, response
from icecore.engine.server.wire.serving import Serving

with needs("starlette", "icecore[server]"):
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.types import Lifespan, Receive, Scope, Send

    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.catalog.catalog_at import CatalogAt

OPERATIONS: tuple[Endpoint, ...] = (
    *configuration.ENDPOINTS,
    *namespace_operations.ENDPOINTS,
    *tables.ENDPOINTS,
    *commits.ENDPOINTS,
    *scans.ENDPOINTS,
    *views.ENDPOINTS,
    *functions.ENDPOINTS,
    *metrics_reports.ENDPOINTS,
    *event_pages.ENDPOINTS,
    *event_stream.ENDPOINTS,
    *oauth_tokens.ENDPOINTS,
)


@define(eq=False)
class Threads:
    """The threads that answer, a pool for each kind of work, so that no load waits for a commit or for a page.

    `audits` is the number of requests for findings that are not answered yet.
    """

    serving: Serving
    counts: dict[Work, int] = field(init=False)
    pools: dict[Work, ThreadPoolExecutor] = field(init=False)
    hints: LateHints = field(init=False)
    audits: int = 0

    def __attrs_post_init__(self) -> None:
        self.hints = LateHints(self.serving.catalog._warehouse.repository.files)
        told = self.serving.settings
        self.counts = {Work.WRITE: told.writers, Work.READ: told.readers, Work.PAGE: told.page_makers, Work.AUDIT: 1}
        self.pools = {work: ThreadPoolExecutor(n, f"icecore-{work.value}") for work, n in self.counts.items()}
        for work in (Work.WRITE, Work.READ):
            self._begin(work)

    def _begin(self, work: Work) -> None:
        """Starts all threads for a kind of work. Raises StorageError where the process can't have them.

        Work for which a pool can't start a thread stays in its queue: if threads were started only when needed, a
        commit might be made after its client was told of an error.
        """
        all_here = threading.Barrier(self.counts[work] + 1)
        try:
            for _ in range(self.counts[work]):
                self.pools[work].submit(all_here.wait)
        except RuntimeError as e:
            all_here.abort()
            raise StorageError(f"the server needs {self.counts[work]} threads as {work.value}s: {e}") from e
        all_here.wait()

    async def run(self, work: Work, answer: Callable[[], Answer], receive: Receive) -> Answer:
        """The answer of a thread. Raises TooManyAuditsError where too many requests wait for findings already.

        Audits run one at a time; one whose client leaves before it has begun is not run.
        """
        if work is Work.AUDIT and self.audits >= self.serving.settings.most_audits:
            raise TooManyAuditsError(f"{self.audits} requests wait for findings already; try again later")
        self.audits += work is Work.AUDIT
        try:
            context = contextvars.copy_context()
            made = asyncio.get_running_loop().run_in_executor(self.pools[work], context.run, answer)
            return await (_unless_gone(made, receive) if work is Work.AUDIT else made)
        finally:
            self.audits -= work is Work.AUDIT

    def close(self) -> None:
        """Ends the threads, each of which closes its connection to the log; what was begun is finished first."""
        for work, pool in self.pools.items():
            all_here = threading.Barrier(self.counts[work])
            try:
                for _ in range(self.counts[work]):
                    pool.submit(self._close_connection, all_here)
            except RuntimeError:
                # The threads must not wait for one that can't be started any more.
                all_here.abort()
            pool.shutdown()
        self.serving.feed.close()
        self.serving.reports.close()
        self.hints.close()
        self.serving.plans.close()

    def _close_connection(self, all_here: threading.Barrier) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            all_here.wait()
        self.serving.catalog._warehouse.store.close()


async def _unless_gone(made: asyncio.Future[Answer], receive: Receive) -> Answer:
    gone = asyncio.ensure_future(_client_gone(receive))
    try:
        await asyncio.wait((made, gone), return_when=asyncio.FIRST_COMPLETED)
        # The client is gone, so nobody reads NO_CONTENT.
        return made.result() if made.done() else NO_CONTENT
    finally:
        made.cancel()
        gone.cancel()


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def application(catalog: Catalog, settings: ServerSettings | None = None) -> Starlette:
    """The REST catalog of an open warehouse, as an ASGI application. Raises MissingDependencyError, StorageError."""
    endpoints = tuple(e.documented for e in OPERATIONS if e.has_prefix)
    serving = Serving(catalog, settings or ServerSettings(), endpoints)
    threads = Threads(serving)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        catalog._warehouse.store.close()
        await asyncio.get_running_loop().run_in_executor(None, threads.close)

    prefixes = ("", f"/{AT}{{at}}")
    routes = [_route(e, V1 + p, serving, threads) for p in prefixes for e in OPERATIONS if e.has_prefix or not p]
    routes += [_route(e, "", serving, threads) for e in PAGES]
    return Application(serving, routes, lifespan)


class Application(Starlette):
    """An application that answers kept loads at once, and routes all other requests by the path as it was sent.

    So an encoded slash in a name does not split the path. Routes are looked up by method and number of slashes, and
    answer without Starlette's layers, which take as long as the event loop has for a request.
    """

    def __init__(self, serving: Serving, routes: Sequence[OperationRoute], lifespan: Lifespan[Starlette]) -> None:
        super().__init__(routes=routes, lifespan=lifespan, exception_handlers={404: _no_route, 405: _no_method})
        # The path of a thing with an empty name is not the path of the list of all.
        self.router.redirect_slashes = False
        self.state.serving = serving
        self._loads = serving.quick
        self._routes: dict[tuple[str, int], list[OperationRoute]] = {}
        for route in routes:
            for method in route.methods or ():
                self._routes.setdefault((method, route.path.count("/")), []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await super().__call__(scope, receive, send)
        method = scope["method"]
        if method == "GET" and (load := self._loads.find(key_of(scope))) is not None:
            status, body, headers = quick_headers(load, dict(scope["headers"]))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            return await send({"type": "http.response.body", "body": body})
        path = scope["raw_path"].split(b"?")[0].decode("latin-1")
        for route in self._routes.get((method, path.count("/")), ()):
            if (found := route.path_regex.match(path)) is not None:
                named = {**scope, "path": path, "path_params": found.groupdict()}
                made = await route.respond(Request(named, receive))
                return await made(named, receive, send)
        return await super().__call__({**scope, "path": path}, receive, send)


def key_of(scope: Scope) -> Key:
    """The parts of a request that its answer depends on."""
    sent = dict(scope["headers"])
    asked = (sent.get(name, b"") for name in (b"authorization", b"host", b"origin"))
    packs = b"gzip" if takes_gzip(sent.get(b"accept-encoding", b"").decode("latin-1")) else b""
    return scope["raw_path"].split(b"?")[0], scope["query_string"], packs, *asked


class OperationRoute(Route):
    """The route of one operation, and what responds there."""

    def __init__(self, path: str, respond: Callable[[Request], Awaitable[Response]], method: str) -> None:
        super().__init__(path, respond, methods=[method])
        self.respond = respond


def _route(endpoint: Endpoint, prefix: str, serving: Serving, threads: Threads) -> OperationRoute:
    async def respond(request: Request) -> Response:
        body, bodies = bytearray(), serving.forms if endpoint.is_form else serving.bodies
        query = dict(request.query_params) if request.scope["query_string"] else {}
        call = Call(serving, None, request.path_params, query, _headers(request))
        try:
            if has_body(call.headers) or endpoint.work is Work.AUDIT:
                # A client that may not ask is refused before its body is read, and before its audit waits.
                _let_in(endpoint, call)
            if has_body(call.headers):
                await read_body(request.receive, call.headers, bodies, body)
            return await answered_by(request, call, bytes(body))
        except RefusedBodyError as e:
            return response(e.answer, request)
        except IcecoreError as e:
            return response(_refused(endpoint, call, error_answer(e)), request)
        finally:
            bodies.hold(-len(body))

    async def answered_by(request: Request, call: Call, raw: bytes) -> Response:
        def answer() -> Answer:
            return packed(_answer(endpoint, call, request.scope["path"], raw), call.headers.get("accept-encoding", ""))

        version = serving.quick.version() if request.method == "GET" else None
        made = await threads.run(endpoint.work, answer, request.receive)
        # The meaning of a plus in a path depends on the client's version, a header that is no part of the key.
        if made.quick is not None and request.method == "GET" and "+" not in request.scope["path"]:
            serving.quick.put(key_of(request.scope), made.quick, version)
        return response(made, request)

    # Starlette's path parameters have no dashes in their names.
    path = endpoint.path.replace("{plan-id}", "{plan_id}")
    return OperationRoute(prefix + path, respond, endpoint.method)


def _headers(request: Request) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.scope["headers"]}


def _answer(endpoint: Endpoint, call: Call, path: str, raw: bytes) -> Answer:
    """The answer of an operation, whatever it raises."""
    body: dict[str, Any] = {}
    asked = call
    with watching_commits() as watch:
        try:
            asked = _let_in(endpoint, call)
            # A log that was put in its place may say something else, and other processes go by that.
            call.catalog._warehouse.store.check_in_place()
            body = _read(endpoint, raw)
            asked = evolve(asked, body=body, past=_then(endpoint, asked))
            if asked.principal is not None:
                check_grants(asked.principal, endpoint, asked)
            with on_behalf_of(_client(asked)):
                return answered(endpoint, asked, path, raw)
        except Exception as e:
            told = error_answer(e, endpoint.refusal.of(body), is_stored=watch.is_stored, may_read=asked.may_read)
            return _refused(endpoint, asked, told)


def _let_in(endpoint: Endpoint, call: Call) -> Call:
    """The call with its principal, checked as far as its head tells.

    Raises NotAuthorizedError, ForbiddenError, ValidationError.
    """
    asks_for_tokens = call.serving.asks_for_tokens
    check_origin(call, asks_for_tokens)
    principal = None
    if asks_for_tokens and not endpoint.is_open:
        principal = principal_of(call.serving.tokens, call.headers)
        check_grants(principal, endpoint, call)
    return evolve(call, principal=principal)


def _refused(endpoint: Endpoint, call: Call, told: Answer) -> Answer:
    if not endpoint.is_page:
        return told

    from icecore.engine.server.page.page_frame import error_page

    return error_page(call, told)


def _read(endpoint: Endpoint, raw: bytes) -> dict[str, Any]:
    """The body of a request. Raises ValidationError."""
    if endpoint.is_form:
        return {key: values[-1] for key, values in parse_qs(raw.decode("utf-8", "replace")).items()}
    return loads_sent(raw, "the request") if raw or endpoint.needs_body else {}


def _client(call: Call) -> Client:
    """The program that asks, in its own words, and who shows its token."""
    engine, request_id = (call.headers.get(name, "")[:200] or None for name in ("user-agent", "x-request-id"))
    return Client(engine, request_id, actor=None if call.principal is None else call.principal.name)


def _then(endpoint: Endpoint, call: Call) -> CatalogAt | None:
    if "at" not in call.names:
        return None
    at = decoded(call.names["at"])
    check_reads(endpoint, at)
    return past(call, at)


async def _no_route(request: Request, _: Exception) -> Response:
    text = f"this server has nothing at {request.url.path[:200]}"
    return response(named_error(404, "NotFoundException", text), request)


async def _no_method(request: Request, _: Exception) -> Response:
    path = request.scope["path"]
    text = f"{request.method} is not what {request.url.path[:200]} is for"
    there = {m for route in request.app.routes if route.path_regex.match(path) for m in route.methods}
    told = named_error(405, "UnsupportedOperationException", text)
    return response(evolve(told, headers={"allow": ", ".join(sorted(there))}), request)
