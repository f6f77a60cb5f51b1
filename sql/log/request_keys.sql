-- The keys under which requests were answered: what each asked for, and what came of it. Made with the first one.
--
-- request_key   one row per key; the positions are those of its first and last event, null where it needed none;
--               request_sha256 is of what was asked for, then of who asked, where that is known

-- name: schema
CREATE TABLE IF NOT EXISTS request_key (
    idempotency_key TEXT PRIMARY KEY,
    operation TEXT NOT NULL,
    request_sha256 TEXT NOT NULL,
    status INTEGER NOT NULL,
    first_position INTEGER,
    last_position INTEGER,
    answer TEXT,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS request_key_expiry ON request_key (expires_at_ms);

-- name: has_keys
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'request_key';

-- name: find
SELECT operation, request_sha256, status, first_position, last_position, answer FROM request_key
WHERE idempotency_key = $idempotency_key AND expires_at_ms > $now_ms;

-- name: put
INSERT INTO request_key (
    idempotency_key, operation, request_sha256, status, first_position, last_position, answer, expires_at_ms
) VALUES (
    $idempotency_key, $operation, $request_sha256, $status, $first_position, $last_position, $answer, $expires_at_ms
);

-- name: drop_expired
DELETE FROM request_key WHERE expires_at_ms <= $now_ms;

-- name: drop_answers
-- All answers in words, or those that have a text; without the row a refused request is looked at again.
DELETE FROM request_key
WHERE answer IS NOT NULL AND ($text IS NULL OR instr(answer, $text) > 0 OR instr(operation, $text) > 0);
