"""Rules of one's own, baselines, and the forms that findings are printed in."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from attrs import evolve
from broken_tables import healthy
from click.testing import CliRunner, Result
from core_tables import SCHEMA, local, make_table, put, pyiceberg_catalog

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import NoSuchTableError, ValidationError
from icecore.projections.audit.rules.audit_findings import Accepted, baseline_text, read_baseline
from icecore.projections.audit.rules.rule import Scope, Severity, parse_rule
from icecore.projections.audit.rules.rule_files import own_rules

MANY_COLUMNS = """\
-- rule: many-columns
-- severity: warning
-- finds: A table of more columns
--   than a reader takes in.
-- mend: Split it.
-- option: most_columns = 3
SELECT t.namespace, t.name, t.table_uuid, t.columns, 'columns' AS subject, format('{} columns', t.columns) AS message
FROM tables AS t JOIN limits AS l ON l.namespace = t.namespace AND l.name = t.name
WHERE t.columns > l.most_columns;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one rule of a user."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "many-columns.sql").write_text(MANY_COLUMNS)
    return folder


@pytest.fixture
def bad(catalog: icecore.Catalog) -> icecore.Catalog:
    """A warehouse with a secret, an error, and a commit without a reason, a note."""
    healthy(catalog, "t", properties={"db.password": "hunter2"})
    healthy(catalog, "silent").append([{"id": 1, "name": "n"}])
    return catalog


def audited(catalog: icecore.Catalog, *arguments: str, code: int) -> Result:
    result = CliRunner().invoke(cli, ["--warehouse", str(catalog.path), "audit", *arguments])
    assert result.exit_code == code, result.output
    return result


# Rules


def test_a_header_tells_what_a_rule_is() -> None:
    rule = parse_rule(MANY_COLUMNS, "many-columns.sql")
    assert (rule.id, rule.severity, rule.scope) == ("many-columns", Severity.WARNING, Scope.TABLE)
    assert rule.finds == "A table of more columns than a reader takes in." and rule.mend == "Split it."
    assert rule.options == {"most_columns": 3} and rule.sql.startswith("SELECT")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("-- severity: warning\n", "", "a rule begins with a line `-- severity: ...`"),
        ("severity: warning", "severity: bad", "severity is one of error, warning, note, found 'bad'"),
        ("rule: many-columns", "rule: Many", "small letters and hyphens, found 'Many'"),
        ("-- mend: Split it.", "-- mend: Split it.\n-- mend: No.", "says mend twice"),
        ("-- rule", "-- remark", "is no line of a rule's header"),
        ("most_columns = 3", "most_columns 3", "an option is written as"),
        ("SELECT", "DELETE FROM log; SELECT", "expected one SQL statement"),
        ("-- mend: Split it.", "-- mend: Split it.\n-- scope: all", "scope is one of table, tables, warehouse"),
    ],
)
def test_a_file_that_is_no_rule_is_told_what_it_lacks(old: str, new: str, said: str) -> None:
    with pytest.raises(ValidationError, match=r"^x\.sql: ") as refused:
        parse_rule(MANY_COLUMNS.replace(old, new, 1), "x.sql")
    assert said in str(refused.value)


def test_each_file_is_named_by_its_rule() -> None:
    folder = Path(__file__).parents[3] / "sql" / "audit"
    assert {p.stem for p in folder.glob("*.sql")} == own_rules().keys()
    assert all(r.finds.endswith(".") and r.mend.endswith(".") for r in own_rules().values())


def test_limits_are_known_properties() -> None:
    """With the same defaults, so that docs/properties.md tells them."""
    from icecore.engine.properties.table_properties import known_property

    limits = {name: value for r in own_rules().values() for name, value in r.options.items()}
    for name, value in limits.items():
        known = known_property(f"icecore.audit.{name.replace('_', '-')}")
        assert known is not None and known.default == str(value), name


def test_a_folder_s_rules_join_and_win(catalog: icecore.Catalog, folder: Path) -> None:
    """Options and properties set their limits: the property of a table is nearer than an option of the call."""
    healthy(catalog, "two")
    schema = SCHEMA.append(SCHEMA.field("name").with_name("a")).append(SCHEMA.field("name").with_name("b"))
    catalog.create_table("ns.four", schema)
    catalog.create_table("ns.wide", schema, properties={"icecore.audit.most-columns": "10"})

    def tables(**options: Any) -> list[str | None]:
        return [f.table for f in catalog.audit(rules=["many-columns"], folder=folder, **options).findings]

    assert tables() == ["ns.four"]
    assert tables(options={"most_columns": 1}) == ["ns.four", "ns.two"]
    assert tables(options={"most_columns": 1}, tables=["ns.two"]) == ["ns.two"]
    (finding,) = catalog.audit(rules=["many-columns"], folder=folder).findings
    assert finding.row == {"columns": 4} and finding.message == "4 columns"
    (folder / "other.sql").write_text(MANY_COLUMNS.replace("rule: many-columns", "rule: secrets"))
    assert [f.rule for f in catalog.audit(folder=folder).findings] == ["many-columns", "secrets"]


def test_files_that_are_not_named_as_those_of_tables_are_no_orphans(catalog: icecore.Catalog) -> None:
    """As for `remove_orphan_files`, which passes them over."""
    data = local(healthy(catalog, "t").location()) / "data"
    put(data / "notes.txt")
    assert catalog.audit(rules=["orphan-files"]).findings == ()
    put(data / "nobody.parquet")
    (finding,) = catalog.audit(rules=["orphan-files"]).findings
    assert finding.row["files"] == 1 and finding.message.endswith("data/nobody.parquet")


def test_another_engine_s_commits_say_no_reason_either(catalog: icecore.Catalog) -> None:
    """They name no author, and the last one's is not taken for another's."""
    healthy(catalog, "t", partition_spec=None).append([{"id": 1, "name": "n"}], author="ann")
    peer = pyiceberg_catalog(catalog.path)
    peer.load_table("ns.t").append(pa.table({"id": [2], "name": ["m"]}, schema=SCHEMA))
    peer.close()
    catalog.load_table("ns.t")
    (finding,) = catalog.audit(rules=["commits-without-reason"]).findings
    assert finding.row["actors"] == ["ann", "another engine"]
    assert finding.message.endswith(f"2, the last at position {catalog.position} by another engine")


def test_renames_drops_and_purges_have_reasons_too(catalog: icecore.Catalog) -> None:
    """As `icecore.require-message` has it of them; that of a table without a name is told under its last one."""
    for name in ("moved", "gone", "kept"):
        healthy(catalog, name)
    catalog.rename_table("ns.moved", "ns.there")
    catalog.drop_table("ns.gone")
    catalog.purge_table("ns.gone")
    catalog.rename_table("ns.kept", "ns.stays", message="clearer")
    catalog.drop_table("ns.stays", message="not needed")
    found = {f.table: f.row["commits"] for f in catalog.audit(rules=["commits-without-reason"]).findings}
    assert found == {"ns.gone": 2, "ns.there": 1}


def test_what_is_asked_wrongly_is_refused(catalog: icecore.Catalog, folder: Path) -> None:
    with pytest.raises(ValidationError, match="there is no rule 'nothing'; there are: commits-without-reason, "):
        catalog.audit(rules=["nothing"])
    with pytest.raises(ValidationError, match="no rule has an option 'nothing'"):
        catalog.audit(options={"nothing": 1})
    with pytest.raises(ValidationError, match="the option skew is like 10, found 'much'"):
        catalog.audit(options={"skew": "much"})
    with pytest.raises(NoSuchTableError, match=r"ns\.nothing"):
        catalog.audit(tables=["ns.nothing"])
    with pytest.raises(ValidationError, match="a list of"):
        catalog.audit(tables="ns.nothing")
    with pytest.raises(ValidationError, match="there is no folder of rules"):
        catalog.audit(folder=folder / "nothing")
    (folder / "wrong.sql").write_text(MANY_COLUMNS.replace("many-columns", "wrong").replace("t.columns >", "t.size >"))
    with pytest.raises(ValidationError, match="the rule wrong can't be run"):
        catalog.audit(folder=folder)
    (folder / "wrong.sql").write_text(MANY_COLUMNS.replace("many-columns", "wrong").replace("AS subject", "AS about"))
    with pytest.raises(ValidationError, match="the rule wrong gives no column subject"):
        catalog.audit(folder=folder)


# Baselines


def test_a_baseline_accepts_what_was_found(bad: icecore.Catalog, tmp_path: Path) -> None:
    """Also after a rename, as tables are known by their UUIDs; what is found no more is told."""
    found = bad.audit()
    assert [(f.rule, f.severity) for f in found.findings] == [("secrets", "error"), ("commits-without-reason", "note")]
    path = tmp_path / "baseline.json"
    path.write_text(baseline_text(found, "known since long"))
    bad.rename_table("ns.t", "ns.other", message="why")
    again = bad.audit(baseline=path)
    assert again.findings == () and again.stale == ()
    assert [(f.table, a.reason) for f, a in again.accepted] == [
        ("ns.other", "known since long"),
        ("ns.silent", "known since long"),
    ]
    bad.load_table("ns.other").remove_properties("db.password", message="why")
    assert [a.rule for a in bad.audit(baseline=path).stale] == ["secrets"]
    assert bad.audit(baseline=path, rules=["secrets-in-log"]).stale == ()
    assert {a.rule for a in read_baseline(path)} == {"secrets", "commits-without-reason"}


def test_a_renamed_table_is_one_table_to_rules_of_the_log(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """By its name of now, with what was done under others; not with what another one did that had the name."""
    table = make_table(catalog, properties={"db.password": "hunter2"})
    table.append([{"id": 1, "name": "ann@x.org"}])
    with table.update_schema() as schema:
        schema.add_column("old", "int")
    table.remove_properties("db.password")
    with table.update_schema() as schema:
        schema.delete_column("old")
    table = catalog.rename_table("ns.t", "ns.now")
    table.append([{"id": 2, "name": "bob@x.org"}])
    table.set_properties({"db.password": "hunter3"})
    table.remove_properties("db.password")
    make_table(catalog).set_properties({"by": "another"})
    rules = ["commits-without-reason", "secrets-in-log", "personal-data", "narrowed-schema"]
    found = {f.rule: f for f in catalog.audit(rules=rules, tables=["ns.now"]).findings}
    assert set(found) == set(rules) and {f.table for f in found.values()} == {"ns.now"}
    assert [found[r].row[n] for r, n in ((rules[0], "commits"), (rules[2], "bounds"))] == [8, 4]
    [of_other] = catalog.audit(rules=rules, tables=["ns.t"]).findings
    assert (of_other.rule, of_other.row["commits"]) == (rules[0], 1)
    path = tmp_path / "baseline.json"
    path.write_text(baseline_text(catalog.audit()))
    assert catalog.audit(baseline=path).stale == () == catalog.audit(baseline=path).findings


def test_an_entry_is_stale_where_the_audit_could_have_found_it(bad: icecore.Catalog) -> None:
    """Of a rule that is none any more too; not of another table or rule than those that were asked for."""
    uuid = str(bad.load_table("ns.silent").metadata.table_uuid)
    silent = [Accepted(table="ns.silent", subject="x"), Accepted(rule="secrets", table_uuid=uuid)]
    others = [Accepted(rule="renamed-since"), Accepted(subject="x"), Accepted(rule="log-health")]
    assert bad.audit(baseline=[*silent, *others]).stale == (*silent, *others)
    assert bad.audit(baseline=[*silent, *others], tables=["ns.t"]).stale == ()
    of_one = bad.audit(baseline=[*silent, *others], tables=["ns.silent"])
    assert of_one.stale == (*silent,) and "log-health" not in {r.id for r in of_one.rules}
    assert bad.audit(baseline=[*silent, *others], rules=["secrets"]).stale == (silent[1],)


def test_an_entry_names_a_table_as_it_is_typed(catalog: icecore.Catalog) -> None:
    """In whatever quotes; without any a dot parts levels, and so names another table. Views are told so too."""
    secret = {"db.password": "hunter2"}
    make_table(catalog, "a.b", properties=secret)
    catalog.create_view(("ns", 'v."1"'), "SELECT 1 AS one", properties=secret)
    catalog.create_view("ns.v", "SELECT 1 AS one", properties=secret)
    for entry in ('ns."a.b"', "ns.`a.b`", '"ns"."a.b"'):
        of_views = catalog.audit(rules=["secrets"], baseline=[Accepted(table=entry)])
        assert [f.subject for f in of_views.findings] == ['view ns."v.""1""" db.password', "view ns.v db.password"]
        assert catalog.audit(baseline=[Accepted(table=entry, subject="x")], tables=[("ns", "a.b")]).stale
    other = catalog.audit(rules=["secrets"], baseline=[Accepted(table="ns.a.b")])
    assert [f.table for f in other.findings] == [None, None, 'ns."a.b"']


def test_an_entry_accepts_all_that_it_does_not_name(bad: icecore.Catalog) -> None:
    rules = [f.rule for f in bad.audit(baseline=[Accepted(rule="secrets")]).findings]
    assert rules == ["commits-without-reason"]
    assert bad.audit(baseline=[Accepted(table="ns.t"), Accepted(table="ns.silent", subject="commits")]).findings == ()


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"accepted": 1}']
    + [f'{{"accepted": [{e}]}}' for e in ('{"ruel": "secrets"}', "{}", '{"reason": "all is well"}', '{"rule": 1}')],
)
def test_a_file_that_is_no_baseline_is_refused(catalog: icecore.Catalog, tmp_path: Path, text: str) -> None:
    """An entry that names nothing is none: it would accept whatever there will be."""
    (tmp_path / "baseline.json").write_text(text)
    with pytest.raises(ValidationError, match=r"baseline\.json is no baseline"):
        catalog.audit(baseline=tmp_path / "baseline.json")
    with pytest.raises(ValidationError, match="there is no baseline"):
        catalog.audit(baseline=tmp_path / "nothing.json")


# The shell


def test_the_exit_code_tells_whether_there_are_findings(bad: icecore.Catalog, tmp_path: Path) -> None:
    """0 where none is as bad as asked for, 1 where one is, 2 where the audit can't be made."""
    said = audited(bad, code=1).output
    assert "error: secrets\n  ns.t: the property db.password looks like a secret\n  -> " in said
    assert said.endswith("31 rules: 1 error, 0 warnings, 1 note\n")
    audited(bad, "--fail-on", "never", code=0)
    audited(bad, "ns.silent", code=0)
    audited(bad, "ns.silent", "--fail-on", "note", code=1)
    for arguments in (["ns.nothing"], ["--rule", "nothing"], ["--fail-on", "much"], ["--baseline", "nothing"]):
        audited(bad, *arguments, code=2)
    baseline = str(tmp_path / "baseline.json")
    assert audited(bad, "--write-baseline", baseline, code=0).output.endswith("2 findings accepted\n")
    assert audited(bad, "--baseline", baseline, "--fail-on", "note", code=0).output.endswith("0 notes, 2 accepted\n")


def test_findings_as_json_and_csv(bad: icecore.Catalog) -> None:
    value = orjson.loads(audited(bad, "--output", "json", code=1).output)
    assert [f["rule"] for f in value["findings"]] == ["secrets", "commits-without-reason"]
    assert value["findings"][1]["row"]["commits"] == 1 and len(value["rules"]) == len(own_rules())
    rows = list(csv.DictReader(io.StringIO(audited(bad, "-o", "csv", code=1).output)))
    assert [(r["severity"], r["table"]) for r in rows] == [("error", "ns.t"), ("note", "ns.silent")]


def test_no_name_is_a_line_of_its_own(catalog: icecore.Catalog) -> None:
    """A name with a new line could say that nothing was found."""
    healthy(catalog, "x\n31 rules: 0 errors").append([{"id": 9}])
    found = catalog.audit(rules=["commits-without-reason"])
    assert [f.table for f in found.findings] == ["ns.x\n31 rules: 0 errors"]
    assert "  ns.x\\n31 rules: 0 errors: commits without" in str(found)
    assert str(found).count("\n30") == 0


def test_no_name_is_a_formula_in_csv(catalog: icecore.Catalog) -> None:
    """Findings are opened in spreadsheets, and whoever may commit chooses names."""
    healthy(catalog, "t", properties={"=1+password": "hunter2"})
    (row,) = csv.DictReader(io.StringIO(audited(catalog, "-o", "csv", "--rule", "secrets", code=1).output))
    assert row["subject"] == "'=1+password"


def test_findings_as_sarif(bad: icecore.Catalog) -> None:
    """What SARIF 2.1.0 requires is there; accepted findings are suppressed."""
    found = bad.audit(baseline=[Accepted(rule="commits-without-reason", reason="it is cron")])
    from icecore.projections.audit.rules.sarif import sarif

    log = orjson.loads(orjson.dumps(sarif(found)))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    driver = run["tool"]["driver"]
    assert driver["name"] == "icecore" and [r["id"] for r in driver["rules"]] == list(own_rules())
    assert {r["defaultConfiguration"]["level"] for r in driver["rules"]} == {"error", "warning", "note"}
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"] and result["level"] in ("error", "warning", "note")
        assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] in ("ns.t", "ns.silent")
    assert [r.get("suppressions") for r in run["results"]] == [
        None,
        [{"kind": "external", "justification": "it is cron"}],
    ]
    assert orjson.loads(audited(bad, "--output", "sarif", code=1).output)["version"] == "2.1.0"


def test_findings_in_sarif_have_a_path_without_which_code_hosts_refuse_them(catalog: icecore.Catalog) -> None:
    """GitHub takes no file in which a place is only logical, nor one whose path has a scheme."""
    from icecore.projections.audit.rules.sarif import sarif

    catalog.create_namespace("file:a b")
    catalog.create_table("file:a b.c/d?#", SCHEMA, properties={"password": "hunter2"})
    audit = catalog.audit(rules=["secrets"])
    (found,) = audit.findings
    audit = evolve(audit, findings=(found, evolve(found, table=None, table_uuid=None)))
    places = [r["locations"][0] for r in sarif(audit)["runs"][0]["results"]]
    assert [p["physicalLocation"]["artifactLocation"]["uri"] for p in places] == [
        "file%3Aa%20b/c%2Fd%3F%23",
        "icecore.db",
    ]
    assert [p["physicalLocation"]["region"] for p in places] == [{"startLine": 1}] * 2
    assert places[0]["logicalLocations"][0]["fullyQualifiedName"] == "file:a b.c/d?#"


def test_rules_are_listed(catalog: icecore.Catalog) -> None:
    said = audited(catalog, "--list", code=0).output
    assert all(rule in said for rule in own_rules())
    listed = orjson.loads(audited(catalog, "--list", "--output", "json", code=0).output)
    assert listed[0].keys() == {"rule", "severity", "finds", "mend", "scope", "options"}
    assert audited(catalog, "--list", "--output", "csv", code=0).output.startswith("rule,severity,finds\n")


def test_a_form_that_findings_have_not_is_refused(catalog: icecore.Catalog) -> None:
    """A program that asks for Arrow takes text for a damaged stream."""
    for options in (["-o", "arrow", "audit"], ["audit", "--list", "--output", "sarif"]):
        result = CliRunner().invoke(cli, ["--warehouse", str(catalog.path), *options])
        assert result.exit_code == 2 and "choose another --output" in result.stderr


def test_the_page_tells_each_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
    for rule in own_rules().values():
        assert f"| `{rule.id}` | {rule.severity} | {rule.finds} |\n" in page, rule.id


def test_what_mends_is_there() -> None:
    """The calls and commands that the rules name."""
    from icecore.engine.cli.main import COMMANDS
    from icecore.engine.maintenance.maintenance import Maintenance

    told = " ".join(r.mend for r in own_rules().values())
    owners = {"table": icecore.Table, "table.maintenance": Maintenance, "catalog": icecore.Catalog}
    calls = re.findall(r"\b([\w.]+)\.(\w+)\(", told)
    assert len(calls) > 10 and all(hasattr(owners[owner], name) for owner, name in calls), calls
    assert set(re.findall(r"`icecore (\w+)", told)) <= COMMANDS.keys()
