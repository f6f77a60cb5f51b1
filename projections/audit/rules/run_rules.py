"""The run of rules: each table that they name is made once, for all that name it, and let go after the last.

Rules that name `problems` come last, when all that can't be read is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from attrs import define, field, frozen
from sqlglot import exp

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import SQL_OF_USERS
from icecore.engine.table.table import Table
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS, AUDIT_TABLES, ICEBERG_TABLES, audit_table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import AuditedCatalog, AuditedTables
from icecore.projections.audit.needed_columns import names_any
from icecore.projections.audit.needed_tables import ALL, NeededTables
from icecore.projections.audit.rules.audit_findings import AuditFinding
from icecore.projections.audit.rules.rule import Option, Rule, Scope, parse_option, statement_of
from icecore.projections.history.logged_tables import LoggedTables

LIMITS = "limits"
PREFIX = "icecore.audit."
_OF_TABLE = ("namespace", "name", "table_uuid")
_REQUIRED = ("subject", "message")
_FROM_METADATA = {"history", "metadata_log_entries"}
_FROM_FILES = frozenset(
    {*ICEBERG_TABLES, "manifests", "files", "manifest_contents", "file_history", "problems"} - _FROM_METADATA
)
"""The audit tables that are read from manifests: once a table can't be read, it is not tried again for another."""


@frozen(eq=False)
class Audited:
    """The source of an audit: the catalog, its tables and its log; `only` names the tables that it is about.

    `names` are those that tables have now, by UUID: rows of the log have the name of then, which may be another's now.
    """

    catalog: AuditedCatalog
    tables: AuditedTables
    log: LoggedTables
    names: Mapping[str, Identifier]
    only: frozenset[Identifier] | None = None

    def needed(self, rules: Collection[Rule]) -> NeededTables:
        """The tables that rules can need."""
        if self.only is None or any(r.scope is not Scope.TABLE for r in rules):
            return ALL
        names = ({"namespace": frozenset({".".join(n[:-1])}), "name": frozenset({n[-1]})} for n in self.only)
        return NeededTables(tuple(names))

    def rules_about(self, rules: Sequence[Rule]) -> Sequence[Rule]:
        """The rules among these that run; in an audit of some tables none about the whole warehouse does."""
        return rules if self.only is None else [r for r in rules if r.scope is not Scope.WAREHOUSE]

    def is_about(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is about one of the tables."""
        if self.only is None:
            return True
        if row.get("table_uuid") is not None:
            return self.names.get(row["table_uuid"]) in self.only
        return any((row.get("namespace"), row.get("name")) == (".".join(n[:-1]), n[-1]) for n in self.only)

    def named_now(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with the name that its table has now, where it has one."""
        name = self.names.get(row.get("table_uuid") or "")
        return row if name is None else {**row, "namespace": ".".join(name[:-1]), "name": name[-1]}


def run_rules(audited: Audited, rules: Sequence[Rule], options: Mapping[str, Option]) -> list[AuditFinding]:
    """The findings of rules. `options` go before the defaults of rules, properties of a table before both.

    Raises ValidationError where a rule can't be run, or an option is none of theirs.
    """
    parsed = [_Parsed(r, statement_of(r.sql)) for r in rules]
    parsed.sort(key=lambda p: "problems" in p.names)
    limits = _limits(rules, options)
    con = SQL_OF_USERS.connect()
    try:
        if limits:
            con.register(LIMITS, _limit_rows(audited, limits))
        run = _Run(con, audited, parsed)
        return [f for i, p in enumerate(parsed) for f in run.findings(i, p)]
    finally:
        con.close()


@frozen(eq=False)
class _Parsed:
    """A rule with its statement, and the audit tables that this names."""

    rule: Rule
    statement: exp.Expression
    names: frozenset[str] = field(init=False)

    @names.default
    def _named(self) -> frozenset[str]:
        found = {str(t.name).lower() for t in self.statement.find_all(exp.Table)}
        return frozenset(found & AUDIT_TABLES.keys())


@define(eq=False)
class _Run:
    """A run: which audit tables DuckDB has, and until which rule they are needed."""

    _con: duckdb.DuckDBPyConnection
    _audited: Audited
    _parsed: Sequence[_Parsed]
    _there: set[str] = field(factory=set)

    def findings(self, place: int, parsed: _Parsed) -> Iterator[AuditFinding]:
        """The findings of the next rule."""
        for name in sorted(parsed.names - self._there, key=lambda n: (n == "problems", n)):
            self._con.register(name, self._rows(name))
            self._there.add(name)
        rule = parsed.rule
        for row in _answer(self._con, rule).to_pylist(maps_as_pydicts="lossy"):
            if self._audited.is_about(row):
                yield _finding(rule, self._audited.named_now(row))
        later = set[str]().union(*(p.names for p in self._parsed[place + 1 :]))
        for name in self._there - later:
            self._con.unregister(name)
        self._there &= later

    def _rows(self, name: str) -> pa.Table:
        users = [p for p in self._parsed if name in p.names]

        def asks_for(columns: Collection[str]) -> bool:
            return any(names_any(p.statement, columns) for p in users)

        a = self._audited
        needed = a.needed([p.rule for p in users])
        tables = a.tables.readable() if name in _FROM_FILES else a.tables
        return audit_table(name, AuditedRows(a.catalog, tables, needed, a.log, asks_for))


def _answer(con: duckdb.DuckDBPyConnection, rule: Rule) -> pa.Table:
    try:
        found = duck.arrow(con, rule.sql)
    except duckdb.Error as e:
        known = ", ".join((*AUDIT_SCHEMAS, LIMITS))
        raise ValidationError(f"the rule {rule.id} can't be run: {e};\nthe tables are: {known}") from e
    for name in _REQUIRED:
        if name not in found.column_names:
            raise ValidationError(f"the rule {rule.id} gives no column {name}: it has {found.column_names}")
    return found


def _finding(rule: Rule, row: dict[str, Any]) -> AuditFinding:
    named = {name: row.pop(name, None) for name in (*_OF_TABLE, *_REQUIRED)}
    levels = (*f"{named['namespace'] or ''}".split("."), f"{named['name']}")
    table = None if named["name"] is None else name_text(tuple(filter(None, levels)))
    # A null in what a message is made of makes it null.
    subject, message = f"{named['subject'] or ''}", f"{named['message'] or rule.finds}"
    return AuditFinding(rule.id, rule.severity, table, named["table_uuid"], subject, message, rule.mend, row)


def _limits(rules: Sequence[Rule], options: Mapping[str, Option]) -> dict[str, Option]:
    """The options of all rules, with what counts where a table says nothing."""
    found = {name: value for r in rules for name, value in r.options.items()}
    for name, value in options.items():
        if name not in found:
            raise ValidationError(f"no rule has an option {name!r}; there are: {', '.join(sorted(found)) or 'none'}")
        if isinstance(value, bool) or not isinstance(value, _kinds(found[name])):
            raise ValidationError(f"the option {name} is like {found[name]!r}, found {value!r}")
        found[name] = value
    return found


def _kinds(default: Option) -> tuple[type, ...]:
    return (int, float) if isinstance(default, (int, float)) else (str,)


def _limit_rows(audited: Audited, limits: Mapping[str, Option]) -> pa.Table:
    """The rows of `limits`: for each table the options, with those that its properties set."""
    kinds = {n: pa.string() if isinstance(v, str) else pa.float64() for n, v in limits.items()}
    schema = pa.schema([*((n, pa.string()) for n in _OF_TABLE), *kinds.items()])

    def read(table: Table) -> dict[str, Option]:
        return {name: _limit(name, default, table.properties) for name, default in limits.items()}

    rows = [{**{n: t.named[n] for n in _OF_TABLE}, **own} for t, own in audited.tables.read(audited.needed([]), read)]
    return pa.Table.from_pylist(rows, schema=schema)


def _limit(name: str, default: Option, properties: Mapping[str, str]) -> Option:
    """An option of one table; a property that can't be read as one counts as not set."""
    text = properties.get(PREFIX + name.replace("_", "-"))
    if text is None or isinstance(default, str):
        return default if text is None else text
    value = parse_option(text)
    return value if isinstance(value, _kinds(default)) else default
