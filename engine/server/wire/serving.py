"""The things that all requests to one server share: the open warehouse, the settings, the bytes that are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field

from icecore.engine.common.fork_safety import Lock
from icecore.engine.log.reports.client_reports import ClientReports
from icecore.engine.repository.assembly import CACHE_FOLDER
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.feed.log_feed import LogFeed
from icecore.engine.server.feed.report_keeper import ReportKeeper
from icecore.engine.server.planning.held_plans import HeldPlans
from icecore.engine.server.server_settings import ServerSettings
from icecore.engine.server.wire.quick_loads import QuickLoads
from icecore.engine.server.wire.request_body import HeldBodies

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog

MOST_OF_FORM = 64 * 1024


@define(eq=False)
class KeptAnswers:
    """Bodies of answers by what they depend on; the most recently used are kept, up to a number of bytes."""

    most_bytes: int
    _kept: OrderedDict[tuple[str, ...], bytes] = field(factory=OrderedDict)
    _size: int = 0
    _lock: Lock = field(factory=Lock)

    def find(self, key: tuple[str, ...]) -> bytes | None:
        """The body that is kept under a key."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def get(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        """The body under a key, made where none is kept."""
        found = self.find(key)
        if found is None:
            found = make()
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[str, ...], body: bytes) -> None:
        with self._lock:
            self._size += len(body) - len(self._kept.pop(key, b""))
            self._kept[key] = body
            while self._size > self.most_bytes and self._kept:
                self._size -= len(self._kept.popitem(last=False)[1])


@define(eq=False)
class Serving:
    """The things that all requests to one server share."""

    catalog: Catalog
    settings: ServerSettings = ServerSettings()
    endpoints: tuple[str, ...] = ()
    kept: KeptAnswers = field(init=False)
    quick: QuickLoads = field(init=False)
    tokens: AccessTokens = field(init=False)
    plans: HeldPlans = field(init=False)
    bodies: HeldBodies = field(init=False)
    forms: HeldBodies = field(init=False)
    """The bodies of forms, which anybody may send and which take far more than their own bytes to read."""
    feed: LogFeed = field(init=False)
    reports: ReportKeeper = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.kept = KeptAnswers(self.settings.kept_bytes)
        store = self.catalog._warehouse.store
        self.quick = QuickLoads(store, self.catalog.name, self.settings.kept_bytes, lambda: self.asks_for_tokens)
        self.tokens = AccessTokens(store)
        told = self.settings
        self.plans = HeldPlans(self.catalog.path / CACHE_FOLDER / "plans")
        self.bodies, self.forms = (
            HeldBodies(most, told.most_bodies_bytes, told.body_s, told.body_rate)
            for most in (told.most_body_bytes, min(told.most_body_bytes, MOST_OF_FORM))
        )
        self.reports = ReportKeeper(ClientReports(store.path))
        self.feed = LogFeed(store, self.settings.heartbeat_s, self.settings.most_followers)

    @property
    def asks_for_tokens(self) -> bool:
        """Whether clients must show a token."""
        asked = self.settings.asks_for_tokens
        return AccessTokens(self.catalog._warehouse.store).are_used if asked is None else asked
