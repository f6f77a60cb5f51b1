"""Differences of the shared rows from the read models, as other engines make them, where the read models are right.

Where the read models do not agree with the log they are damaged, and the difference says nothing of other engines: that
is a problem, never an event.
"""

from __future__ import annotations

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CorruptFileError, IcecoreError
from icecore.engine.events.event import CATALOG_STREAM, is_view_stream
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_rows import Difference, NamespaceDifference
from icecore.engine.log.namespaces import fold_namespaces

NOT_TEXT = "its row in {} has bytes where text belongs, and is left alone until that is mended"


def true_namespaces(adoption: AdoptionRun) -> list[NamespaceDifference]:
    """The namespaces that differ and whose read model agrees with the log.

    While there are rows with bytes for text, which are noted as problems, none is taken to be gone.
    """
    found = adoption.context.rows.namespaces()
    damaged = [d for d in found if not d.is_text]
    for each in damaged:
        adoption.problem(each.namespace, None, NOT_TEXT.format("iceberg_namespace_properties"))
    differences = [d for d in found if d.is_text and not (damaged and d.row_properties is None)]
    if not differences:
        return []
    logged: dict[Identifier, dict[str, str]] = {}
    for event in adoption.context.store.stream_events(CATALOG_STREAM):
        fold_namespaces(logged, event.kind, event.payload)
    out = []
    for each in differences:
        if logged.get(each.namespace) == each.logged_properties:
            out.append(each)
        else:
            adoption.damaged(each.namespace, None)
    return out


def differences_trusted(adoption: AdoptionRun) -> tuple[list[Difference], list[Difference]]:
    """The names that differ and whose read model agrees with the log, and those of which that can't be told."""
    out, unknown = list[Difference](), list[Difference]()
    for d in adoption.context.rows.differences():
        try:
            if _is_true(adoption, d):
                out.append(d)
        except IcecoreError as e:
            adoption.failed(d.identifier, d.stream, e)
            unknown.append(d)
    return out, unknown


def _is_true(adoption: AdoptionRun, d: Difference) -> bool:
    if not d.is_text:
        raise CorruptFileError(NOT_TEXT.format("iceberg_tables"))
    if d.stream is None:
        others = (s for s in adoption.context.rows.streams_at(d.row_location) if not _has_name(adoption, s))
        if (lost := next(others, None)) is not None:
            adoption.damaged(d.identifier, lost)
        return lost is None
    if _name_in_log(adoption, d.stream) == d.identifier:
        return True
    adoption.damaged(d.identifier, d.stream)
    return False


def _has_name(adoption: AdoptionRun, stream: str) -> bool:
    """Whether the read models know the name that a stream has in the log."""
    return _name_in_log(adoption, stream) == adoption.context.models.identifier_of(stream)


def _name_in_log(adoption: AdoptionRun, stream: str) -> Identifier | None:
    if is_view_stream(stream):
        view = adoption.context.views.state_at(stream)
        return None if view is None or view.dropped else view.identifier
    state = adoption.latest(stream)
    return None if state.dropped else state.identifier
