"""Commits as clients of a catalog send them: PyIceberg writes the files, the engine gets updates and requirements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from core_tables import local
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import update_table_metadata

import icecore
from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.events.event import Provenance
from icecore.engine.repository.repository import CommitResult, Repository
from icecore.engine.spec.updates.read_requirements import read_table_requirements
from icecore.engine.spec.updates.table_update import read_table_updates

Updates = list[dict[str, Any]]
CLIENT = Provenance("cleo", "a client")


def commit_updates(
    repository: Repository, stream: str, updates: Updates, requirements: list[dict[str, Any]] | None = None
) -> CommitResult:
    """Commits updates as a client wrote them."""
    given = list(read_table_updates(updates))
    needed = tuple(read_table_requirements(requirements or []))
    return repository.commit(stream, lambda _: [ChangeMetadata(lambda _: given)], CLIENT, requirements=needed)


class ClientCatalog(NoopCatalog):  # type: ignore[misc]  # PyIceberg's base is untyped here
    """PyIceberg's side of a catalog of ours; `change` may spoil the updates of a commit before they are sent.

    `requirements` are sent besides its own.
    """

    def __init__(self, catalog: icecore.Catalog) -> None:
        super().__init__("client")
        self.engine: Repository = catalog._warehouse.repository
        self.change: Callable[[Updates], Updates] = lambda updates: updates
        self.requirements: list[dict[str, Any]] = []

    def stream(self, identifier: Any) -> str:
        """The stream of a table."""
        return self.engine.models.table_stream(self.identifier_to_tuple(identifier))

    def load_table(self, identifier: Any) -> Table:
        name = self.identifier_to_tuple(identifier)
        state = self.engine.state(self.stream(name))
        metadata = TableMetadataUtil.parse_raw(state.metadata.to_json().decode())
        assert state.metadata_location is not None
        return Table(name, metadata, state.metadata_location, load_file_io({}, metadata.location), self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        sent = [orjson.loads(u.model_dump_json(by_alias=True, exclude_none=True)) for u in updates]
        asked = [orjson.loads(r.model_dump_json(by_alias=True)) for r in requirements]
        commit_updates(self.engine, self.stream(table.name()), self.change(sent), [*asked, *self.requirements])
        now = self.load_table(table.name())
        return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)


class VersionCatalog(ClientCatalog):
    """PyIceberg's side of a file system table: its commits are the next version in the table's folder."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        state = self.engine.state(self.stream(table.name()))
        metadata = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        folder = table.metadata_location.rsplit("/", 1)[0]
        location = f"{folder}/v{state.metadata_version + 1}.metadata.json"
        local(location).write_text(metadata.model_dump_json(by_alias=True, exclude_none=True))
        return CommitTableResponse(metadata=metadata, metadata_location=location)
