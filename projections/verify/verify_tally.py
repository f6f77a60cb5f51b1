"""The tally of faults by cause while files are looked at, so that a million of them make a few findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.projections.verify.findings import SHOWN_EXAMPLES, UNCHECKED, Cause, Finding


@frozen
class Fault:
    """The fault of one file, or the reason why it can't be checked: `detail` is a clause that names it."""

    cause: Cause
    kind: str
    location: str
    detail: str


@define
class _Group:
    """The files of one kind with the same fault: all their locations, and details of the first."""

    locations: list[pa.Array] = field(factory=list)
    single: list[str] = field(factory=list)
    details: list[tuple[str, str]] = field(factory=list)

    def all(self) -> pa.ChunkedArray:
        return pa.chunked_array([*self.locations, pa.array(self.single, pa.string())], pa.string())


@define
class Tally:
    """The faults of the files of one table or view. Locations are kept as columns."""

    _groups: dict[tuple[Cause, str], _Group] = field(factory=dict)

    def add(self, fault: Fault) -> None:
        """Adds one fault."""
        group = self._groups.setdefault((fault.cause, fault.kind), _Group())
        group.single.append(fault.location)
        if len(group.details) < SHOWN_EXAMPLES:
            group.details.append((fault.location, fault.detail))

    def add_many(self, cause: Cause, kind: str, locations: pa.Array, detail: Callable[[int], str]) -> None:
        """Adds files with the same fault; `detail` gives the clause of the i-th of them."""
        if not len(locations):
            return
        group = self._groups.setdefault((cause, kind), _Group())
        group.locations.append(locations)
        wanted = min(SHOWN_EXAMPLES - len(group.details), len(locations))
        group.details += [(locations[i].as_py(), detail(i)) for i in range(wanted)]

    def extend(self, faults: Iterable[Fault]) -> None:
        """Adds many faults, one by one."""
        for fault in faults:
            self.add(fault)

    @property
    def has_problems(self) -> bool:
        """Whether a file is faulty, and not only unchecked."""
        return any(cause not in UNCHECKED for cause, _ in self._groups)

    def locations(self) -> pa.Array:
        """The files with a fault, or that can't be checked, each once."""
        chunks = [c for group in self._groups.values() for c in group.all().chunks]
        return pc.unique(pa.chunked_array(chunks, pa.string()))

    def findings(self, table: str, dropped: bool, missing_folder: Callable[[str], str | None]) -> Iterator[Finding]:
        """One finding for each cause and kind, by cause. `missing_folder` is asked for the folder of lost files."""
        order = list(Cause)
        for (cause, kind), group in sorted(self._groups.items(), key=lambda g: (order.index(g[0][0]), g[0][1])):
            locations = group.all()
            folder = common_folder(locations)
            missing = missing_folder(folder) if cause is Cause.GONE and folder is not None else None
            examples, details = (tuple(t) for t in zip(*group.details, strict=True))
            shown = folder if len(locations) > 1 else None
            yield Finding(cause, table, kind, len(locations), examples, details, shown, missing, dropped)


def common_folder(locations: pa.ChunkedArray) -> str | None:
    """The innermost folder that holds all the locations, as they are written; None where there is none."""
    if not len(locations):
        return None
    bounds = pc.min_max(locations)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    return _shared(first.split("/")[:-1], last.split("/")[:-1])


def _shared(first: Sequence[str], last: Sequence[str]) -> str | None:
    parts = []
    for a, b in zip(first, last, strict=False):
        if a != b:
            break
        parts.append(a)
    folder = "/".join(parts)
    # `file:` and `s3:` alone, or with an empty authority, are no folders.
    return folder if folder.strip("/") and not folder.rstrip("/").endswith(":") else None
