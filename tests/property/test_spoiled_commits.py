"""Commits of clients whose manifests or lists are spoiled anywhere: refused whole, or read as they are, and kept so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from client_writes import ClientCatalog, Updates
from core_tables import ids_of, local, make_table, metadata_files, rows
from hypothesis import given, settings
from hypothesis import strategies as st

import icecore
from icecore.engine.errors import CorruptFileError, IcecoreError, StorageError
from icecore.engine.formats.manifest_list_avro import read_manifest_list

PLACES = st.tuples(st.sampled_from(["list", "manifest"]), st.floats(0, 1, exclude_max=True), st.integers(0, 255))


def spoil(updates: Updates, place: tuple[str, float, int]) -> Updates:
    """The updates, with a byte of the new list or manifest changed, or the file cut off there for the byte 0."""
    which, where, change = place
    listed = next(u["snapshot"]["manifest-list"] for u in updates if u["action"] == "add-snapshot")
    manifests = read_manifest_list(local(listed).read_bytes(), listed)
    path = local(listed if which == "list" else manifests[0].manifest_path)
    data = bytearray(path.read_bytes())
    at = int(where * len(data))
    if change:
        data[at] ^= change
    else:
        del data[at:]
    path.write_bytes(data)
    return updates


@pytest.mark.filterwarnings("ignore::icecore.projections.files.file_follower.MaterializationWarning")
def test_what_is_spoiled_is_refused_or_gives_no_other_rows(tmp_path: Path) -> None:
    """A refusal changes nothing. What was taken in has the rows that were sent, or says which file it has not.

    And with all metadata lost, a rebuild gives every file byte for byte.
    """
    with icecore.open(tmp_path / "warehouse") as catalog:
        catalog.create_namespace("ns")
        client = ClientCatalog(catalog)
        accepted: list[icecore.Table] = []

        @settings(max_examples=25)
        @given(place=PLACES)
        def commit(place: tuple[str, float, int]) -> None:
            table = make_table(catalog, f"t{catalog.position}")
            table.append(rows(1))
            position = catalog.position
            client.change = lambda updates: spoil(updates, place)
            try:
                client.load_table(table.name()).append(rows(2))
            except IcecoreError as e:
                assert e.http_status in (400, 409) and catalog.position == position, e
                assert ids_of(table.refresh()) == [1]
                return
            assert catalog.position == position + 1
            accepted.append(table.refresh())
            try:
                assert ids_of(table) == [1, 2]
            except (CorruptFileError, StorageError) as e:
                assert ".parquet" in str(e), e

        commit()
        assert accepted
        for table in accepted[:3]:
            before = metadata_files(table)
            shutil.rmtree(local(table.metadata_location).parent)
            catalog.rebuild(table.name())
            assert metadata_files(table) == before
