"""Commits by a session of Spark that has `spark.wap.id` set, as Iceberg's own runtime stages them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from icecore.engine.data.spark_schema import is_spark
from icecore.engine.metadata.write_audit_publish import is_staged, staged_by_session
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH

Options = TypeVar("Options", bound=Mapping[str, object])


def audited_rows(df: Any, metadata: TableMetadata, options: Options) -> Options:
    """The options of a change by rows: with those of the rows' session for a DataFrame of Spark, else as they are.

    Raises what `audited` raises.
    """
    return audited(df.sparkSession, metadata, options) if is_spark(df) else options


def audited(session: Any, metadata: TableMetadata, options: Options) -> Options:
    """The options of a change, which is staged where the session's settings say so; a `wap.id` in the options wins.

    Raises ValidationError where a staged change names a branch too, and for `spark.wap.branch`.
    """
    staged = staged_by_session(metadata.properties, lambda name: session.conf.get(name, None))
    if not staged:
        return options
    asked: Mapping[str, Any] = options
    summary = staged | string_properties(asked.get("snapshot_properties"), "snapshot properties")
    is_staged(metadata, asked.get("branch", MAIN_BRANCH), summary)
    return cast(Options, {**asked, "snapshot_properties": summary})
