"""The reason that commits must give where a table, or a namespace around it, says so: `icecore.require-message`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from icecore.engine.errors import NoSuchNamespaceError, ValidationError, name_text
from icecore.engine.events.event import Provenance
from icecore.engine.log.read_models import ReadModels
from icecore.engine.properties.table_properties import REQUIRE_MESSAGE


def check_message(
    models: ReadModels, identifier: tuple[str, ...], properties: Mapping[str, str], provenance: Provenance
) -> None:
    """Raises ValidationError where a commit to a table of these properties must say why, and does not.

    Commits of other engines are not checked: they were made already.
    """
    if (provenance.message or "").strip():
        return
    for what, given in _givers(models, identifier, properties):
        if REQUIRE_MESSAGE.or_default(given):
            raise ValidationError(
                f"{name_text(identifier)}: a commit must say why, as {REQUIRE_MESSAGE.name} is true of the {what}: "
                "give it a message"
            )


def _givers(
    models: ReadModels, identifier: tuple[str, ...], properties: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The table and the namespaces around it, with their properties."""
    yield "table", properties
    for levels in range(len(identifier) - 1, 0, -1):
        namespace = identifier[:levels]
        found: Mapping[str, str] = {}
        with contextlib.suppress(NoSuchNamespaceError):
            found = models.namespace_properties(namespace)
        yield f"namespace {name_text(namespace)}", found
