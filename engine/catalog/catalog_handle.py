"""An open catalog as the functions of this folder take it, which are the methods of `Catalog`, and what they share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import orjson

from icecore.engine.catalog.warehouse import Warehouse
from icecore.engine.common.identifiers import Identifier, IdentifierLike, folder_name
from icecore.engine.common.location import given_location, to_uri
from icecore.engine.events.provenance import provenance
from icecore.engine.table.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.catalog.catalog_transaction import CatalogTransaction
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.joint_commit.joint_commit import Part
    from icecore.engine.view.view import View

Given = TypeVar("Given")
NEVER_MS = 2**62
"""The expiry time of idempotency keys of library calls: in effect never."""


class CatalogHandle(Protocol):
    """A catalog: its open warehouse, who commits through it, and what views and audits ask it for."""

    _warehouse: Warehouse
    actor: str | None

    @property
    def name(self) -> str: ...

    def table_exists(self, identifier: IdentifierLike) -> bool: ...

    def load_table(self, identifier: IdentifierLike) -> Table: ...

    def transaction(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> CatalogTransaction: ...

    def new_location(self, identifier: Identifier, table_uuid: str, location: str | None) -> str: ...

    def view_exists(self, identifier: IdentifierLike) -> bool: ...

    def load_view(self, identifier: IdentifierLike) -> View: ...

    def views(self) -> Iterator[View]: ...

    def all_namespaces(self) -> list[Identifier]: ...

    def load_namespace_properties(self, namespace: IdentifierLike) -> dict[str, str]: ...

    def log(self) -> pa.Table: ...


def commit(
    catalog: CatalogHandle,
    part: Part,
    message: str | None,
    author: str | None,
    dry_run: bool,
    idempotency_key: str | None = None,
) -> CatalogDryRun | None:
    """Makes one change, or says what it would be. Raises ReadOnlyError, ReusedKeyError, and what the part raises."""
    who = provenance(catalog.actor, message=message, author=author, idempotency_key=idempotency_key)
    return catalog._warehouse.commit(part, who, dry_run=dry_run)


def once(
    catalog: CatalogHandle,
    idempotency_key: str | None,
    call: str,
    asked: Mapping[str, object] | Sequence[object],
    make: Callable[[], Given],
    again: Callable[[int], Given],
    *,
    dry_run: bool,
) -> Given | CatalogDryRun:
    """The result of `make`; where a call with the key was made before, of `again` with that call's last position.

    What `make` commits takes the key. A dry run takes none, and says of a call that was made before that it is done.
    Raises ReusedKeyError where the earlier call was another one or `asked` for something else, and what `make` raises,
    after which the key is still free.
    """
    if idempotency_key is None:
        return make()
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.events.keyed_request import KeyedRequest
    from icecore.engine.log.request_keys import StoredAnswer
    from icecore.engine.repository.answer_once import answer_before, answer_once

    provenance(catalog.actor, idempotency_key=idempotency_key)
    text = orjson.dumps(asked, default=str, option=orjson.OPT_SORT_KEYS)
    request = KeyedRequest(idempotency_key, call, hashlib.sha256(text).hexdigest(), NEVER_MS)

    if dry_run:
        return make() if answer_before(catalog._warehouse.store, request) is None else CatalogDryRun(is_done=True)

    def made() -> Given:
        result = make()
        if not request.is_stored:
            # Nothing was to be changed: the position is that of the log.
            request.answer = str(catalog._warehouse.store.head()[0])
        return result

    def repeated(stored: StoredAnswer) -> Given:
        return again(stored.last_position or int(stored.answer or 0))

    return answer_once(catalog._warehouse.store, request, made, repeated, told=None)


def table_after(catalog: CatalogHandle, position: int) -> Table:
    """The table, as it is now, that was changed by the commit whose last event is at a position."""
    from icecore.engine.events.event import CATALOG_STREAM

    last = catalog._warehouse.store.event_at(position)
    events = catalog._warehouse.store.transaction_events(last.transaction_id)
    return table_of(catalog, next(e.stream for e in events if e.stream != CATALOG_STREAM))


def check_new_name(
    catalog: CatalogHandle, name: Identifier, idempotency_key: str | None, *, kind: str = "table"
) -> None:
    """Raises for a taken name as the commit would, before any work for it; not where an earlier call had the key."""
    store, models = catalog._warehouse.store, catalog._warehouse.models
    if idempotency_key is None or store.event_by_idempotency_key(idempotency_key) is None:
        models.check_new_name(name, kind=kind)


def table_streams(catalog: CatalogHandle) -> list[tuple[Identifier, str]]:
    """The names of all tables, in order, with their streams."""
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    return [(name, stream) for name, kind, stream in catalog._warehouse.models.all_names() if kind == "table"]


def table_of(catalog: CatalogHandle, stream: str) -> Table:
    """The table of a stream, as it is now."""
    warehouse = catalog._warehouse
    return Table(warehouse.repository, warehouse.planning, warehouse.repository.state(stream), catalog.actor)


def view_of(catalog: CatalogHandle, stream: str) -> View:
    """The view of a stream, as it is now."""
    from icecore.engine.view.view import View

    return View(catalog._warehouse.views, catalog, catalog._warehouse.views.state(stream), catalog.actor)


def new_location(catalog: CatalogHandle, identifier: Identifier, table_uuid: str, location: str | None) -> str:
    """The location of a new table or view: the one given, else a folder of its own."""
    if location is not None:
        return given_location(location)
    folder = catalog._warehouse.path.joinpath(*map(folder_name, identifier))
    uri = to_uri(folder)
    if folder.exists() or catalog._warehouse.models.location_in_use(uri):
        uri += f"-{table_uuid[:8]}"
    repository = catalog._warehouse.repository
    if repository.location_rules.is_any and not repository.locations.is_allowed(uri):
        # For example where the namespace's folder is a table's.
        return to_uri(catalog._warehouse.path / f"{folder_name(identifier[-1])}-{table_uuid}")
    return uri
