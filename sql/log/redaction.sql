-- Forgetting: the only change of events that their triggers allow. These are made when something is first forgotten.
--
-- redaction   one row per part of an event that the newest event of the log forgets; empty again when it is committed

-- name: schema
CREATE TABLE IF NOT EXISTS redaction (
    position INTEGER NOT NULL,
    part TEXT NOT NULL CHECK (part IN ('actor', 'message', 'payload', 'content')),
    PRIMARY KEY (position, part)
) STRICT;

DROP TRIGGER IF EXISTS event_is_append_only_update;

CREATE TRIGGER event_is_append_only_update BEFORE UPDATE ON event
WHEN (SELECT kind FROM event ORDER BY position DESC LIMIT 1) <> 'log.forgotten'
  OR NEW.position IS NOT OLD.position OR NEW.event_id IS NOT OLD.event_id OR NEW.stream IS NOT OLD.stream
  OR NEW.stream_version IS NOT OLD.stream_version OR NEW.kind IS NOT OLD.kind
  OR NEW.schema_version IS NOT OLD.schema_version OR NEW.transaction_id IS NOT OLD.transaction_id
  OR NEW.recorded_at_ms IS NOT OLD.recorded_at_ms OR NEW.engine IS NOT OLD.engine
  OR NEW.correlation_id IS NOT OLD.correlation_id OR NEW.causation_id IS NOT OLD.causation_id
  OR NEW.idempotency_key IS NOT OLD.idempotency_key OR NEW.content_sha256 IS NOT OLD.content_sha256
  OR NEW.prev_hash IS NOT OLD.prev_hash OR NEW.hash IS NOT OLD.hash
  OR (NEW.actor IS NOT OLD.actor
      AND NOT EXISTS (SELECT 1 FROM redaction WHERE position = OLD.position AND part = 'actor'))
  OR (NEW.message IS NOT OLD.message
      AND NOT EXISTS (SELECT 1 FROM redaction WHERE position = OLD.position AND part = 'message'))
  OR (NEW.payload IS NOT OLD.payload
      AND NOT EXISTS (SELECT 1 FROM redaction WHERE position = OLD.position AND part = 'payload'))
BEGIN SELECT RAISE(ABORT, 'the log is append-only: events are never changed'); END;

DROP TRIGGER IF EXISTS event_content_is_append_only_update;

CREATE TRIGGER event_content_is_append_only_update BEFORE UPDATE ON event_content
WHEN (SELECT kind FROM event ORDER BY position DESC LIMIT 1) <> 'log.forgotten'
  OR NEW.position IS NOT OLD.position OR NEW.row_count IS NOT OLD.row_count
  OR NOT EXISTS (SELECT 1 FROM redaction WHERE position = OLD.position AND part = 'content')
BEGIN SELECT RAISE(ABORT, 'the log is append-only: content is never changed'); END;

-- name: allow
INSERT INTO redaction (position, part) VALUES ($position, $part);

-- name: allow_no_more
DELETE FROM redaction;

-- name: put_texts
UPDATE event SET actor = $actor, message = $message, payload = $payload WHERE position = $position;

-- name: put_content
UPDATE event_content SET data = $data WHERE position = $position;

-- name: put_kept_texts
UPDATE kept_event SET actor = $actor, message = $message, payload = $payload WHERE position = $position;

-- name: put_kept_content
UPDATE kept_content SET data = $data WHERE position = $position;

-- name: put_archive_file
UPDATE archive SET file = $file, length = $length, sha256 = $sha256 WHERE archive_id = $archive_id;

-- name: drop_checkpoints
DELETE FROM checkpoint WHERE stream = $stream;

-- name: notes_below
SELECT key FROM warehouse WHERE key >= $prefix AND key < $after ORDER BY key;

-- name: drop_note
DELETE FROM warehouse WHERE key = $key AND value = $value;
