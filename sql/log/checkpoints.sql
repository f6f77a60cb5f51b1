-- Statements over the checkpoints of states; what one row is stands in schema.sql.

-- name: put_checkpoint
INSERT INTO checkpoint (stream, stream_version, position, event_hash, state)
VALUES ($stream, $stream_version, $position, $event_hash, $state)
ON CONFLICT (stream, stream_version) DO NOTHING;

-- name: trim_checkpoints
DELETE FROM checkpoint WHERE stream = $stream AND stream_version < (
    SELECT min(stream_version) FROM (
        SELECT stream_version FROM checkpoint WHERE stream = $stream ORDER BY stream_version DESC LIMIT 2
    )
);

-- name: latest_checkpoint
SELECT stream_version, position, event_hash, state FROM checkpoint
WHERE stream = $stream AND position <= $up_to ORDER BY stream_version DESC LIMIT 1;

-- name: checkpoint_at_version
SELECT stream_version, position, event_hash, state FROM checkpoint
WHERE stream = $stream AND stream_version <= $version ORDER BY stream_version DESC LIMIT 1;

-- name: without_checkpoint
SELECT stream FROM stream_head AS h
WHERE NOT EXISTS (SELECT 1 FROM checkpoint AS c WHERE c.stream = h.stream AND c.stream_version = h.stream_version)
ORDER BY stream;

-- name: all_checkpoints
SELECT stream, stream_version, position, event_hash, state FROM checkpoint ORDER BY stream, stream_version;
