"""A request as the operations take it: who asks, for what, of which catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from icecore.engine.common.identifiers import Identifier, identifier_tuple
from icecore.engine.common.json_reader import get, get_list, get_strs
from icecore.engine.errors import ValidationError
from icecore.engine.events.commit_watch import watching_commits
from icecore.engine.events.keyed_request import asked_by
from icecore.engine.server.auth.access_tokens import Principal
from icecore.engine.server.auth.grants import Level, is_allowed
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.path_names import decoded, read_namespace, spaced

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.catalog.catalog_at import CatalogAt
    from icecore.engine.server.wire.serving import Serving

DRY_RUN, CLIENT_VERSION = "x-icecore-dry-run", "x-client-version"


@frozen
class Call:
    """One request; `past` is the catalog that it reads where its prefix is `at/<position or time>`.

    `names` are the named parts of its path, as they were encoded; header names are in lower case.
    """

    serving: Serving
    past: CatalogAt | None = None
    names: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: Mapping[str, Any] = field(factory=dict)
    principal: Principal | None = None
    """Who asks, where tokens are used."""

    @property
    def catalog(self) -> Catalog:
        """The catalog as it is, which can be changed."""
        return self.serving.catalog

    @property
    def shown(self) -> Catalog | CatalogAt:
        """The catalog as the path names it: as it is, or as it was at a position or time."""
        return self.serving.catalog if self.past is None else self.past

    @property
    def namespace(self) -> Identifier:
        """The namespace that the path names. Raises ValidationError."""
        return read_namespace(self._part("namespace"))

    @property
    def table(self) -> Identifier:
        """The table that the path names. Raises ValidationError."""
        return (*self.namespace, self.name_in_path("table"))

    @property
    def view(self) -> Identifier:
        """The view that the path names. Raises ValidationError."""
        return (*self.namespace, self.name_in_path("view"))

    def name_in_path(self, part: str) -> str:
        """The name that a part of the path is. Raises ValidationError."""
        return decoded(self._part(part))

    def _part(self, part: str) -> str:
        return spaced(self.names[part], self.headers.get(CLIENT_VERSION, ""))

    @property
    def new_name(self) -> Identifier:
        """The name in the path's namespace that the body gives. Raises ValidationError."""
        return identifier_tuple((*self.namespace, get(self.body, "name", str, "the request")))

    @property
    def is_dry_run(self) -> bool:
        """Whether the client only asks what a commit would be. Raises ValidationError."""
        return _is_true("X-Icecore-Dry-Run", self.headers.get(DRY_RUN, "false"))

    def make_namespace(self, namespace: Identifier) -> None:
        """Makes the namespace of a table or view to be created, where it is missing and the server makes them."""
        if self.serving.settings.makes_namespaces and not self.is_dry_run:
            # The key is for what was asked for, which is also refused as if the namespace had been there.
            with asked_by(None), watching_commits():
                self.catalog.create_namespace_if_not_exists(namespace)

    def may_read(self, namespace: Identifier) -> bool:
        """Whether the client may read in a namespace; the empty one is the whole catalog."""
        return self.principal is None or is_allowed(self.principal.grants, Level.READ, namespace)

    def flag(self, name: str) -> bool:
        """A parameter of the query that is true or false. Raises ValidationError."""
        return _is_true(name, self.query.get(name, "false"))

    def named_in_body(self, key: str) -> Identifier:
        """A table or view that the body names by a `TableIdentifier`. Raises ValidationError."""
        found = get(self.body, key, dict, "the request")
        return (*levels(found), get(found, "name", str, key))


class Handler(Protocol):
    """A function that answers a call; what it raises becomes an answer too."""

    def __call__(self, call: Call) -> Answer: ...


def _is_true(name: str, text: str) -> bool:
    if (value := text.lower()) not in ("true", "false"):
        raise ValidationError(f"{name} must be true or false, found {text[:60]!r}")
    return value == "true"


def updates_asked(of: Mapping[str, Any]) -> list[Any]:
    """The list under the key `updates`, for which some clients send null if it is empty. Raises ValidationError."""
    if "updates" not in of:
        raise ValidationError("the request lacks the required field 'updates': it asks for no change that is known")
    return get_list(of, "updates", "the request", [])


def levels(of: Mapping[str, Any]) -> Identifier:
    """The levels under the key `namespace`. Raises ValidationError."""
    return get_strs(of, "namespace", "the request")
