"""A log that was written once must be read for ever: stored events fold to stored metadata, hash for hash.

`ICECORE_UPDATE_GOLDEN=1` writes the files anew, for a change of the log's form that is meant; then old logs need an
upcaster, and the old files stay beside the new ones: `early` has contents whose buffers are compressed one by one, and
events of schema version 1, whose hashes are over their texts.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import local, repository_of, store_of

import icecore
from icecore.engine.errors import NoSuchTableError
from icecore.engine.events.event import GENESIS_HASH, Event, canonical
from icecore.engine.formats.event_content import decode_content
from icecore.engine.log import store
from icecore.engine.metadata.fold import fold
from icecore.engine.repository import repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.table import pending_commit

HERE = Path(__file__).parent
UPDATE = os.environ.get("ICECORE_UPDATE_GOLDEN") == "1"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
VERSIONS = (1, 2, 3)


def pin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes chance and time out: ids of each kind count up, and each look at the clock is a second later.

    Ids that name nothing in the log, as those of files under way, don't count for the others.
    """
    numbers, events, snapshots = itertools.count(1), itertools.count(1), itertools.count(1)
    times = itertools.count(1_700_000_000_000, 1000)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers), version=4))
    for module in (repository, store):
        monkeypatch.setattr(module, "new_event_id", lambda: f"event-{next(events)}")
    monkeypatch.setattr(pending_commit, "new_snapshot_id", lambda taken: next(snapshots))
    monkeypatch.setattr(store, "now_ms", lambda: next(times))


def data_file(number: int, bucket: int | None) -> ContentFile:
    """A data file as a writer describes it; nobody reads it."""
    return ContentFile(
        DataFileContent.DATA,
        f"s3://bucket/data/{number}.parquet",
        FileFormat.PARQUET,
        0,
        (bucket,),
        record_count=10 * number,
        file_size_in_bytes=1000 + number,
        column_sizes={1: 40, 2: 60},
        value_counts={1: 10 * number, 2: 10 * number},
        null_value_counts={1: 0, 2: 1},
        lower_bounds={1: number.to_bytes(8, "little"), 2: b"a"},
        upper_bounds={1: (number + 9).to_bytes(8, "little"), 2: b"z"},
        split_offsets=(4,),
        sort_order_id=1,
    )


def scenario(folder: Path, version: int) -> tuple[list[Event], bytes, list[bytes]]:
    """The events, the metadata and the content of a table that has seen a bit of everything, its folder left out."""
    with icecore.open(folder, actor="golden") as catalog:
        catalog.create_namespace("ns", {"owner": "golden"})
        table = catalog.create_table(
            "ns.t", SCHEMA, partition_spec=["bucket(2, id)"], sort_order=["name DESC"], format_version=version
        )
        table.set_properties({"write.metadata.previous-versions-max": "2"}, message="keep two")
        table.append_files([data_file(1, 0), data_file(2, 1)], snapshot_properties={"job": "load"})
        head = table.metadata.current_snapshot_id
        assert head is not None
        table.manage_snapshots().create_branch(head, "dev", min_snapshots_to_keep=2).create_tag(head, "v1").commit()
        table.append_files([data_file(3, None)], branch="dev")
        table.delete("TRUE")
        with table.transaction(message="evolve", author="somebody") as transaction:
            transaction.update_schema().add_column("amount", "double").rename_column("name", "label").commit()
            transaction.update_spec().add_field("truncate(3, label)").commit()
        catalog.rename_table("ns.t", "ns.u")
        stream = table.state.stream
        root = str(folder)
        events = list(store_of(catalog).stream_events(stream))
        metadata = repository_of(catalog).state(stream).metadata.to_json()
        assert local(catalog.load_table("ns.u").metadata_location).read_bytes() == metadata
        contents = [store_of(catalog).content(e.position) for e in events]
    changed = [_without(e, root) for e in events]
    return changed, metadata.replace(root.encode(), b"/warehouse"), [c for c in contents if c is not None]


def _without(event: Event, root: str) -> Event:
    """The event as it is on any machine: content bytes are a matter of the Arrow release."""
    payload = event.payload_text.replace(root, "/warehouse")
    provenance = evolve(event.provenance, engine="golden")
    checksum = None if event.content_sha256 is None else "content"
    return evolve(event, payload_text=payload, provenance=provenance, content_sha256=checksum)


@pytest.mark.parametrize("version", VERSIONS)
def test_events_and_metadata_are_written_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The same commands make the same payloads and the same metadata as when the files were stored."""
    pin(monkeypatch)
    events, metadata, contents = scenario(tmp_path / "w", version)
    sealed: list[Event] = []
    previous = GENESIS_HASH
    for event in events:
        sealed.append(evolve(event, prev_hash=previous).sealed())
        previous = sealed[-1].hash
    lines = "".join(json.dumps(e.to_row(), sort_keys=True) + "\n" for e in sealed)
    text = json.dumps(json.loads(metadata), indent=1) + "\n"
    if UPDATE:
        (HERE / f"events_v{version}.jsonl").write_text(lines)
        (HERE / f"metadata_v{version}.json").write_text(text)
        for i, content in enumerate(contents):
            (HERE / f"content_v{version}_{i}.arrow").write_bytes(content)
    assert lines == (HERE / f"events_v{version}.jsonl").read_text()
    assert text == (HERE / f"metadata_v{version}.json").read_text()
    for i, content in enumerate(contents):
        name, made = f"content_v{version}_{i}.arrow", decode_content(content, 1)
        assert decode_content((HERE / name).read_bytes(), 1).equals(made)
        # What was added inherited the id of its snapshot then, as it still may.
        early = decode_content((HERE / "early" / name).read_bytes(), 1)
        assert early.drop_columns(["snapshot_id"]).equals(made.drop_columns(["snapshot_id"]))


@pytest.mark.parametrize(("folder", "schema_version"), [(HERE, 2), (HERE / "early", 1)], ids=["now", "early"])
@pytest.mark.parametrize("version", VERSIONS)
def test_stored_events_fold_to_stored_metadata(version: int, folder: Path, schema_version: int) -> None:
    """A stored log is whole, hash for hash, and folds to the stored metadata, whatever release it is of."""
    rows = [json.loads(line) for line in (folder / f"events_v{version}.jsonl").read_text().splitlines()]
    events = [Event.from_row(row) for row in rows]
    assert {e.schema_version for e in events} == {schema_version}
    previous = GENESIS_HASH
    for event in events:
        assert event.prev_hash == previous
        assert event.hash == event.computed_hash(), f"position {event.position}"
        assert canonical(json.loads(event.payload_text)) == event.payload_text
        previous = event.hash
    state = fold(None, events)
    assert state is not None
    stored: dict[str, Any] = json.loads((HERE / f"metadata_v{version}.json").read_text())
    assert json.loads(state.metadata.to_json()) == stored
    assert state.identifier == ("ns", "u")
    assert state.metadata_version == 6
    assert set(state.metadata.refs) == {"main", "dev", "v1"}


def test_a_log_opens_whose_lists_of_ids_and_names_hold_something_else(tmp_path: Path) -> None:
    """Clients' commits with such ones were once accepted; they mean now what they meant then."""
    home = tmp_path / "lake"
    icecore.import_log(HERE / "early" / "odd_lists.jsonl", home, location_mapping={"file:///lake": home.as_uri()})
    with icecore.open(home) as catalog:
        catalog.rebuild()
        assert catalog.verify().problems == ("ns.t: the statistics file file:///lake/ns/t/metadata/x.puffin is gone",)
        table = catalog.load_table("ns.t")
        assert table.metadata.properties == {"1": "one"}
        assert [s.schema_id for s in table.metadata.schemas] == [1], "JSON's false was 0"
        assert [s.spec_id for s in table.metadata.partition_specs] == [0], "and 1.0 was 1"
        assert table.metadata.statistics[0].blob_metadata[0].to_dict()["fields"] == [1.5, "a", None, {}]
        assert catalog.load_view("ns.v").metadata.versions[0].to_dict()["default-namespace"] == ["ns", 2, None, {}]
        assert catalog.log().column("changes").to_pylist()[3] == "unset a, 1, 1.5, None, True"
        assert catalog.sql("SELECT default_namespace FROM views").to_pylist() == [{"default_namespace": "ns.2.None.{}"}]
        catalog.audit()
        with pytest.raises(NoSuchTableError, match="there is no table or view 't'"):
            catalog.query("SELECT * FROM ns.v")
        catalog.register_table("ns.u", str(table.metadata_location).replace("file:///lake", home.as_uri()))
        table.set_properties({"goes": "on"})
        assert catalog.load_table("ns.t").metadata.properties == {"1": "one", "goes": "on"}
