"""What rules say: who did it where another engine did, all that bounds tell, the file that is meant; never nothing."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from core_tables import local, make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.errors import ValidationError
from icecore.projections.audit.rules.rule_files import own_rules


def messages(catalog: icecore.Catalog, rule: str, folder: Path | None = None) -> list[str]:
    return [f.message for f in catalog.audit(rules=[rule], folder=folder).findings]


def test_what_another_engine_did_is_not_said_of_a_person(catalog: icecore.Catalog) -> None:
    """The log knows no actor of an adopted commit; one of an earlier commit has nothing to do with it."""
    table = make_table(catalog, properties={"note": "password=abcdefgh"})
    for number in range(3):
        table.append(rows(number))
    first, second, _ = (s.snapshot_id for s in table.snapshots())
    table.maintenance.expire_snapshots().by_id(first).commit()
    peer = pyiceberg_catalog(catalog.path)
    theirs = peer.load_table("ns.t")
    theirs.maintenance.expire_snapshots().by_id(second).commit()
    with theirs.update_schema() as schema:
        schema.delete_column("name")
    with theirs.transaction() as transaction:
        transaction.set_properties({"note": "password=ijklmnop"})
    with theirs.transaction() as transaction:
        transaction.remove_properties("note")
    peer.close()
    last = catalog.load_table("ns.t").inspect.events()["position"].to_pylist()
    assert messages(catalog, "expired-without-reason") == [
        f"expiries without a reason: 2, the last at position {last[-4]} by another engine"
    ]
    assert messages(catalog, "narrowed-schema") == [f"name was removed at position {last[-3]} by another engine"]
    assert messages(catalog, "secrets-in-log") == [
        f"the property note looked like a secret at position {last[-2]}, set by another engine"
    ]


def test_bounds_of_equality_deletes_are_personal_too(catalog: icecore.Catalog) -> None:
    """Of a deletion that was asked for, they may be the last place of a value."""
    table = make_table(catalog)
    table.append(rows(1))
    table.delete_keys([{"name": "zoe@example.org"}], ["name"])
    [message] = messages(catalog, "personal-data")
    assert message.startswith("bounds of name that look like an e-mail address: 2")


def test_row_ids_name_the_file_that_reaches_furthest() -> None:
    """Not the one that begins last."""
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE files AS SELECT 'ns' AS namespace, 't' AS name, 'u' AS table_uuid, 'data' AS content, * "
            "FROM (VALUES ('a', 0, 100), ('b', 10, 10), ('c', 50, 10)) AS v (file_path, first_row_id, record_count)"
        )
        con.execute("CREATE TABLE tables AS SELECT 'ns' AS namespace, 't' AS name, 1000 AS next_row_id")
        found = con.sql(own_rules()["row-ids"].sql).fetchall()
    assert sorted(row[-1] for row in found) == [
        "b: its row ids begin at 10, those of a end at 100",
        "c: its row ids begin at 50, those of a end at 100",
    ]


RULE = """-- rule: zones
-- severity: note
-- finds: A table of a zone.
-- mend: None is needed.
-- option: zone = eu
SELECT namespace, name, table_uuid, zone AS subject, nullif(concat('in ', zone), 'in 7') AS message FROM limits
"""


def test_options_of_rules_that_are_text_may_be_digits(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """And a message that is null is told as what the rule finds."""
    (tmp_path / "zones.sql").write_text(RULE)
    make_table(catalog, properties={"icecore.audit.zone": "5"})
    make_table(catalog, "u")
    make_table(catalog, "v", properties={"icecore.audit.zone": "7"})
    assert sorted(messages(catalog, "zones", folder=tmp_path)) == ["A table of a zone.", "in 5", "in eu"]


@pytest.mark.parametrize("location", ["", " ", "a\0b"])
def test_a_blank_location_is_refused(catalog: icecore.Catalog, location: str) -> None:
    """A client's, too: files would go to the root of the file system."""
    make_table(catalog)
    with pytest.raises(ValidationError, match="a location must not be blank"):
        catalog.commit_table("ns.t", [], [{"action": "set-location", "location": location}])


@pytest.mark.parametrize("at", [2**62, -(2**62)])
def test_a_time_that_sql_cant_tell_stops_no_rule(catalog: icecore.Catalog, at: int) -> None:
    """As hand-made metadata has it: there it is null, and other tables are told of all the same."""
    catalog.create_namespace_if_not_exists("ns")
    made = make_table(catalog, "made")
    made.append(rows(1))
    old = local(made.metadata_location)
    metadata = json.loads(old.read_bytes())
    metadata["last-updated-ms"] = at
    for name in ("snapshots", "snapshot-log", "metadata-log"):
        for each in metadata[name]:
            each["timestamp-ms"] = at
    metadata["refs"] = {}
    metadata["current-snapshot-id"] = -1
    file = old.with_name("made.metadata.json")
    file.write_text(json.dumps(metadata))
    catalog.register_table("ns.far", str(file))
    assert messages(catalog, "unkept-snapshots")
    told = catalog.sql("SELECT name, committed_at FROM snapshots ORDER BY name").to_pylist()
    assert [(row["name"], row["committed_at"] is None) for row in told] == [("far", True), ("made", False)]
    for name in ("commits", "history", "metadata_log_entries", "tables", "partitions"):
        catalog.sql(f"SELECT * FROM {name} ORDER BY ALL")
    assert catalog.audit().rules
