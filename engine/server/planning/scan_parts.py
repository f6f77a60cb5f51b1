"""The parts of a large plan, and the tokens by which clients ask for them.

A part is a range of manifests of the scan's list, or a range of the entries of one. Manifests never change, and neither
does the list of a snapshot, so the parts of a plan together have each file once, whenever and in whichever process each
of them is planned. A token encodes all that its part is planned from: the server holds nothing for it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from icecore.engine.common.json_reader import get, get_ints, loads_sent
from icecore.engine.errors import NotFoundError, ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.server.planning.deep_json import any_depth
from icecore.engine.server.planning.scan_request import ScanRequest

MOST_BYTES_OF_TOKEN = 32 * 2**20
WHERE = "the plan task"


class NoSuchPlanTaskError(NotFoundError):
    """A plan task that this server never gave, or whose snapshot is gone."""


@frozen
class ScanPart:
    """The manifests at the places `first` to `last` of the scan's list; `entries` are a range of a single one's."""

    first: int
    last: int
    entries: tuple[int, int] | None = None

    @property
    def places(self) -> range:
        """The places of the manifests."""
        return range(self.first, self.last + 1)

    def condition(self, entries: str) -> str:
        """The SQL condition for the entries `e` of the part that also satisfy the condition `entries`."""
        if self.entries is None:
            return entries
        begin, end = self.entries
        return f"({entries}) AND e.ordinal >= {begin} AND e.ordinal < {end}"


@frozen
class PlanTask:
    """A part of a plan as its token says it: the table's stream, the scan by snapshot ids, and the schema's id."""

    stream: str
    request: ScanRequest
    schema_id: int
    part: ScanPart

    def token(self) -> str:
        """The token of the part, which `of_token` reads."""
        part = [self.part.first, self.part.last, *(self.part.entries or ())]
        told = {"table": self.stream, "scan": self.request.to_dict(), "schema-id": self.schema_id, "part": part}
        return base64.urlsafe_b64encode(zlib.compress(any_depth(told))).decode()

    @classmethod
    def of_token(cls, token: str) -> PlanTask:
        """The part that a token encodes. Raises NoSuchPlanTaskError for a token that no server gave."""
        try:
            return cls._of(_unpacked(token))
        except (ValidationError, zlib.error, binascii.Error, ValueError) as e:
            raise NoSuchPlanTaskError(f"Plan task does not exist: {token[:60]!r}") from e

    @classmethod
    def _of(cls, told: Mapping[str, Any]) -> PlanTask:
        first, last, *entries = get_ints(told, "part", WHERE)
        if not 0 <= first <= last or len(entries) not in (0, 2):
            raise ValidationError(f"{WHERE} is of no part of a list")
        part = ScanPart(first, last, (entries[0], entries[1]) if entries else None)
        request = ScanRequest.of(get(told, "scan", dict, WHERE))
        return cls(get(told, "table", str, WHERE), request, get(told, "schema-id", int, WHERE), part)


def parts_of(counts: Mapping[int, int], listed: Sequence[ListedManifest], files: int) -> list[ScanPart]:
    """The parts of a plan, of about `files` files each; `counts` has those of each manifest, by its place."""
    parts: list[ScanPart] = []
    begun: list[int] = []
    held = 0
    for place, count in counts.items():
        if begun and held + count > files:
            parts.append(ScanPart(begun[0], begun[-1]))
            begun, held = [], 0
        if count > files:
            parts += _of_one(place, listed[place], count, files)
        else:
            begun.append(place)
            held += count
    return [*parts, ScanPart(begun[0], begun[-1])] if begun else parts


def _of_one(place: int, listed: ListedManifest, count: int, files: int) -> Iterator[ScanPart]:
    """The parts of one manifest, by ranges of its entries; only `count` of the entries are in the plan."""
    m = listed.manifest
    counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
    total = max(count, sum(c or 0 for c in counts))
    step = max(1, total * files // count)
    starts = list(range(0, total, step))
    for start, end in zip(starts, [*starts[1:], 2**31 - 1], strict=True):
        yield ScanPart(place, place, (start, end))


def _unpacked(token: str) -> dict[str, Any]:
    unpack = zlib.decompressobj()
    told = unpack.decompress(base64.urlsafe_b64decode(token), MOST_BYTES_OF_TOKEN)
    if not unpack.eof:
        raise ValidationError(f"{WHERE} is cut off")
    return loads_sent(told, WHERE)
