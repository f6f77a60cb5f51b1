"""Registering all tables and views that lie in a folder, as those of a warehouse whose log was lost."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from attrs import define, field, frozen

from icecore.engine.catalog.table_parts import registered_table
from icecore.engine.catalog.view_parts import registered_view
from icecore.engine.catalog.warehouse import Warehouse
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA, decompress
from icecore.engine.common.identifiers import Identifier, IdentifierLike, identifier_tuple, namespace_tuple
from icecore.engine.common.json_reader import loads
from icecore.engine.common.location import local_path, to_uri
from icecore.engine.errors import IcecoreError, NoSuchNamespaceError, StorageError, ValidationError, name_text
from icecore.engine.events.event import Provenance
from icecore.engine.foreign.left_tables import left_tables
from icecore.engine.foreign.table_folder import newest_metadata
from icecore.engine.joint_commit.joint_commit import Part, commit_jointly, dry_run_jointly
from icecore.engine.joint_commit.joint_names import new_namespace
from icecore.engine.joint_commit.joint_tables import NewTable
from icecore.engine.joint_commit.joint_views import RegisteredView
from icecore.engine.log.read_models import ReadModels
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage

_HIVE_DATABASE = ".db"
_VIEW_UUID = "view-uuid"
_STORE = re.compile(r"(?!file:)[\w+.-]+://[^/]*")


@frozen
class RegisteredName:
    """A table or view that was registered, by its newest metadata file."""

    name: str
    kind: str
    metadata_location: str


@frozen
class LeftFolder:
    """The folder of a table or view that was not registered, and why."""

    folder: str
    reason: str


@frozen
class RegisteredFolder:
    """The answer of `Catalog.register_folder`: what was registered, by name, and what was left.

    Of a dry run `outcome` says what the commit would be.
    """

    registered: tuple[RegisteredName, ...]
    left: tuple[LeftFolder, ...]
    outcome: CatalogDryRun | None = None


def register_folder(
    warehouse: Warehouse, folder: str, namespace: IdentifierLike | None, who: Provenance, *, dry_run: bool
) -> RegisteredFolder:
    """Registers what lies below a folder: see `Catalog.register_folder`. Raises ValidationError, ReadOnlyError."""
    warehouse.store.check_writable()
    warehouse.repository.foreign.adopt_all_if_changed()
    path = local_path(folder)
    if path is None or not Path(path).is_dir():
        raise ValidationError(f"expected a folder of this machine, found {folder!r}")
    prefix = () if namespace is None else namespace_tuple(namespace)
    search = _Search(warehouse.repository, Path(path).absolute(), prefix)
    search.look()
    parts = search.parts()
    outcome = dry_run_jointly(warehouse.targets, parts, who) if parts and dry_run else None
    if parts and not dry_run:
        commit_jointly(warehouse.targets, parts, who)
    return RegisteredFolder(search.registered(), tuple(search.left), outcome)


@define
class _Search:
    """The search for what can be registered below a folder."""

    repository: Repository
    root: Path
    namespace: Identifier
    found: dict[Identifier, NewTable | RegisteredView] = field(factory=dict)
    _names: dict[str, Identifier] = field(factory=dict)
    _refusals: dict[str, StorageError] = field(factory=dict)
    left: list[LeftFolder] = field(factory=list)

    def look(self) -> None:
        """Finds what can be registered, and what can't."""
        for folder in left_tables(self.root, most=None):
            try:
                part = self._part(folder)
            except IcecoreError as e:
                self.left.append(LeftFolder(str(folder), str(e)))
            else:
                self.found[part.name], self._names[part.stream] = part, part.name

    def parts(self) -> list[Part]:
        """The commit's parts: namespaces that are missing, outer ones first, then tables and views by name."""
        spaces = _missing_namespaces(self.repository.models, self.found)
        return [*(new_namespace(space, None) for space in spaces), *(part for _, part in sorted(self.found.items()))]

    def registered(self) -> tuple[RegisteredName, ...]:
        """The tables and views of the commit."""
        return tuple(
            RegisteredName(name_text(name), _kind(part), part.payload["metadata-location"])
            for name, part in sorted(self.found.items())
        )

    def _part(self, folder: Path) -> NewTable | RegisteredView:
        """The registration of the table or view of a folder. Raises ValidationError where it is to be left."""
        name = self._name(folder)
        location = newest_metadata(to_uri(folder), Storage())
        part: NewTable | RegisteredView
        if _VIEW_UUID in loads(decompress(self._bytes(location)), location):
            part = registered_view(self.repository, name, location)
        else:
            part = registered_table(self.repository, name, location, None)
        self._check_new(part)
        if isinstance(part, NewTable):
            self._check_place(part)
        return part

    def _check_place(self, part: NewTable) -> None:
        """Raises StorageError where the table's store refuses it; a store that refused one table is not asked again.

        Raises ForbiddenLocationError too.
        """
        state = part.first_state()
        store = _STORE.match(self.repository.storage_of(state).resolve(state.metadata.location))
        if store is None:
            return
        if store[0] in self._refusals:
            raise StorageError(f"{store[0]} refused another table: {self._refusals[store[0]]}")
        try:
            part.check_place(self.repository)
        except StorageError as e:
            self._refusals[store[0]] = e
            raise

    def _bytes(self, location: str) -> bytes:
        self.repository.location_rules.check_inside(location, "metadata file")
        return Storage().read_bytes(location, MOST_BYTES_OF_METADATA)

    def _name(self, folder: Path) -> Identifier:
        *spaces, name = folder.relative_to(self.root).parts or (self.root.name,)
        # PyIceberg has a nested namespace as one folder, `a.b`, and no level of ours holds a dot.
        inner = (unquote(level) for space in spaces for level in space.removesuffix(_HIVE_DATABASE).split("."))
        levels = (*self.namespace, *inner)
        if not levels:
            raise ValidationError("it is in no namespace: say which one")
        return identifier_tuple((*levels, unquote(name)))

    def _check_new(self, part: NewTable | RegisteredView) -> None:
        """Raises ValidationError where the catalog knows the table or its name, TableAlreadyExistsError."""
        models = self.repository.models
        # `unused_stream` added a `#` to the stream where the log has one of this UUID already.
        known, _, another = part.stream.partition("#")
        if another:
            name = models.identifier_of(known)
            raise ValidationError("it was dropped" if name is None else f"the catalog has it as {name_text(name)}")
        if part.name in self.found:
            raise ValidationError(f"{name_text(part.name)} is another folder's name, too")
        if part.stream in self._names:
            raise ValidationError(f"it is a copy of {name_text(self._names[part.stream])}, as its UUID says")
        with contextlib.suppress(NoSuchNamespaceError):
            models.check_new_name(part.name, kind=_kind(part))


def _kind(part: NewTable | RegisteredView) -> str:
    return "table" if isinstance(part, NewTable) else "view"


def _missing_namespaces(models: ReadModels, names: Iterable[Identifier]) -> list[Identifier]:
    """The namespaces that have to be made for tables of these names."""
    known = set(models.namespaces())
    return sorted({name[:-1] for name in names} - known)
