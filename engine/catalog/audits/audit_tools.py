"""The audits of a catalog by rules, and reports."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from icecore.engine.catalog.catalog_handle import CatalogHandle
from icecore.engine.catalog.log_tools import audited_tables, logged_tables, sql
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple
from icecore.engine.errors import NoSuchTableError, StorageError, UnreadableTableWarning, ValidationError, name_text

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.projections.audit.rules.audit_findings import Accepted, Audit
    from icecore.projections.audit.rules.rule import Option, Rule
    from icecore.projections.report.report_data import TableData


def audit(
    catalog: CatalogHandle,
    *,
    rules: Sequence[str] | None = None,
    tables: Sequence[IdentifierLike] | None = None,
    baseline: str | os.PathLike[str] | Sequence[Accepted] | None = None,
    folder: str | os.PathLike[str] | None = None,
    options: Mapping[str, Option] | None = None,
) -> Audit:
    """The findings of all audit rules, as of `icecore audit`, or of those whose ids are in `rules`.

    With `tables` only findings about these are told, and rules about the whole warehouse don't run. The rules of a
    `folder` join ours. `options` set the limits of rules; a table's own properties (`icecore.audit.*`) go before them.
    `baseline`, a file or its entries, names findings that are accepted. Nothing is changed. Raises ValidationError,
    NoSuchTableError.
    """
    from icecore.projections.audit.audited_tables import AuditedTables
    from icecore.projections.audit.rules.audit_findings import accepting, read_baseline
    from icecore.projections.audit.rules.run_rules import Audited, run_rules

    chosen = _rules(rules, folder)
    accepted = read_baseline(baseline) if isinstance(baseline, (str, os.PathLike)) else baseline or ()
    listed = audited_tables(catalog)
    only = None if tables is None else frozenset(map(identifier_tuple, _several(tables)))
    for name in sorted((only or frozenset()) - {t.identifier for t in listed}):
        # Raises for a name that is still missing; a table that has it by now was made after the listing.
        catalog._warehouse.models.table_stream(name)
        raise NoSuchTableError(f"Table does not exist: {name_text(name)}")
    names = {t.table_uuid: t.identifier for t in listed}
    audited = Audited(catalog, AuditedTables(lambda: listed), logged_tables(catalog), names, only)
    ran = audited.rules_about(chosen)
    ids, uuids = {r.id for r in ran}, {t.table_uuid for t in listed if only is not None and t.identifier in only}

    def could_find(entry: Accepted) -> bool:
        """Whether this audit would find what an unused entry names if it was there: its rules ran on its table."""
        if rules is None and only is None:
            return True
        of_rule = entry.rule in ids or (entry.rule is None and rules is None)
        return of_rule and (
            only is None or entry.table_uuid in uuids or any(entry.is_named(name_text(n)) for n in only)
        )

    return accepting(run_rules(audited, ran, options or {}), accepted, ran, could_find)


def first_rows(
    catalog: CatalogHandle, query: str, most_rows: int, *, timeout: float | None, memory_limit: str | None
) -> pa.Table:
    """At most so many of the rows of `sql`, by the same limits. Raises as it does."""
    from icecore.projections.audit.sql_prompt import run_sql

    listed, log = partial(audited_tables, catalog), logged_tables(catalog)
    return run_sql(catalog, listed, log, query, timeout=timeout, memory_limit=memory_limit, most_rows=most_rows)


def report(
    catalog: CatalogHandle,
    path: str | os.PathLike[str],
    table: IdentifierLike | None = None,
    *,
    baseline: str | os.PathLike[str] | Sequence[Accepted] | None = None,
    folder: str | os.PathLike[str] | None = None,
    options: Mapping[str, Option] | None = None,
) -> Path:
    """Writes a report of all tables, or of one, to an HTML file that needs no other file; returns its path.

    It has commits over time, growth, sizes of files, partitions, delete debt, snapshots, and the findings of `audit`,
    which takes the other options. Raises ValidationError, NoSuchTableError, StorageError where it can't be written.
    """
    page = report_text(catalog, table, baseline=baseline, folder=folder, options=options)
    target = Path(path)
    try:
        target.write_text(page, encoding="utf-8", errors="replace")
    except OSError as e:
        raise StorageError(f"can't write the report {target}: {e.strerror}") from e
    return target


def report_text(
    catalog: CatalogHandle,
    table: IdentifierLike | None = None,
    *,
    baseline: str | os.PathLike[str] | Sequence[Accepted] | None = None,
    folder: str | os.PathLike[str] | None = None,
    options: Mapping[str, Option] | None = None,
) -> str:
    """The HTML of a report: see `report`. Raises ValidationError, NoSuchTableError."""
    from icecore.engine.common.ids import now_ms
    from icecore.projections.report.report_page import ReportHead, report_page

    tables = None if table is None else [table]
    found = audit(catalog, tables=tables, baseline=baseline, folder=folder, options=options)
    title = f"The warehouse {catalog.name}" if table is None else name_text(identifier_tuple(table))
    warehouse = catalog._warehouse
    head = ReportHead(title, str(warehouse.path), warehouse.store.head()[0], now_ms())
    return report_page(head, reported_tables(catalog, table), found)


def reported_tables(catalog: CatalogHandle, table: IdentifierLike | None = None) -> list[TableData]:
    """The rows that a report draws, of all tables or of one. Raises NoSuchTableError."""
    from icecore.projections.report.report_data import report_data

    uuid = None if table is None else catalog.load_table(table).metadata.table_uuid
    with warnings.catch_warnings():
        # Tables that can't be read are among the findings.
        warnings.simplefilter("ignore", UnreadableTableWarning)
        told = report_data(partial(sql, catalog), uuid)
    name = None if table is None else name_text(identifier_tuple(table))
    return [t for t in told if name in (None, t.name)]


def audit_rules(catalog: CatalogHandle, folder: str | os.PathLike[str] | None = None) -> tuple[Rule, ...]:
    """The rules that there are, those of a folder too. Raises ValidationError."""
    return tuple(_rules(None, folder))


def _rules(ids: Sequence[str] | None, folder: str | os.PathLike[str] | None) -> list[Rule]:
    from icecore.projections.audit.rules.rule_files import chosen_rules, rules_of

    return chosen_rules(rules_of(folder), ids)


def _several(tables: Sequence[IdentifierLike]) -> Sequence[IdentifierLike]:
    if isinstance(tables, str):
        raise ValidationError(f"tables are given as a list of names, found {tables!r}")
    return tables
