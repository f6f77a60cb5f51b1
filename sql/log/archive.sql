-- Archives: files that hold the oldest part of the log. These tables are made with the first archive.
--
-- archive           one row per archive file, with the part of the chain that it holds
-- archived_stream   one row per stream and archive: the state where the archive ends, from which replays go on
-- kept_event        archived events that are needed without their file: names, answers by key, the last of each stream
-- kept_content      archived content files that snapshots still need

-- name: schema
-- {event_columns}: those of events in log/schema.sql
-- {content_columns}: those of content there
CREATE TABLE IF NOT EXISTS archive (
    archive_id INTEGER PRIMARY KEY,
    first_position INTEGER NOT NULL,
    last_position INTEGER NOT NULL UNIQUE,
    first_prev_hash TEXT NOT NULL,
    last_hash TEXT NOT NULL,
    first_recorded_at_ms INTEGER NOT NULL,
    last_recorded_at_ms INTEGER NOT NULL,
    file TEXT NOT NULL,
    length INTEGER NOT NULL,
    sha256 TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS archived_stream (
    archive_id INTEGER NOT NULL REFERENCES archive (archive_id),
    stream TEXT NOT NULL,
    first_version INTEGER NOT NULL,
    stream_version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    event_hash TEXT NOT NULL,
    state BLOB,
    PRIMARY KEY (stream, stream_version)
) STRICT;

CREATE TABLE IF NOT EXISTS kept_event (
    {event_columns}
) STRICT;

CREATE TABLE IF NOT EXISTS kept_content (
    {content_columns}
) STRICT;

DROP TRIGGER IF EXISTS event_is_append_only_delete;

CREATE TRIGGER event_is_append_only_delete BEFORE DELETE ON event
WHEN OLD.position > (SELECT coalesce(max(last_position), 0) FROM archive)
BEGIN SELECT RAISE(ABORT, 'the log is append-only: events are never deleted'); END;

DROP TRIGGER IF EXISTS event_content_is_append_only_delete;

CREATE TRIGGER event_content_is_append_only_delete BEFORE DELETE ON event_content
WHEN OLD.position > (SELECT coalesce(max(last_position), 0) FROM archive)
BEGIN SELECT RAISE(ABORT, 'the log is append-only: content is never deleted'); END;

-- name: file_schema
-- {event_columns}: those of events in log/schema.sql
-- {content_columns}: those of content there
CREATE TABLE event (
    {event_columns}
) STRICT;

CREATE INDEX event_transaction ON event (transaction_id);

CREATE TABLE event_content (
    {content_columns}
) STRICT;

-- name: extent_of_file
SELECT (SELECT min(position) FROM event) AS first_position, position, hash FROM event ORDER BY position DESC LIMIT 1;

-- name: all_in_file
SELECT * FROM event ORDER BY position;

-- name: has_archives
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'archive';

-- name: all
SELECT * FROM archive ORDER BY first_position;

-- name: put_archive
INSERT INTO archive (
    first_position, last_position, first_prev_hash, last_hash, first_recorded_at_ms, last_recorded_at_ms, file, length,
    sha256
) VALUES (
    $first_position, $last_position, $first_prev_hash, $last_hash, $first_recorded_at_ms, $last_recorded_at_ms, $file,
    $length, $sha256
);

-- name: put_stream
INSERT INTO archived_stream (archive_id, stream, first_version, stream_version, position, event_hash, state)
VALUES ($archive_id, $stream, $first_version, $stream_version, $position, $event_hash, $state);

-- name: keep_events
INSERT INTO kept_event
SELECT * FROM event
WHERE position <= $up_to AND (
    kind NOT IN (
        'table.committed', 'table.materialized', 'table.adopted', 'table.restored', 'table.files-deleted',
        'table.relocated', 'view.committed', 'view.adopted', 'view.relocated'
    )
    OR idempotency_key IS NOT NULL
    OR position IN (SELECT max(position) FROM event WHERE position <= $up_to GROUP BY stream)
);

-- name: keep_content
INSERT INTO kept_content
SELECT position, row_count, data FROM event_content
WHERE position <= $up_to AND position IN (SELECT value FROM json_each($positions));

-- name: delete_content
DELETE FROM event_content WHERE position <= $up_to;

-- name: delete_events
DELETE FROM event WHERE position <= $up_to;

-- name: delete_checkpoints
DELETE FROM checkpoint WHERE position <= $up_to;

-- name: set_format
UPDATE warehouse SET value = $value WHERE key = 'log-format';

-- name: first_unwritten
-- The first event of each stream whose files are still to be written.
SELECT e.stream, min(e.position) AS position
FROM event AS e JOIN stream_head AS h USING (stream)
WHERE e.stream_version > h.materialized_version AND e.position <= $up_to GROUP BY e.stream ORDER BY 2;

-- name: last_of_stream
SELECT stream_version FROM archived_stream WHERE stream = $stream ORDER BY stream_version DESC LIMIT 1;

-- name: streams_by_archive
SELECT archive_id, first_version, stream_version FROM archived_stream WHERE stream = $stream ORDER BY stream_version;

-- name: state_by_position
SELECT stream_version, position, event_hash, state FROM archived_stream
WHERE stream = $stream AND position <= $up_to AND state IS NOT NULL ORDER BY stream_version DESC LIMIT 1;

-- name: state_by_version
SELECT stream_version, position, event_hash, state FROM archived_stream
WHERE stream = $stream AND stream_version <= $version AND state IS NOT NULL ORDER BY stream_version DESC LIMIT 1;

-- name: stream_ends
SELECT stream, first_version, stream_version, position FROM archived_stream WHERE archive_id = $archive_id
ORDER BY stream;

-- name: all_states
SELECT stream, stream_version, position, event_hash, state FROM archived_stream
WHERE state IS NOT NULL ORDER BY stream, stream_version;

-- name: streams_up_to
SELECT stream, max(stream_version) AS stream_version FROM archived_stream WHERE position <= $up_to GROUP BY stream;

-- name: all_kept
SELECT * FROM kept_event ORDER BY position;

-- name: kept_of_stream
SELECT * FROM kept_event
WHERE stream = $stream AND stream_version > $after AND position <= $up_to ORDER BY stream_version;

-- name: put_state
UPDATE archived_stream SET state = $state WHERE stream = $stream AND stream_version = $stream_version;

-- name: kept_naming
SELECT * FROM kept_event
WHERE position <= $up_to AND kind NOT IN (
    'table.committed', 'table.materialized', 'table.adopted', 'table.restored', 'table.files-deleted',
    'table.relocated', 'view.committed', 'view.adopted', 'view.relocated'
)
ORDER BY position;

-- name: kept_at
SELECT * FROM kept_event WHERE position = $position;

-- name: kept_by_key
SELECT * FROM kept_event WHERE idempotency_key = $idempotency_key;

-- name: kept_content_at
SELECT data, row_count FROM kept_content WHERE position = $position;
