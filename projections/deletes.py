"""The conditions under which a delete file may matter to a data file, beyond sequence number and partition.

A position delete file names its data files by path, so bounds on the path leave most out; an equality delete file may
be left out where the bounds of one of its columns exclude the data file's (Spec: Scan Planning, SP3, SP4, SP6).
"""

from __future__ import annotations

from icecore.engine.sql_files import query, quote
from icecore.projections.entry_tables import PATH_FIELD_ID, EntryTable

_PLAIN = "regexp_replace({0}, '^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?', '')"


def delete_pairs_sql(table: EntryTable, where: str) -> str:
    """The statement that pairs the planned data files of a table with its delete files."""
    return query("plan/deletes.sql", "pairs").format(
        entries=table.name,
        where=where,
        path_bounds=path_bounds(table),
        equality_bounds=equality_bounds(table),
    )


def path_bounds(table: EntryTable) -> str:
    """Whether the path of `data` may lie in the bounds of the position delete file `d`.

    Writers don't always agree on scheme and authority of one path, so it may lie there with or without them.
    """
    lower, upper = f"lower_{PATH_FIELD_ID}", f"upper_{PATH_FIELD_ID}"
    conditions = []
    for column, operator in ((lower, "<="), (upper, ">=")):
        if column in table.columns:
            bound = f"d.{quote(column)}"
            plain = _PLAIN.format(bound)
            conditions.append(
                f"({bound} IS NULL OR {bound} {operator} data.file_path OR {plain} {operator} data.plain_path)"
            )
    return " AND ".join(conditions) or "TRUE"


def equality_bounds(table: EntryTable) -> str:
    """Whether the equality delete file `d` may delete a row of `data`, by nulls and bounds of its columns."""
    ids = sorted(int(c.removeprefix("lower_")) for c in table.columns if c.startswith("lower_"))
    conditions = [
        f"(NOT list_contains(d.equality_ids, {i}) OR {_may_overlap(table, i)})" for i in ids if i < PATH_FIELD_ID - 1
    ]
    return " AND ".join(conditions) or "TRUE"


def _may_overlap(table: EntryTable, field_id: int) -> str:
    """One column: a null in both may match; otherwise both need values, and ranges that touch.

    What is unknown may match, so every test is for a known reason against it.
    """

    def column(side: str, prefix: str) -> str:
        name = f"{prefix}_{field_id}"
        return f"{side}.{quote(name)}" if name in table.columns else "NULL"

    d_nulls, f_nulls = column("d", "nulls"), column("data", "nulls")
    d_values, f_values = column("d", "values"), column("data", "values")
    both_null = f"(coalesce({d_nulls}, 1) > 0 AND coalesce({f_nulls}, 1) > 0)"
    apart = " OR ".join(
        (
            f"({f_nulls} = {f_values} AND {d_nulls} = 0)",
            f"({d_nulls} = {d_values} AND {f_nulls} = 0)",
            f"({_no_nans(table, field_id)} AND ({column('d', 'lower')} > {column('data', 'upper')}"
            f" OR {column('d', 'upper')} < {column('data', 'lower')}))",
        )
    )
    return f"({both_null} OR NOT coalesce({apart}, FALSE))"


def _no_nans(table: EntryTable, field_id: int) -> str:
    """NaN lies in no bounds, and a NaN deletes a NaN: bounds only tell where one side has none."""
    name = f"nans_{field_id}"
    kind = table.columns.get(f"lower_{field_id}", "")
    if kind not in ("FLOAT", "DOUBLE"):
        return "TRUE"
    return f"(d.{quote(name)} = 0 OR data.{quote(name)} = 0)" if name in table.columns else "FALSE"
