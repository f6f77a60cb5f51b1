"""The reports that clients send to the server: taken at once, and stored many at a time."""

from __future__ import annotations

import warnings

from attrs import define, field

from icecore.engine.errors import IcecoreError
from icecore.engine.log.reports.client_reports import ClientReport, ClientReports
from icecore.engine.server.feed.gathering import Gathering

MOST_WAITING = 1_000


@define(eq=False)
class ReportKeeper:
    """The reports that wait to be stored. Where too many come the oldest are dropped; no request waits."""

    reports: ClientReports
    _gathering: Gathering[ClientReport] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._gathering = Gathering("icecore-reports", self._store, MOST_WAITING)

    def take(self, report: ClientReport) -> None:
        """Takes a report, which is stored soon, or when the server ends."""
        self._gathering.take(report)

    def close(self) -> None:
        """Stores what waits."""
        self._gathering.close()

    def _store(self, due: list[ClientReport]) -> None:
        try:
            self.reports.put(due)
        except IcecoreError as e:
            warnings.warn(f"{len(due)} reports of clients are not kept: {e}", stacklevel=1)
