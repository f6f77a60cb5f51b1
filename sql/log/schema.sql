-- The transaction log and its read models: one SQLite file per warehouse.
--
-- event            one row per commit to one stream (a table, a view, the catalog); append-only, hash-chained
-- event_content    the content files that an event added or removed, as Arrow IPC bytes
-- all others       read models and caches: each can be dropped and rebuilt from the two above

-- name: event_columns
-- {unique}: ` UNIQUE` in a log, where keys and hashes are looked up and guarded, nothing in the file of an archive
    position INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    stream_version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    actor TEXT,
    engine TEXT,
    message TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    idempotency_key TEXT{unique},
    payload TEXT NOT NULL,
    content_sha256 TEXT,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL{unique},
    UNIQUE (stream, stream_version)

-- name: content_columns
-- {of_event}: ` REFERENCES event (position)` beside the events, nothing where those are in another file
    position INTEGER PRIMARY KEY{of_event},
    row_count INTEGER NOT NULL,
    data BLOB NOT NULL

-- name: log
-- {event_columns}: `event_columns`
-- {content_columns}: `content_columns`
CREATE TABLE IF NOT EXISTS warehouse (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS event (
    {event_columns}
) STRICT;

CREATE INDEX IF NOT EXISTS event_transaction ON event (transaction_id);

CREATE TABLE IF NOT EXISTS event_content (
    {content_columns}
) STRICT;

CREATE TRIGGER IF NOT EXISTS event_is_append_only_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'the log is append-only: events are never changed'); END;

CREATE TRIGGER IF NOT EXISTS event_is_append_only_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'the log is append-only: events are never deleted'); END;

CREATE TRIGGER IF NOT EXISTS event_content_is_append_only_update BEFORE UPDATE ON event_content
BEGIN SELECT RAISE(ABORT, 'the log is append-only: content is never changed'); END;

CREATE TRIGGER IF NOT EXISTS event_content_is_append_only_delete BEFORE DELETE ON event_content
BEGIN SELECT RAISE(ABORT, 'the log is append-only: content is never deleted'); END;

CREATE TRIGGER IF NOT EXISTS event_positions_have_no_gap BEFORE INSERT ON event
WHEN NEW.position <> (SELECT coalesce(max(position), 0) + 1 FROM event)
BEGIN SELECT RAISE(ABORT, 'the log has no gaps: a position must be the next one'); END;

-- name: read_models
CREATE TABLE IF NOT EXISTS namespace (
    name TEXT PRIMARY KEY,
    properties TEXT NOT NULL
) STRICT;

-- With a dot at its end a name comes right before those of the namespaces inside of it.
CREATE INDEX IF NOT EXISTS namespace_levels ON namespace (name || '.');

-- One row per table or view that has a name now.
CREATE TABLE IF NOT EXISTS catalog_name (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('table', 'view')),
    stream TEXT NOT NULL UNIQUE,
    PRIMARY KEY (namespace, name)
) STRICT;

CREATE INDEX IF NOT EXISTS catalog_name_of_kind ON catalog_name (namespace, kind, name);

-- The events that took names away, by the name.
CREATE INDEX IF NOT EXISTS event_name_taken
ON event (coalesce(json_extract(payload, '$.identifier'), json_extract(payload, '$.from'), json_extract(payload, '$.namespace')))
WHERE kind IN ('table.dropped', 'table.renamed', 'view.dropped', 'view.renamed', 'namespace.dropped');

-- The events that gave names, by the stream of what has it, or by the namespace.
CREATE INDEX IF NOT EXISTS event_name_given
ON event (CASE WHEN kind = 'namespace.created' AND json_valid(payload) THEN json_extract(payload, '$.namespace') ELSE stream END)
WHERE kind IN (
    'table.created', 'table.registered', 'table.renamed', 'table.undropped',
    'view.created', 'view.registered', 'view.renamed', 'view.undropped', 'namespace.created'
);

-- The events that `naming` in events.sql asks for, in its words: few beside commits, which it would read all else.
CREATE INDEX IF NOT EXISTS event_naming ON event (position)
WHERE kind NOT IN (
    'table.committed', 'table.materialized', 'table.adopted', 'table.restored', 'table.files-deleted',
    'table.relocated', 'view.committed', 'view.adopted', 'view.relocated'
);

-- One row per table or view that ever was: how far its stream goes and what of it is written out for other engines.
CREATE TABLE IF NOT EXISTS stream_head (
    stream TEXT PRIMARY KEY,
    stream_version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    location TEXT,
    metadata_location TEXT,
    materialized_version INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX IF NOT EXISTS stream_head_location ON stream_head (location);

-- One row per manifest as a snapshot lists it; a manifest that gets a first row id later (v3) has two.
CREATE TABLE IF NOT EXISTS manifest (
    manifest_id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    manifest_path TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS manifest_path ON manifest (stream, manifest_path);

-- One row per snapshot that was made through this log: its manifests in list order, as packed ids.
CREATE TABLE IF NOT EXISTS snapshot_manifests (
    stream TEXT NOT NULL,
    snapshot_id INTEGER NOT NULL,
    manifest_ids BLOB NOT NULL,
    PRIMARY KEY (stream, snapshot_id)
) STRICT;

-- One row per file that was written out from the log; its kind says if it was deleted on purpose since.
CREATE TABLE IF NOT EXISTS written_file (
    location TEXT PRIMARY KEY,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    length INTEGER NOT NULL,
    sha256 TEXT NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS written_file_stream ON written_file (stream, position);

CREATE INDEX IF NOT EXISTS written_file_forgotten ON written_file (stream, kind)
WHERE kind IN ('metadata-forgotten', 'metadata-deleted');

-- One row per manifest and manifest list of others whose bytes an event has, with the last such event.
CREATE TABLE IF NOT EXISTS kept_file (
    stream TEXT NOT NULL,
    location TEXT NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (stream, location)
) STRICT, WITHOUT ROWID;

-- One row per folder in which a table or view has files, see `table_folders.py`; `is_elsewhere` is 0 for its location.
CREATE TABLE IF NOT EXISTS table_folder (
    folder TEXT NOT NULL,
    stream TEXT NOT NULL,
    location TEXT NOT NULL,
    is_elsewhere INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (folder, stream)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS table_folder_stream ON table_folder (stream);

CREATE INDEX IF NOT EXISTS table_folder_elsewhere ON table_folder (folder) WHERE is_elsewhere = 1;

-- One row per file that a search for orphans let go, by a digest of its location: paths may tell of rows.
CREATE TABLE IF NOT EXISTS removed_orphan (
    digest INTEGER PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS checkpoint (
    stream TEXT NOT NULL,
    stream_version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    event_hash TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (stream, stream_version)
) STRICT;

-- The two tables that PyIceberg's `sql` and Java's `jdbc` catalogs read.
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);

CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
);

-- name: set_read_models_aside
-- What was published of a stream is kept aside, for one that can't be written again. Not the two tables that other
-- catalogs may have rows in.
DROP TABLE IF EXISTS namespace;
DROP TABLE IF EXISTS catalog_name;
DROP TABLE IF EXISTS manifest;
DROP TABLE IF EXISTS snapshot_manifests;
DROP TABLE IF EXISTS checkpoint;
DROP TABLE IF EXISTS table_folder;
DROP TABLE IF EXISTS kept_file;
DROP TABLE IF EXISTS removed_orphan;
DROP INDEX IF EXISTS stream_head_location;
DROP INDEX IF EXISTS written_file_stream;
DROP INDEX IF EXISTS written_file_forgotten;
ALTER TABLE stream_head RENAME TO stream_head_before;
ALTER TABLE written_file RENAME TO written_file_before;

-- name: forget_read_models_aside
DROP TABLE stream_head_before;
DROP TABLE written_file_before;
