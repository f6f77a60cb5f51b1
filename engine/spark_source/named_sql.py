"""Spark SQL over a catalog's tables and views by their names, in classic mode and in Spark Connect.

Names are found in the query's text and given to Spark as DataFrames; the rest of the text is Spark's as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sqlglot
from attrs import define, field, frozen
from sqlglot import exp

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import NoSuchTableError, ValidationError, name_text
from icecore.engine.query.source_names import shortened
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spark_source.batch_reader import rows_and_schema
from icecore.engine.spark_source.metadata_rows_of_table import metadata_rows, metadata_table
from icecore.engine.spark_source.shown_arrow import shown_frame
from icecore.engine.spark_source.sql_catalog.named_scan import AsOf
from icecore.engine.view.view_spark import DIALECT, is_common_table, is_in_hint, is_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_TOKENS = 100
_OF, _SAMPLE, _AGAIN = "OF", "TABLESAMPLE", "REPEATABLE"


def sql(
    session: SparkSession, catalog: Catalog | CatalogAt, query: str, *, name: str = "lake", args: Any = None
) -> DataFrame:
    """The rows of a query: see `icecore.spark.sql`."""
    frames = _Frames(session, catalog, name)
    text = bound_text(query, frames.placeholder)
    named = frames.by_placeholder
    return session.sql(text, args=args, **named) if args is not None else session.sql(text, **named)


@frozen
class Moment:
    """The snapshot that AS OF asks for: by VERSION or TIMESTAMP, the SQL behind it, and its text if it is a literal."""

    kind: str
    sql: str
    literal: str | None


def bound_text(query: str, placeholder: Callable[[Identifier, Moment | None], str | None]) -> str:
    """The query with names of tables replaced by what `placeholder` gives; where it gives None they are left alone.

    Raises ValidationError where it is no single query.
    """
    return _Text.of(query).bound(placeholder)


@frozen
class _Splice:
    start: int
    end: int
    text: str


@define
class _Text:
    """A query's text, its tokens and its syntax tree."""

    text: str
    tree: exp.Query
    tokens: list[Any]
    places: dict[int, int]
    ends: dict[int, int]

    @classmethod
    def of(cls, query: str) -> _Text:
        try:
            statements = sqlglot.parse(query, dialect=DIALECT)
            tokens = sqlglot.tokenize(query, dialect=DIALECT)
        except (sqlglot.errors.SqlglotError, RecursionError) as e:
            raise ValidationError(f"the query can't be parsed: {e}") from e
        found = [s for s in statements if s is not None]
        if len(found) != 1 or not isinstance(found[0], exp.Query):
            raise ValidationError(f"there must be one query, found {query[:80]!r}")
        places = {t.start: i for i, t in enumerate(tokens)}
        return cls(query, found[0], tokens, places, {t.end: i for i, t in enumerate(tokens)})

    def bound(self, placeholder: Callable[[Identifier, Moment | None], str | None]) -> str:
        splices, known = [], []
        for table in self.tree.find_all(exp.Table):
            if not is_name(table) or is_common_table(table) or "start" not in table.parts[0].meta:
                continue
            parts = tuple(p.name for p in table.parts)
            after, moment = self.moment(table)
            named = placeholder(parts, moment)
            if named is None:
                continue
            known.append(parts)
            first = table.parts[0].meta["start"]
            splices.append(_Splice(first, self.tokens[after - 1].end + 1, f"{{{named}}}"))
            if not table.alias:
                at = self.tokens[self.after_sample(after) - 1].end + 1
                splices.append(_Splice(at, at, f" AS {quote(parts[-1])}"))
        splices += [s for column in self.tree.find_all(exp.Column) for s in _shortened(column, known)]
        return self.spliced(splices) if known else self.text

    def moment(self, table: exp.Table) -> tuple[int, Moment | None]:
        """The number of the token behind a name and its AS OF, and the moment that the latter asks for."""
        after = self.ends[table.parts[-1].meta["end"]] + 1
        version = table.args.get("version")
        if version is None:
            return after, None
        while self.tokens[after].text.upper() != _OF:
            after += 1
        start = after + 1
        wanted = version.expression
        for end in range(start + 1, min(len(self.tokens), start + _MOST_TOKENS) + 1):
            piece = self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]
            try:
                is_whole = sqlglot.parse_one(piece, dialect=DIALECT) == wanted
            except sqlglot.errors.SqlglotError:
                continue
            # A function's name alone may be the same as a call of it.
            is_call = end + 1 < len(self.tokens) and (self.tokens[end].text, self.tokens[end + 1].text) == ("(", ")")
            if is_whole and not is_call:
                literal = wanted.name if isinstance(wanted, exp.Literal) else None
                return end, Moment(str(version.this).upper(), piece, literal)
        raise ValidationError(f"AS OF is not understood at {'.'.join(p.name for p in table.parts)}")

    def after_sample(self, at: int) -> int:
        """The number of the token behind a TABLESAMPLE, where there is one."""
        while at < len(self.tokens) and self.tokens[at].text.upper() in (_SAMPLE, _AGAIN):
            depth, at = 1, at + 2
            while depth:
                depth += {"(": 1, ")": -1}.get(self.tokens[at].text, 0)
                at += 1
        return at

    def spliced(self, splices: list[_Splice]) -> str:
        """The text with pieces replaced; braces elsewhere are doubled, since Spark formats it."""
        out, at = [], 0
        for s in sorted(splices, key=lambda s: (s.start, s.end)):
            out += [_doubled(self.text[at : s.start]), s.text]
            at = s.end
        return "".join([*out, _doubled(self.text[at:])])


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _shortened(column: exp.Column, tables: list[Identifier]) -> Iterator[_Splice]:
    """The change of `ns.t.id` to `t.id`, since the table is known by its last name alone."""
    parts = column.parts
    dropped = len(parts) - len(shortened(tuple(p.name for p in parts), tables, str.lower))
    if dropped and not is_in_hint(column) and all("start" in p.meta for p in parts[: dropped + 1]):
        yield _Splice(parts[0].meta["start"], parts[dropped].meta["start"], "")


@define
class _Frames:
    """The DataFrames of a query's tables and views, by placeholders."""

    session: SparkSession
    catalog: Catalog | CatalogAt
    name: str
    by_placeholder: dict[str, DataFrame] = field(factory=dict)
    _known: dict[tuple[Identifier, Moment | None], str] = field(factory=dict)

    def placeholder(self, parts: Identifier, moment: Moment | None) -> str | None:
        """The placeholder of a name; None where it is Spark's."""
        identifier = parts[1:] if parts[0].lower() == self.name.lower() and len(parts) > 2 else parts
        if len(identifier) < 2:
            return None
        key = identifier, moment
        if key not in self._known:
            frame = self._frame(identifier, moment)
            if frame is None and identifier is not parts:
                raise NoSuchTableError(f"{name_text(parts)}: there is no table or view {name_text(identifier)!r}")
            if frame is None:
                return None
            self._known[key] = f"icecore_{len(self._known)}"
            self.by_placeholder[self._known[key]] = frame
        return self._known[key]

    def _frame(self, identifier: Identifier, moment: Moment | None) -> DataFrame | None:
        if self.catalog.table_exists(identifier):
            return self.catalog.load_table(identifier).scan(**self._chosen(identifier, moment)).to_spark(self.session)
        metadata = metadata_table(self.catalog, identifier)
        if metadata is None and not self.catalog.view_exists(identifier):
            return None
        if moment is not None:
            raise ValidationError(f"AS OF is of tables, found at {name_text(identifier)}")
        if metadata is None:
            return self.catalog.load_view(identifier).to_spark(self.session)
        return shown_frame(self.session, *rows_and_schema(metadata_rows(self.catalog, *metadata)))

    def _chosen(self, identifier: Identifier, moment: Moment | None) -> Mapping[str, Any]:
        """The options of a scan that choose its snapshot."""
        if moment is None:
            return {}
        if "TIME" in moment.kind:
            told = f"unix_millis(CAST({moment.sql} AS TIMESTAMP_LTZ)) AS ms"
            row = self.session.range(1).selectExpr(told).collect()[0]
            if row.ms is None:
                raise ValidationError(f"{moment.sql} is no time, at {name_text(identifier)}")
            return {"as_of": row.ms}
        if moment.literal is None:
            raise ValidationError(f"a version must be a number or text, found {moment.sql}, at {name_text(identifier)}")
        return AsOf(moment.literal).options(self.catalog.load_table(identifier))
