"""Changes that commands of Spark SQL ask for, as commits of a table.

Java hands over arrays: the name of the change, and DataFrames, Columns and texts; see `LakeChanges.java`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from icecore.engine.common.keyword_options import options_of
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE, BoundTerm, Expression
from icecore.engine.spark.change.session_audit import audited
from icecore.engine.spark.pyspark_api import Column, DataFrame, SparkSession
from icecore.engine.spark.relation.catalyst_filter import exact_filter_of, filter_of
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField, StructType
from icecore.engine.table.by_spark.spark_changes import Within
from icecore.engine.table.by_spark.spark_merge import SparkMerge
from icecore.engine.table.commit_options import CommitOptions, PinnedChangeOptions
from icecore.engine.table.deciding_transaction import DecidingTransaction
from icecore.engine.table.table import Table

_WRITING = frozenset({"branch", "message", "author", "idempotency-key", "snapshot-properties"})
_log = logging.getLogger(__name__)


def change_table(session: SparkSession, table: Table, change: Sequence[Any]) -> None:
    """Makes a change, as one commit.

    Raises what `append`, the overwrites and the changes of `table.spark` raise, ValidationError for unknown options.
    """
    by_spark = table.spark.with_session(session)
    match change:
        case ["append", rows, options]:
            table.append(DataFrame(rows, session), **_options(options))
        case ["overwrite", rows, options]:
            table.overwrite(DataFrame(rows, session), **_options(options))
        case ["overwrite-partitions", rows, options] if table.spec().is_unpartitioned:
            # As in Iceberg: the table is one partition, which stays as it is where there are no new rows.
            _replace_only_partition(table, DataFrame(rows, session), _options(options))
        case ["overwrite-partitions", rows, options]:
            table.dynamic_partition_overwrite(DataFrame(rows, session), **_options(options))
        case ["delete-all", options]:
            table.delete("true", **audited(session, table.metadata, _options(options)))
        case ["delete", condition, text, options]:
            by_spark.delete(_within(condition, text, table), **_options(options))
        case ["update", paths, values, condition, text, options]:
            by_spark.update(_set(paths, values), _within(condition, text, table), **_options(options))
        case ["merge", source, is_by_keys, on, clauses, options]:
            merge = by_spark.merge(DataFrame(source, session), list(on) if is_by_keys else Column(on))
            for clause in clauses:
                merge = _with_clause(merge, *clause)
            merge.commit(**_options(options))
        case _:
            raise ValidationError(f"Spark asks for {change[0]!r}")


def _replace_only_partition(table: Table, rows: DataFrame, options: dict[str, Any]) -> None:
    with DecidingTransaction.of(table, options_of(CommitOptions, options)) as transaction:
        transaction.replace_only_partition(rows, **options_of(PinnedChangeOptions, options))


def filter_within(text: str | None, schema: Schema) -> Expression:
    """The part of a filter by `FilterText` that has a counterpart in the engine; TRUE where no part has one."""
    try:
        return TRUE if text is None else filter_of(text, dict(_terms(schema, schema.fields, ())))
    except Exception as e:  # whatever it is: all files are right as well
        _log.info("all files are read, since a filter could not be understood: %s", e)
        return TRUE


def exact_filter(text: str, schema: Schema) -> Expression | None:
    """A filter by `FilterText` as one of the engine; None where that is not sure to select the same rows."""
    return exact_filter_of(text, dict(_terms(schema, schema.fields, ())))


def _options(text: str) -> dict[str, Any]:
    given = SourceOptions.of(json.loads(text), _WRITING)
    return {
        **{name.replace("-", "_"): given.text(name) for name in _WRITING if given.text(name) is not None},
        **({"snapshot_properties": found} if (found := given.text_map("snapshot-properties")) else {}),
    }


def _within(condition: Any, text: str | None, table: Table) -> Within:
    return Within(Column(condition), filter_within(text, table.schema()))


def _set(paths: Iterable[Iterable[str]], values: Iterable[Any]) -> dict[tuple[str, ...], Column]:
    return {tuple(path): Column(value) for path, value in zip(paths, values, strict=True)}


def _with_clause(merge: SparkMerge, when: str, then: str, condition: Any, paths: Any, values: Any) -> SparkMerge:
    where = None if condition is None else Column(condition)
    match when, then:
        case "matched", "update":
            return merge.when_matched_update(_set(paths, values), where)
        case "matched", "delete":
            return merge.when_matched_delete(where)
        case "not matched", _:
            return merge.when_not_matched_insert(_set(paths, values), where)
        case _, "update":
            return merge.when_not_matched_by_source_update(_set(paths, values), where)
        case _:
            return merge.when_not_matched_by_source_delete(where)


def _terms(
    schema: Schema, fields: Iterable[NestedField], outer: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], BoundTerm]]:
    """Columns, and fields inside of structs, by the names on the way to them."""
    for f in fields:
        yield (*outer, f.name), BoundTerm(f, schema.name_of(f.field_id))
        if isinstance(f.field_type, StructType):
            yield from _terms(schema, f.field_type.fields, (*outer, f.name))
