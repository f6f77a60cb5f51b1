"""Write, audit, publish: snapshots that are staged under an id, or written to a branch, before anybody reads them.

With the table property `write.wap.enabled` a commit whose snapshot properties have `wap.id` is staged: the snapshot is
added and no branch moves. With `wap.branch` the commit goes to that branch instead of main. Spec: Appendix F (L5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.properties.table_properties import WAP_ENABLED
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot

WAP_ID = "wap.id"
WAP_BRANCH = "wap.branch"
PUBLISHED_WAP_ID = "published-wap-id"
# What a batch of a stream of Spark has among its snapshot properties, as Iceberg's runtime has it.
QUERY_ID = "spark.sql.streaming.queryId"
EPOCH_ID = "spark.sql.streaming.epochId"
# Settings of a session of Spark.
_SESSION_ID, _SESSION_BRANCH = "spark.wap.id", "spark.wap.branch"


def is_staged(metadata: TableMetadata, branch: str, summary: Mapping[str, str], before: Iterable[int] = ()) -> bool:
    """Whether a snapshot with this summary is staged; `before` are the ids of those that its commit made before it.

    Raises ValidationError where it names another branch too, is a stream's that has staged a batch under that id, or
    one before has its id: only one of them could be published.
    """
    if not WAP_ENABLED.of(metadata.properties) or not summary.get(WAP_ID):
        return False
    if branch != MAIN_BRANCH or summary.get(WAP_BRANCH):
        raise ValidationError(f"a commit with {WAP_ID} is staged, so it can't go to a branch")
    if any((metadata.find_snapshot(i).summary or {}).get(WAP_ID) == summary[WAP_ID] for i in before):
        raise ValidationError(f"a commit stages one snapshot under {WAP_ID} {summary[WAP_ID]!r}: one can be published")
    _check_one_batch(metadata, summary)
    return True


def _check_one_batch(metadata: TableMetadata, summary: Mapping[str, str]) -> None:
    """Raises ValidationError where an earlier batch of the same query has the id: it is published once."""
    if QUERY_ID not in summary:
        return
    for s in metadata.snapshots:
        other = s.summary or {}
        is_same = all(other.get(key) == summary[key] for key in (WAP_ID, QUERY_ID))
        if is_same and other.get(EPOCH_ID) != summary.get(EPOCH_ID):
            raise ValidationError(
                f"the stream has staged batch {other.get(EPOCH_ID)} under {WAP_ID} {summary[WAP_ID]!r}, under which no "
                f"other batch can be published: let it write to a branch, without {WAP_ID}"
            )


def branch_for(metadata: TableMetadata, branch: str, summary: Mapping[str, str]) -> str:
    """The branch that a commit goes to. Raises ValidationError where `wap.branch` and another branch are asked for."""
    wanted = summary.get(WAP_BRANCH)
    if not wanted or not WAP_ENABLED.of(metadata.properties):
        return branch
    if branch not in (MAIN_BRANCH, wanted):
        raise ValidationError(f"the commit can't go to {branch!r}: its {WAP_BRANCH} is {wanted!r}")
    return wanted


def staged_by_session(properties: Mapping[str, str], setting: Callable[[str], str | None]) -> dict[str, str]:
    """The snapshot properties that stage a Spark session's writes to a table of these properties, by its settings.

    Raises ValidationError for a branch: rows that are read before they are published would be main's.
    """
    if not WAP_ENABLED.of(properties):
        return {}
    if branch := setting(_SESSION_BRANCH):
        raise ValidationError(
            f"{_SESSION_BRANCH} is set to {branch!r}, which reads would not follow: unset it, write by the option "
            "'branch' and read by 'ref'"
        )
    wap_id = setting(_SESSION_ID)
    return {WAP_ID: wap_id} if wap_id else {}


def staged_snapshot(metadata: TableMetadata, wap_id: str) -> Snapshot:
    """The one snapshot staged under an id. Raises NoSuchSnapshotError, ValidationError where there are more."""
    found = [s for s in metadata.snapshots if (s.summary or {}).get(WAP_ID) == wap_id]
    if not found:
        raise NoSuchSnapshotError(f"no snapshot is staged under {WAP_ID} {wap_id!r}")
    if len(found) > 1:
        ids = [s.snapshot_id for s in found]
        raise ValidationError(f"the {WAP_ID} {wap_id!r} is that of several snapshots: {ids}")
    return found[0]


def check_unpublished(ancestors: Iterable[Snapshot], source: Snapshot) -> str | None:
    """The id that a snapshot was staged under, if any. Raises ValidationError where one of main's has it already."""
    wap_id = (source.summary or {}).get(WAP_ID)
    if not wap_id:
        return None
    for ancestor in ancestors:
        summary = ancestor.summary or {}
        if wap_id in (summary.get(WAP_ID), summary.get(PUBLISHED_WAP_ID)):
            raise ValidationError(f"the {WAP_ID} {wap_id!r} was published already, in snapshot {ancestor.snapshot_id}")
    return wap_id
