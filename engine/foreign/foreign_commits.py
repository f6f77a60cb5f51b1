"""Commits of other engines to tables: through `iceberg_tables`, or as new versions in a table's folder."""

from __future__ import annotations

from icecore.engine.common.location import is_same_file
from icecore.engine.foreign.adoption import RESOLVE, AdoptionRun
from icecore.engine.foreign.foreign_metadata import ForeignFile, chain_from, read_foreign
from icecore.engine.foreign.foreign_rows import Difference
from icecore.engine.foreign.register import metadata_version
from icecore.engine.metadata.fold import TableState, metadata_folder
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.version_claims import Claim
from icecore.projections.files.version_files import version_after


def take_in_commit(adoption: AdoptionRun, d: Difference) -> None:
    """Adopts the metadata files from the log's last published one to that of the row, where they follow it."""
    assert d.stream is not None and d.row_location is not None, "the caller checked"
    state = adoption.latest(d.stream)
    if state.metadata_location == d.row_location and not state.pending:
        adoption.note(state)
        return
    storage = adoption.context.storage_of(state)
    file = read_foreign(d.row_location, storage)
    if (why := _why_not(state, d.logged_location, file)) is not None:
        adoption.problem(d.identifier, d.stream, why)
        return
    assert d.logged_location is not None, "what was never published is a reason not to"
    chain = chain_from(d.logged_location, file, d.previous, storage)
    if chain is None:
        text = (
            f"another engine committed {d.row_location} through iceberg_tables, which does not follow "
            f"{d.logged_location}, where the log ends; {RESOLVE}"
        )
        adoption.problem(d.identifier, d.stream, text)
        return
    for index, each in enumerate(chain.files):
        if each is not file and (why := _why_not(state, state.metadata_location, each)) is not None:
            adoption.problem(d.identifier, d.stream, why)
            return
        state = adoption.adopt(state, each, chain.skipped if index == 0 else ())


def take_in_versions(adoption: AdoptionRun, stream: str) -> None:
    """Adopts versions that another writer made in the folder of a file system table, one after another.

    A version of a commit of ours that never got into the log is adopted with that commit's id and provenance.
    """
    state = adoption.latest(stream)
    if state.dropped or state.identifier in adoption.left_out:
        return
    with adoption.attempt(state.identifier, stream):
        _take_in_versions(adoption, state)


def _take_in_versions(adoption: AdoptionRun, state: TableState) -> None:
    stream = state.stream
    adoption.context.files.materializer.settle_claim(stream)
    claim = adoption.context.files.materializer.claim_of(stream)
    storage = adoption.context.storage_of(state)
    while (location := next_version_file(state, storage)) is not None:
        file = read_foreign(location, storage)
        published = state.metadata_location
        why = _why_not(state, published, file)
        between = _versions_between(state, file) if why is None else None
        if between is None:
            unrelated = (
                f"another writer made {location}, which does not follow {published}, where the log ends; {RESOLVE}"
            )
            adoption.problem(state.identifier, stream, why or unrelated)
            return
        state = adoption.adopt(state, file, between, unfinished=unfinished_commit(claim, state, file))


def unfinished_commit(claim: Claim | None, state: TableState, file: ForeignFile) -> Claim | None:
    """The claim, where the next version, or one that led to it and is gone, is the claimed one."""
    if claim is None:
        return None
    version = metadata_version(file.location)
    if claim.is_of(version, file.data):
        return claim
    return claim if state.metadata_version < claim.version < version and claim.led_to(file.metadata) else None


def is_same_table(ours: TableMetadata, theirs: TableMetadata) -> bool:
    """Whether two metadata are of one table (G1); v1 files may lack the UUID."""
    if theirs.table_uuid is None:
        return theirs.location == ours.location
    return (ours.table_uuid or "").lower() == theirs.table_uuid.lower()


def next_version_file(state: TableState, storage: Storage) -> str | None:
    """The file of the lowest version above the state's in a file system table's folder, where there is one (MD7)."""
    folder = metadata_folder(state.metadata.location, state.metadata.properties)
    return version_after(folder, state.metadata_version, storage)


def _versions_between(state: TableState, file: ForeignFile) -> list[str] | None:
    """The files that led from the state's version to a later one, by the later one's metadata log; None where none did.

    A version's name may be used twice, as where a crash left a version that was taken back. The time that writers note
    with a file's name tells such files apart. A later version whose log has no version up to ours any more, as they
    were deleted, follows ours if it has our current snapshot.
    """
    log, ours = file.metadata.metadata_log, state.metadata
    for index in reversed(range(len(log))):
        if is_same_file(state.metadata_location, log[index].metadata_file):
            is_ours = log[index].timestamp_ms == ours.last_updated_ms
            return [e.metadata_file for e in log[index + 1 :]] if is_ours else None
    if metadata_version(file.location) == state.metadata_version + 1:
        return None if log else []
    if any(metadata_version(e.metadata_file) <= state.metadata_version for e in log):
        return None
    has_ours = ours.current_snapshot_id is None or file.metadata.snapshot_by_id(ours.current_snapshot_id) is not None
    return [e.metadata_file for e in log] if has_ours else None


def _why_not(state: TableState, known: str | None, file: ForeignFile) -> str | None:
    """The reason why a metadata file can't be the table's next, as far as it alone tells."""
    said = f"another engine committed {file.location}"
    if not is_same_table(state.metadata, file.metadata):
        named = [e.metadata_file for e in file.metadata.metadata_log]
        if state.metadata.format_version > 1 or not any(is_same_file(known, n) for n in named):
            return (
                f"{said}, which is another table ({file.metadata.table_uuid}, not {state.metadata.table_uuid}); "
                f"rename or drop the one of the log, and it is taken in"
            )
    if file.metadata.format_version < state.metadata.format_version:
        return (
            f"{said}, whose format version {file.metadata.format_version} is below "
            f"{state.metadata.format_version}; {RESOLVE}"
        )
    if state.pending or state.metadata_location != known:
        return (
            f"{said} after {known}, and the log ends at position {state.position} with commits that it has not "
            f"published; {RESOLVE}"
        )
    return None
