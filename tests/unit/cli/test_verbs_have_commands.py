"""Every public verb of the library has a command, or is said here to be Python's only."""

from __future__ import annotations

import inspect
from typing import Any

import click

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.cli.main import COMMANDS, cli
from icecore.engine.evolution.manage_snapshots import ManageSnapshots
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.evolution.update_sort_order import UpdateSortOrder
from icecore.engine.evolution.update_spec import UpdateSpec
from icecore.engine.maintenance.maintenance import ExpireSnapshots, Maintenance
from icecore.engine.table.table import Table
from icecore.engine.view.view import View

PARTS = "is a part of a change, whose end is a command of its own"
OBJECTS = "takes values that only a program has, as descriptions of files"
FLOW = "is a block of Python with several changes"
LOOKS = "is a value that describe, sql or refs print"
ROWS = "gives rows to a program; the shell has show and sql"
COMMAND: dict[type, dict[str, str]] = {
    Catalog: {
        "blame": "blame", "show_commit": "show-commit", "diff_table": "diff --table", "diff": "diff",
        "archive": "archive", "audit": "audit", "audit_rules": "audit --list", "checkpoint": "checkpoint",
        "create_namespace": "namespace create", "create_or_replace_table": "create --replace", "create_table": "create",
        "create_view": "create-view", "drop_namespace": "namespace drop", "drop_table": "drop", "drop_view": "drop",
        "export_log": "export", "forget": "forget", "forget_text": "forget --text", "list_namespaces": "namespace ls",
        "all_namespaces": "namespace ls", "list_tables": "ls", "list_views": "ls", "tables": "ls", "views": "ls",
        "load_namespace_properties": "properties get --namespace", "load_table": "describe", "load_view": "describe",
        "log": "log", "report": "report", "find_value": "where-is",
        "materialize": "materialize", "migrate_table": "migrate",
        "snapshot_table": "migrate --beside", "query": "query", "purge_table": "purge", "rebuild": "rebuild",
        "register_folder": "register-folder", "register_table": "register", "register_view": "register --view",
        "rename_table": "rename", "rename_view": "rename", "replace_table": "create --replace", "resolve": "resolve",
        "restore": "restore",
        "revert": "revert", "sql": "sql", "undo": "undo", "undrop_table": "undrop", "undrop_view": "undrop --view",
        "unregister_table": "unregister",
        "update_namespace_properties": "properties set --namespace", "verify": "verify",
    },
    Table: {
        "blame": "blame", "diff": "diff --table", "add_files": "add-files",
        "append": "append", "compute_partition_statistics": "compute-statistics --partitions",
        "compute_statistics": "compute-statistics", "delete": "delete --where", "delete_keys": "delete --keys",
        "drop_named_plan": "plans --drop", "dynamic_partition_overwrite": "overwrite --partitions", "forget": "forget",
        "maintain": "maintain", "named_plan": "plan --name", "named_plans": "plans", "overwrite": "overwrite",
        "prefetch": "plan --name", "refs": "refs", "remove_dangling_deletes": "rewrite-deletes",
        "remove_properties": "properties remove", "rewrite_data_files": "compact",
        "rewrite_manifests": "rewrite-manifests",
        "rewrite_position_delete_files": "rewrite-deletes", "scan": "show", "set_properties": "properties set",
        "upgrade": "alter upgrade", "upsert": "upsert",
    },
    View: {
        "remove_properties": "properties remove", "replace": "create-view --replace",
        "set_properties": "properties set", "to_arrow": "show",
    },
    Maintenance: {
        "expire_snapshots": "expire", "remove_orphan_files": "orphans",
        "rewrite_table_path": "rewrite-table-path",
    },
    ExpireSnapshots: {
        "by_id": "expire --snapshot", "by_ids": "expire --snapshot", "clean_files": "expire --keep-files",
        "commit": "expire", "dry_run": "expire --dry-run", "older_than": "expire --older-than",
        "retain_last": "expire --retain-last",
    },
    ManageSnapshots: {
        "cherry_pick": "cherry-pick", "create_branch": "branch create", "create_tag": "tag create",
        "fast_forward": "branch fast-forward", "publish": "publish", "remove_branch": "branch drop",
        "remove_tag": "tag drop", "rename_branch": "branch rename", "replace_branch": "branch replace",
        "replace_tag": "tag replace", "rollback_to_snapshot": "rollback --to",
        "rollback_to_timestamp": "rollback --to-time", "set_current_snapshot": "set-snapshot",
        "set_max_ref_age_ms": "branch keep --max-age", "set_max_snapshot_age_ms": "branch keep --max-snapshot-age",
        "set_min_snapshots_to_keep": "branch keep --keep",
    },
    UpdateSchema: {
        "add_column": "alter add-column", "delete_column": "alter drop-column", "rename_column": "alter rename-column",
        "update_column": "alter change-column", "make_column_optional": "alter change-column --optional",
        "set_default_value": "alter change-column --default", "set_identifier_fields": "alter identifier",
        "move_first": "alter change-column --first", "move_before": "alter change-column --before",
        "move_after": "alter change-column --after",
    },
    UpdateSpec: {
        "add_field": "alter add-partition", "add_identity": "alter add-partition",
        "remove_field": "alter drop-partition", "rename_field": "alter rename-partition",
    },
    UpdateSortOrder: {"set": "alter sort", "asc": "alter sort", "desc": "alter sort", "unsorted": "alter sort"},
}  # fmt: skip
PYTHON_ONLY: dict[type, dict[str, str]] = {
    Catalog: {
        "archives": LOOKS, "at": "sql --at and show --as-of look at the past", "close": FLOW,
        "create_namespace_if_not_exists": "the shell has --create-namespace",
        "create_table_if_not_exists": "the shell has load", "create_table_transaction": FLOW, "commit_table": OBJECTS,
        "namespace_exists": LOOKS, "new_location": PARTS, "table_exists": LOOKS, "transaction": FLOW,
        "view_exists": LOOKS,
    },
    Table: {
        "append_files": OBJECTS, "current_snapshot": LOOKS, "files": LOOKS, "history": LOOKS,
        "incremental_append_scan": ROWS, "incremental_changelog_scan": ROWS, "last_partition_id": LOOKS,
        "live_entries": LOOKS, "location": LOOKS, "manage_snapshots": PARTS, "manifests": LOOKS, "name": LOOKS,
        "name_mapping": LOOKS, "overwrite_files": OBJECTS, "partition_statistics": LOOKS, "partitions": LOOKS,
        "refresh": FLOW, "rewrite_files": OBJECTS, "row_delta": OBJECTS, "schema": LOOKS, "schemas": LOOKS,
        "snapshot_as_of_timestamp": LOOKS, "snapshot_by_id": LOOKS, "snapshot_by_name": LOOKS, "snapshots": LOOKS,
        "sort_order": LOOKS, "sort_orders": LOOKS, "spec": LOOKS, "specs": LOOKS, "statistics": LOOKS,
        "to_daft": ROWS, "to_polars": ROWS, "transaction": FLOW, "update_schema": PARTS, "update_sort_order": PARTS,
        "update_spec": PARTS, "update_statistics": OBJECTS,
    },
    View: {
        "current_version": LOOKS, "current_version_updates": PARTS, "definition_of": PARTS, "history": LOOKS,
        "location": LOOKS, "name": LOOKS, "query": ROWS, "refresh": FLOW, "schema": LOOKS, "schemas": LOOKS,
        "scope": PARTS, "set_current_version": "create-view --replace takes the SQL of any version",
        "set_location": "metadata files of views follow their tables", "sql_for": LOOKS, "take": PARTS,
        "to_duckdb": ROWS, "to_pandas": ROWS, "to_spark": ROWS, "transaction": FLOW, "version": LOOKS,
        "versions": LOOKS,
    },
    UpdateSchema: {"union_by_name": "the shell adds columns one by one"},
}  # fmt: skip


def verbs(cls: type) -> set[str]:
    found: dict[str, Any] = dict(inspect.getmembers(cls, callable))
    inherited = {"commit", "ops", "outcome"} if cls.__name__.startswith(("Update", "Manage")) else set()
    return {n for n in found if not n.startswith("_")} - inherited


def test_every_verb_has_a_command_or_a_reason() -> None:
    assert icecore.Catalog in COMMAND
    for cls, commands in COMMAND.items():
        only = PYTHON_ONLY.get(cls, {})
        assert commands.keys() & only.keys() == set(), cls
        assert verbs(cls) == commands.keys() | only.keys(), cls


def test_those_commands_are_there_with_these_options() -> None:
    context = click.Context(cli)
    for text in {t for commands in COMMAND.values() for t in commands.values()}:
        names = [w for w in text.split() if not w.startswith("-")]
        command = cli.get_command(context, names[0])
        assert command is not None and names[0] in COMMANDS, text
        if len(names) > 1:
            assert isinstance(command, click.Group)
            command = command.commands[names[1]]
        options = {o for p in command.params for o in p.opts}
        assert {w for w in text.split() if w.startswith("-")} <= options, text
