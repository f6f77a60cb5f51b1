"""What a warehouse must hold, as a plain value, and what is found in one."""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve, frozen

import icecore

MARK = "mark"


@frozen
class TableModel:
    """The rows by id (each once), the columns in order, and the property that operations count up."""

    ids: tuple[int, ...] = ()
    columns: tuple[str, ...] = ("id", "name")
    mark: str | None = None

    def plus(self, *ids: int) -> TableModel:
        return evolve(self, ids=tuple(sorted((*self.ids, *ids))))

    def minus(self, *ids: int) -> TableModel:
        return evolve(self, ids=tuple(i for i in self.ids if i not in ids))


Named: TypeAlias = "tuple[tuple[str, TableModel], ...]"


@frozen
class Model:
    """All tables and views by name, and the namespaces. What lies in `ns` is named without it, all else in full."""

    tables: Named = ()
    views: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = ("ns",)

    def table(self, name: str) -> TableModel:
        return dict(self.tables)[name]

    def put(self, name: str, table: TableModel | None) -> Model:
        rest = {n: t for n, t in self.tables if n != name}
        if table is not None:
            rest[name] = table
        return evolve(self, tables=tuple(sorted(rest.items())))

    def put_view(self, name: str, sql: str) -> Model:
        return evolve(self, views=tuple(sorted({**dict(self.views), name: sql}.items())))


def observe(catalog: icecore.Catalog) -> Model:
    """What a warehouse holds. A row whose name does not fit its id shows up as id -1."""
    tables = {}
    for table in catalog.tables():
        found = table.scan(selected_fields=("id", "name")).to_arrow()
        ids = [i if n == f"n{i}" else -1 for i, n in zip(*(c.to_pylist() for c in found.columns), strict=True)]
        columns = tuple(f.name for f in table.schema().fields)
        tables[short_name(table.name())] = TableModel(tuple(sorted(ids)), columns, table.properties.get(MARK))
    views = {v.name()[-1]: v.sql_for("duckdb").sql for v in catalog.views()}
    namespaces = tuple(".".join(n) for n in catalog.all_namespaces())
    return Model(tuple(sorted(tables.items())), tuple(sorted(views.items())), namespaces)


def short_name(identifier: tuple[str, ...]) -> str:
    """How the model calls a table."""
    return ".".join(identifier[1:] if identifier[0] == "ns" else identifier)


def full_name(name: str) -> tuple[str, ...]:
    """The other way round."""
    return tuple(name.split(".")) if "." in name else ("ns", name)


def difference(expected: Model, found: Model) -> str:
    """What differs, in few words; empty where nothing does."""
    out = []
    for name in sorted(dict(expected.tables).keys() | dict(found.tables).keys()):
        want, have = dict(expected.tables).get(name), dict(found.tables).get(name)
        if want is None or have is None:
            out.append(f"table {name}: expected {'it' if want else 'none'}, found {'it' if have else 'none'}")
        elif want != have:
            lost, more = sorted(set(want.ids) - set(have.ids)), sorted(set(have.ids) - set(want.ids))
            twice = len(have.ids) - len(set(have.ids))
            out.append(
                f"table {name}: lost {lost}, too many {more}, {twice} twice, columns {have.columns} for "
                f"{want.columns}, mark {have.mark} for {want.mark}"
            )
    if expected.views != found.views:
        out.append(f"views {found.views} for {expected.views}")
    if expected.namespaces != found.namespaces:
        out.append(f"namespaces {found.namespaces} for {expected.namespaces}")
    return "; ".join(out)
