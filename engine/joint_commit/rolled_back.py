"""The repository of tables for a transaction that is rolled back: no file is written, and no cache is shared."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from attrs import define, evolve

from icecore.engine.events.event import Event
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.materialize import Advance, Materializer


def without_files(repository: Repository) -> Repository:
    """A repository of the same tables with caches of its own, which claims no version and writes no metadata file."""
    materializer = _NoFiles(repository.store, repository.models, repository.entries)
    return evolve(repository, materializer=materializer)


@define
class _NoFiles(Materializer):
    """The materializer of a dry run: it checks what could be written, claims no version and writes nothing."""

    is_dry: ClassVar[bool] = True

    def claim_version(self, event: Event, before: TableState | None, state: TableState, storage: Storage) -> None: ...

    def settle_claim(self, stream: str) -> None: ...

    def write(self, stream: str, base: TableState | None, storage: Storage, damaged: Collection[str] = ()) -> Advance:
        return Advance(stream, base, None, ())

    def finish(
        self,
        state: TableState,
        storage: Storage,
        *,
        durable: bool = False,
        is_published: bool = False,
        with_hint: bool = True,
    ) -> None: ...
