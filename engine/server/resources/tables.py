"""Tables, but for their commits. Spec: the REST document's operations under `/namespaces/{namespace}/tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icecore.engine.catalog.clients.staged_table import create_client_table, stage_table
from icecore.engine.common.json_reader import get, get_str_map
from icecore.engine.errors import NoSuchTableError, name_text
from icecore.engine.log.request_keys import StoredAnswer
from icecore.engine.properties.table_properties import PARQUET_CODEC
from icecore.engine.server.auth.grants import Level
from icecore.engine.server.resources.loaded import committed_table, loaded_table, staged_table, table_again
from icecore.engine.server.wire.answer import NO_CONTENT, Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.pages import identifiers_page
from icecore.engine.server.wire.refusal import Refusal, refusing_file
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.table.table import Table


def list_tables(call: Call) -> Answer:
    """The tables of a namespace."""
    return identifiers_page(call, "table")


def create_table(call: Call) -> Answer:
    """Creates a table, or stages it: its metadata as it would be, and nothing stored."""
    name = call.new_name
    asked = _asked(call.body)
    call.make_namespace(name[:-1])
    if get(call.body, "stage-create", bool, "the request", False):
        return staged_table(call, stage_table(call.catalog, name, **asked))
    return committed_table(call, create_client_table(call.catalog, name, **asked))


def created_again(call: Call, stored: StoredAnswer) -> Answer:
    """The table that was created before; a staged one is staged anew, as it is stored nowhere."""
    return create_table(call) if stored.last_position is None else table_again(call, stored)


def _asked(body: Mapping[str, Any]) -> dict[str, Any]:
    """A `CreateTableRequest` as `create_table` takes it. Raises ValidationError."""
    spec, order = (get(body, key, dict, "the request", None) for key in ("partition-spec", "write-order"))
    return {
        "schema": Schema.from_dict(get(body, "schema", dict, "the request")),
        "partition_spec": None if spec is None else PartitionSpec.from_dict({"spec-id": 0, **spec}),
        "sort_order": None if order is None else SortOrder.from_dict(order),
        "location": get(body, "location", str, "the request", None),
        # Java's writers go by what a table says, and take gzip where it says nothing.
        "properties": {PARQUET_CODEC.name: PARQUET_CODEC.default, **get_str_map(body, "properties", "the request", {})},
    }


def load_table(call: Call) -> Answer:
    """A table, with `snapshots=refs` only the snapshots of branches and tags; 304 where the client has it."""
    return loaded_table(call, call.shown.load_table(call.table))


def table_exists(call: Call) -> Answer:
    """204 where there is such a table. Raises NoSuchTableError."""
    if not call.shown.table_exists(call.table):
        raise NoSuchTableError(f"Table does not exist: {name_text(call.table)}")
    return NO_CONTENT


def drop_table(call: Call) -> Answer:
    """Drops a table; with `purgeRequested` its files are deleted, unless something else needs them."""
    call.catalog.drop_table(call.table, purge=call.flag("purgeRequested"))
    return NO_CONTENT


def rename_table(call: Call) -> Answer:
    """Gives a table another name."""
    call.catalog.rename_table(call.named_in_body("source"), call.named_in_body("destination"))
    return NO_CONTENT


def register_table(call: Call) -> Answer:
    """Registers a table by its metadata file; with `overwrite` in place of the one that has the name."""
    name = call.new_name
    location = get(call.body, "metadata-location", str, "the request")
    call.make_namespace(name[:-1])
    overwrite = get(call.body, "overwrite", bool, "the request", False)
    with refusing_file():
        table = call.catalog.register_table(name, location, overwrite=overwrite)
    assert isinstance(table, Table), "without dry_run a table is registered"
    return committed_table(call, table)


def unregister_table(call: Call) -> Answer:
    """Takes a table out of the catalog, and answers with its last state; its files stay."""
    return committed_table(call, call.catalog.unregister_table(call.table))


ALL_TABLES = "/namespaces/{namespace}/tables"
ONE = f"{ALL_TABLES}/{{table}}"
ENDPOINTS = (
    Endpoint("GET", ALL_TABLES, list_tables),
    Endpoint(
        "POST", ALL_TABLES, create_table, is_write=True, asks=Level.WRITE, again=created_again, refusal=Refusal.CREATION
    ),
    Endpoint("HEAD", ONE, table_exists),
    Endpoint("GET", ONE, load_table),
    Endpoint("DELETE", ONE, drop_table, is_write=True),
    Endpoint("POST", f"{ONE}/unregister", unregister_table, is_write=True, is_bodiless=True, again=table_again),
    Endpoint("POST", "/namespaces/{namespace}/register", register_table, is_write=True, again=table_again),
    Endpoint("POST", "/tables/rename", rename_table, is_write=True),
)
