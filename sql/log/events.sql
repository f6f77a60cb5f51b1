-- One row is one event, in the order of the log; see schema.sql.

-- name: has_log
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'event';

-- name: has_read_models
-- One row where what earlier releases did not have is there.
SELECT 1 AS are_there FROM (
    SELECT count(*) AS found FROM sqlite_master
    WHERE name IN (
        'table_folder', 'kept_file', 'event_name_taken', 'event_name_given', 'event_naming', 'removed_orphan'
    )
) WHERE found = 6;

-- name: has_read_model
SELECT 1 FROM sqlite_master WHERE name = $name;

-- name: head
SELECT position, hash, recorded_at_ms FROM event ORDER BY position DESC LIMIT 1;

-- name: stream_version
SELECT coalesce(max(stream_version), 0) AS stream_version FROM event WHERE stream = $stream;

-- name: insert
INSERT INTO event (
    position, event_id, stream, stream_version, kind, schema_version, transaction_id, recorded_at_ms, actor, engine,
    message, correlation_id, causation_id, idempotency_key, payload, content_sha256, prev_hash, hash
) VALUES (
    $position, $event_id, $stream, $stream_version, $kind, $schema_version, $transaction_id, $recorded_at_ms, $actor,
    $engine, $message, $correlation_id, $causation_id, $idempotency_key, $payload, $content_sha256, $prev_hash, $hash
);

-- name: insert_content
INSERT INTO event_content (position, row_count, data) VALUES ($position, $row_count, $data);

-- name: content_with_rows
SELECT data, row_count FROM event_content WHERE position = $position;

-- name: by_position
SELECT * FROM event WHERE position = $position;

-- name: by_id
SELECT * FROM event WHERE event_id = $event_id;

-- name: by_idempotency_key
SELECT * FROM event WHERE idempotency_key = $idempotency_key;

-- name: streams_up_to
SELECT stream, min(stream_version) AS first_version, max(stream_version) AS stream_version, max(position) AS position
FROM event WHERE position <= $up_to GROUP BY stream ORDER BY stream;

-- name: keyed
SELECT position FROM event WHERE position <= $up_to AND idempotency_key IS NOT NULL ORDER BY position;

-- name: of_transaction
SELECT * FROM event WHERE transaction_id = $transaction_id ORDER BY position;

-- name: of_stream
SELECT * FROM event WHERE stream = $stream AND stream_version > $after AND position <= $up_to ORDER BY stream_version;

-- name: all
SELECT * FROM event WHERE position > $after AND position <= $up_to ORDER BY position;

-- name: naming
-- Commits are by far the most events, and give no names. The index `event_naming` has the others.
SELECT * FROM event
WHERE position <= $up_to AND kind NOT IN (
    'table.committed', 'table.materialized', 'table.adopted', 'table.restored', 'table.files-deleted',
    'table.relocated', 'view.committed', 'view.adopted', 'view.relocated'
)
ORDER BY position;

-- name: naming_of_stream
SELECT * FROM event
WHERE stream = $stream AND kind NOT IN ('table.committed', 'table.adopted', 'table.files-deleted', 'view.committed')
ORDER BY position;

-- name: that_took
-- The event that took a name away last; `event_name_taken` has what it is found by.
SELECT * FROM event
WHERE kind IN ('table.dropped', 'table.renamed', 'view.dropped', 'view.renamed', 'namespace.dropped')
  AND coalesce(json_extract(payload, '$.identifier'), json_extract(payload, '$.from'), json_extract(payload, '$.namespace')) = $name
  AND kind GLOB $kinds
ORDER BY position DESC LIMIT 1;

-- name: that_gave
-- The event that gave a name last; `event_name_given` has what it is found by.
SELECT * FROM event
WHERE kind IN (
    'table.created', 'table.registered', 'table.renamed', 'table.undropped',
    'view.created', 'view.registered', 'view.renamed', 'view.undropped', 'namespace.created'
)
  AND CASE WHEN kind = 'namespace.created' AND json_valid(payload) THEN json_extract(payload, '$.namespace') ELSE stream END = $what
ORDER BY position DESC LIMIT 1;

-- name: filtered
SELECT * FROM event
WHERE position > $after AND position <= $up_to
  AND ($stream IS NULL OR stream = $stream)
  AND ($actor IS NULL OR actor = $actor)
  AND ($kind IS NULL OR kind = $kind)
  AND ($since_ms IS NULL OR recorded_at_ms >= $since_ms)
  AND ($until_ms IS NULL OR recorded_at_ms <= $until_ms)
ORDER BY position;

-- name: filtered_of_stream
-- As `filtered`, of one stream, which is found by its index. A long stream is not read for its end: versions have no gap
-- and each has a position, so there are at most as many after one as there are positions. All are looked at from the
-- first position on, whatever somebody made of their versions.
SELECT * FROM event
WHERE stream = $stream AND position > $after AND position <= $up_to
  AND stream_version > min(
      $after,
      (SELECT max(stream_version) FROM event WHERE stream = $stream) - (SELECT max(position) FROM event) + $after
  )
  AND ($actor IS NULL OR actor = $actor)
  AND ($kind IS NULL OR kind = $kind)
  AND ($since_ms IS NULL OR recorded_at_ms >= $since_ms)
  AND ($until_ms IS NULL OR recorded_at_ms <= $until_ms)
ORDER BY stream_version;

-- name: position_at
SELECT coalesce(max(position), 0) AS position FROM event WHERE recorded_at_ms <= $timestamp_ms;

-- name: content_without_event
SELECT position FROM event_content WHERE position NOT IN (SELECT position FROM event) ORDER BY position;
