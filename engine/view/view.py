"""Views: metadata, the SQL for each engine, rows, and changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.common.optional_packages import to_pandas
from icecore.engine.common.text import rows_html
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.repository.view_repository import UpdatesAt, ViewRepository
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.updates.metadata_update import LAST_ADDED
from icecore.engine.spec.updates.view_update import SetCurrentViewVersion
from icecore.engine.spec.view import ViewHistoryEntry, ViewMetadata, ViewVersion
from icecore.engine.table.commit_options import (
    CommitOptions,
    DefineView,
    KeyedCommit,
    ReplaceView,
    provenance_of,
)

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from icecore.engine.commit.dry_run import ViewDryRun
    from icecore.engine.data.given_schema import SchemaLike
    from icecore.engine.query.source_names import Lookup, NameScope
    from icecore.engine.view.view_changes import ViewTransaction
    from icecore.engine.view.view_definition import ViewDefinition
    from icecore.engine.view.view_dialects import ViewSql


class View:
    """A view at one version of its stream. It stays as it was loaded until `refresh()` or a commit through it."""

    def __init__(self, views: ViewRepository, lookup: Lookup, state: ViewState, actor: str | None) -> None:
        self._views = views
        self._lookup = lookup
        self._state = state
        self._actor = actor

    def __reduce__(self) -> str:
        raise TypeError("a View can't be pickled: send the catalog, and load it by its name there")

    # What it is

    def name(self) -> Identifier:
        """The identifier as a tuple."""
        return self._state.identifier

    @property
    def metadata(self) -> ViewMetadata:
        """The view's metadata."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        """The location of the latest metadata file."""
        return self._state.metadata_location

    @property
    def state(self) -> ViewState:
        """The view's state, with its stream and name."""
        return self._state

    @property
    def properties(self) -> Mapping[str, str]:
        """The view's properties."""
        return self.metadata.properties

    def location(self) -> str:
        """The view's location."""
        return self.metadata.location

    def schema(self) -> Schema:
        """The schema of the current version."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """The schemas of all versions by id."""
        return {s.schema_id: s for s in self.metadata.schemas}

    def current_version(self) -> ViewVersion:
        """The current version."""
        return self.metadata.current_version()

    def version(self, version_id: int) -> ViewVersion:
        """The version of that id. Raises ValidationError where the view doesn't have it, or not any more."""
        for version in self.metadata.versions:
            if version.version_id == version_id:
                return version
        known = [v.version_id for v in self.metadata.versions]
        raise ValidationError(f"the view {name_text(self.name())} has no version {version_id}; it has {known}")

    def versions(self) -> list[ViewVersion]:
        """The versions that are kept: `version.history.num-entries` of them, 10 where that is not set."""
        return list(self.metadata.versions)

    def history(self) -> list[ViewHistoryEntry]:
        """The version log: each version that became current, and when."""
        return list(self.metadata.version_log)

    def sql_for(self, dialect: str) -> ViewSql:
        """The current version's SQL in a dialect: as stored, else transpiled, which the result tells.

        Raises ValidationError where it can't be transpiled.
        """
        from icecore.engine.view.view_dialects import sql_for

        return sql_for(self.current_version(), dialect, name_text(self.name()))

    def scope(self) -> NameScope:
        """The namespace and catalog that complete the names in the current version's SQL."""
        from icecore.engine.query.source_names import NameScope

        version = self.current_version()
        return NameScope(version.namespace, version.default_catalog, f"view {name_text(self.name())}")

    def refresh(self) -> View:
        """Brings the view up to date with later commits. Raises NoSuchViewError where it was dropped."""
        self._views.repository.foreign.adopt_or_warn(self._state.stream)
        self._state = self._views.live_state(self._state.stream)
        return self

    def __repr__(self) -> str:
        return f"View({name_text(self.name())!r}, version {self.metadata.current_version_id})"

    def _repr_html_(self) -> str:
        """The view in a notebook: its columns below what it is."""
        return rows_html((repr(self), "type"), [(f.name, f.field_type) for f in self.schema().fields])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and other._state == self._state

    __hash__ = None  # type: ignore[assignment]  # a view changes with refresh()

    # Its rows

    def to_arrow(self) -> pa.Table:
        """The rows as a table, with the columns of the schema; DuckDB runs the SQL over what it names.

        Raises ValidationError where the SQL can't be run or its columns don't fit the schema, NoSuchTableError.
        """
        from icecore.engine.query.prepare_query import view_rows

        return view_rows(self._lookup, self)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame. Raises MissingDependencyError where pandas is not installed."""
        return to_pandas(self.to_arrow())

    def to_duckdb(
        self, table_name: str | None = None, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection, a new one unless given, in which the rows are a table of the view's own name."""
        import duckdb

        con = connection or duckdb.connect(":memory:")
        con.register(table_name or self.name()[-1], self.to_arrow())
        return con

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """The rows of a DuckDB query, which may name this view and everything in the catalog.

        A name without a namespace is looked for in the view's own. Raises ValidationError, NoSuchTableError.
        """
        from icecore.engine.query.prepare_query import query_in

        return query_in(self._lookup, sql, parameters, self.name()[:-1]).to_arrow()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame: Spark runs the view's SQL for Spark, and reads the tables that it names.

        Without a session the active one does it; raises ValidationError where there is none.
        """
        from icecore.engine.spark.session import given_or_active
        from icecore.engine.view.view_spark import SparkViews

        return SparkViews(given_or_active(session), self._lookup).frame(self)

    # Changing it; with `dry_run` nothing is stored, and the result says what the commit would be

    @overload
    def replace(
        self, sql: str | None = None, *, dry_run: Literal[False] = False, **options: Unpack[ReplaceView]
    ) -> View: ...

    @overload
    def replace(
        self, sql: str | None = None, *, dry_run: bool, **options: Unpack[ReplaceView]
    ) -> View | ViewDryRun: ...

    @takes_options(ReplaceView)
    def replace(
        self,
        sql: str | None = None,
        *,
        dry_run: bool = False,
        **options: Unpack[ReplaceView],
    ) -> View | ViewDryRun:
        """Gives the view another definition, as a new version; an earlier one that is equal becomes current again.

        Namespace and catalog stay as they are unless given, properties are added. Raises ValidationError where the SQL
        can't be run while no schema is given, or a dialect would be lost (`replace.drop-dialect.allowed`).
        """
        with self.transaction(dry_run=dry_run, **options_of(KeyedCommit, options)) as transaction:
            transaction.replace(sql, **options_of(DefineView, options))
        return transaction.outcome or self

    @overload
    def set_current_version(
        self, version_id: int, *, dry_run: Literal[False] = False, **options: Unpack[KeyedCommit]
    ) -> View: ...

    @overload
    def set_current_version(
        self, version_id: int, *, dry_run: bool, **options: Unpack[KeyedCommit]
    ) -> View | ViewDryRun: ...

    @takes_options(CommitOptions)
    def set_current_version(self, version_id: int, **options: Unpack[CommitOptions]) -> View | ViewDryRun:
        """Makes a kept version current again. Raises ValidationError for one that the view doesn't have."""
        with self.transaction(**options) as transaction:
            transaction.set_current_version(version_id)
        return transaction.outcome or self

    @overload
    def set_properties(
        self, updates: Mapping[str, str], *, dry_run: Literal[False] = False, **options: Unpack[KeyedCommit]
    ) -> View: ...

    @overload
    def set_properties(
        self, updates: Mapping[str, str], *, dry_run: bool, **options: Unpack[KeyedCommit]
    ) -> View | ViewDryRun: ...

    @takes_options(CommitOptions)
    def set_properties(self, updates: Mapping[str, str], **options: Unpack[CommitOptions]) -> View | ViewDryRun:
        """Sets properties. Raises ValidationError."""
        with self.transaction(**options) as transaction:
            transaction.set_properties(updates)
        return transaction.outcome or self

    @overload
    def remove_properties(
        self, *keys: str, dry_run: Literal[False] = False, **options: Unpack[KeyedCommit]
    ) -> View: ...

    @overload
    def remove_properties(self, *keys: str, dry_run: bool, **options: Unpack[KeyedCommit]) -> View | ViewDryRun: ...

    @takes_options(CommitOptions)
    def remove_properties(self, *keys: str, **options: Unpack[CommitOptions]) -> View | ViewDryRun:
        """Removes properties; missing ones are ignored."""
        with self.transaction(**options) as transaction:
            transaction.remove_properties(*keys)
        return transaction.outcome or self

    @overload
    def set_location(
        self, location: str, *, dry_run: Literal[False] = False, **options: Unpack[KeyedCommit]
    ) -> View: ...

    @overload
    def set_location(self, location: str, *, dry_run: bool, **options: Unpack[KeyedCommit]) -> View | ViewDryRun: ...

    @takes_options(CommitOptions)
    def set_location(self, location: str, **options: Unpack[CommitOptions]) -> View | ViewDryRun:
        """Sets the location of later metadata files; existing ones stay where they are."""
        with self.transaction(**options) as transaction:
            transaction.set_location(location)
        return transaction.outcome or self

    @takes_options(CommitOptions)
    def transaction(self, **options: Unpack[CommitOptions]) -> ViewTransaction:
        """Several changes as one commit and one event: all or nothing, made when the `with` block ends well.

        A dry run stores nothing, and says in `outcome` what the commit would be.
        """
        from icecore.engine.view.view_changes import ViewTransaction

        who = provenance_of(self._actor, options)
        return ViewTransaction(self, self._views, who, options.get("dry_run", False))

    # What changes of a view are made of

    def definition_of(
        self,
        sql: str | None,
        *,
        dialect: str,
        representations: Mapping[str, str] | None,
        schema: SchemaLike | None,
        default_namespace: IdentifierLike | None,
        default_catalog: str | None,
        summary: Mapping[str, str] | None,
    ) -> ViewDefinition:
        """A new definition, with namespace and catalog as they are unless given."""
        from icecore.engine.view.view_definition import ViewDefinition

        current = self.current_version()
        return ViewDefinition.of(
            sql,
            dialect,
            representations,
            schema,
            current.default_namespace if default_namespace is None else namespace_tuple(default_namespace),
            current.default_catalog if default_catalog is None else default_catalog,
            summary,
            name=self.name(),
            lookup=self._lookup,
        )

    def current_version_updates(self, version_id: int) -> UpdatesAt:
        """The update that makes a version the current one. Raises ValidationError for -1, which names no version."""
        if version_id == LAST_ADDED:
            self.version(version_id)
        return lambda _: [SetCurrentViewVersion(version_id)]

    def take(self, state: ViewState) -> None:
        """Replaces the state by the one after a commit."""
        self._state = state
