-- The tokens that clients of a REST server show, and what each grants. Made with the first one.
--
-- access_token   one row per token; of the token itself only the hash is stored, grants are JSON

-- name: schema
CREATE TABLE IF NOT EXISTS access_token (
    token_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL UNIQUE,
    grants TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    revoked_at_ms INTEGER,
    parent_id TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS access_token_expiry ON access_token (expires_at_ms);

-- name: has_tokens
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'access_token';

-- name: put
INSERT INTO access_token (token_id, name, sha256, grants, created_at_ms, expires_at_ms, parent_id)
VALUES ($token_id, $name, $sha256, $grants, $created_at_ms, $expires_at_ms, $parent_id);

-- name: of_hash
-- A token that was made for another one ends with that.
SELECT t.token_id, t.name, t.grants, min(coalesce(t.expires_at_ms, 1 << 62), coalesce(p.expires_at_ms, 1 << 62))
    AS expires_at_ms, coalesce(t.revoked_at_ms, p.revoked_at_ms) AS revoked_at_ms, t.parent_id,
    coalesce(CASE WHEN t.parent_id IS NULL THEN t.expires_at_ms ELSE p.expires_at_ms END, 1 << 62) AS ends_at_ms
FROM access_token t LEFT JOIN access_token p ON p.token_id = t.parent_id
WHERE t.sha256 = $sha256;

-- name: named
SELECT token_id, name, grants, created_at_ms, expires_at_ms, revoked_at_ms FROM access_token
WHERE parent_id IS NULL ORDER BY created_at_ms, name, token_id;

-- name: any_named
SELECT 1 FROM access_token WHERE parent_id IS NULL LIMIT 1;

-- name: revoke
UPDATE access_token SET revoked_at_ms = $revoked_at_ms
WHERE parent_id IS NULL AND revoked_at_ms IS NULL AND ($name = name OR $name = token_id);

-- name: drop_expired
-- Those made for others, once nobody is told any more that they expired.
DELETE FROM access_token WHERE parent_id IS NOT NULL AND expires_at_ms < $before_ms;
