"""A catalog under a name of its own in Spark's SQL, for a classic session: Java asks, Python answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import NoSuchNamespaceError, ValidationError, name_text
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.relation.java_classes import ASKING, keep_rules_ahead, made_object
from icecore.engine.spark.relation.java_function import JavaFunction
from icecore.engine.spark_source.registration import register_once
from icecore.engine.spark_source.sql_catalog.named_rows import Answers, other_rows, table_rows
from icecore.engine.spark_source.sql_catalog.named_scan import AsOf

_NAMES = (*("LakeCalls", "LakeAssignments", "LakeChanges", "LakeStreams", "LakeTable", "LakeRule", "LakeCatalog"),)
_SOURCES = (*ASKING, *(Path(__file__).with_name(f"{name}.java") for name in _NAMES))
_OF_SPARK = "spark_catalog"


def register_catalog(session: SparkSession, catalog: Catalog | CatalogAt, name: str) -> None:
    """Makes a catalog known to a session: see `icecore.spark.catalog`.

    Raises ValidationError where the session takes none of that name.
    """
    if not name or "." in name or name.lower() == _OF_SPARK:
        raise ValidationError(f"a catalog of Spark can't be called {name!r}")
    java = made_object(session, _SOURCES)
    if isinstance(java, str):
        raise ValidationError(
            f"this session can't have {name!r} as a catalog ({java}): icecore.spark.sql(spark, catalog, query) reads "
            "tables and views by name"
        )
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(session.sparkContext._gateway)
    keep_rules_ahead(session)
    # A stream by a table's name is read and written by the format.
    register_once(session)
    answers = CatalogAnswers(session, catalog, name)
    answers.plugin = java.registered(session._jsparkSession, name, JavaFunction(answers.apply))
    if answers.plugin is None:
        raise ValidationError(f"spark.sql.catalog.{name} is set: the session has another catalog of that name")


@define(eq=False)
class CatalogAnswers(Answers):
    """The answers of a catalog to Spark."""

    session: SparkSession
    catalog: Catalog | CatalogAt
    name: str
    plugin: Any = None

    def answer(self, question: Sequence[Any]) -> Any:
        """The namespaces, names or the table that Spark asks for; JSON's null where there is none."""
        match question:
            case ["table", namespace, name, version, micros]:
                return self._table((*namespace, name), AsOf(version, micros))
            case [what, namespace]:
                try:
                    return json.dumps(self._told(what, tuple(namespace)))
                except NoSuchNamespaceError:
                    return json.dumps(None)
        raise ValidationError(f"Spark asks for {question}")

    def _told(self, what: str, namespace: Identifier) -> Any:
        match what:
            case "tables":
                return self._names(namespace)
            case "namespaces":
                return self._namespaces(namespace)
            case _:
                return [self.catalog.load_namespace_properties(namespace)]

    def _table(self, identifier: Identifier, chosen: AsOf) -> Any:
        if len(identifier) < 2:
            return json.dumps(None)
        shown = ".".join([self.name, *identifier])
        if self.catalog.table_exists(identifier):
            made = table_rows(self.session, self.catalog, shown, identifier, chosen)
        else:
            other = other_rows(self.session, self.catalog, shown, identifier)
            if other is None:
                self._check_no_reference(identifier)
                return json.dumps(None)
            if chosen != AsOf():
                raise ValidationError(
                    f"AS OF is of tables, found at {name_text(identifier)}; icecore.spark.catalog takes a "
                    "catalog.at(...) of a position or time, too"
                )
            made = other
        return self.plugin.table(made.facts, JavaFunction(made.answers.apply))

    def _check_no_reference(self, identifier: Identifier) -> None:
        """Raises ValidationError for a branch or tag as Iceberg's own catalog for Spark names it, as in `t.tag_x`."""
        kind, _, ref = identifier[-1].partition("_")
        if kind in ("branch", "tag") and ref and len(identifier) > 2 and self.catalog.table_exists(identifier[:-1]):
            table = ".".join([self.name, *identifier[:-1]])
            written = f", and written as {table} WITH ('branch' = '{ref}')" if kind == "branch" else ""
            raise ValidationError(f"a {kind} is read as {table} VERSION AS OF '{ref}'{written}")

    def _names(self, namespace: Identifier) -> list[str]:
        if not namespace:
            return []
        self.catalog.load_namespace_properties(namespace)
        both = (*self.catalog.list_tables(namespace), *self.catalog.list_views(namespace))
        return sorted(identifier[-1] for identifier in both)

    def _namespaces(self, namespace: Identifier) -> list[str]:
        if isinstance(self.catalog, Catalog):
            return [n[-1] for n in self.catalog.list_namespaces(namespace)]
        depth = len(namespace)
        known = self.catalog.list_namespaces()
        return [n[-1] for n in known if n[:depth] == namespace and len(n) == depth + 1]
