-- rule: expired-without-reason
-- severity: note
-- finds: Snapshots of a table that were expired by commits which say no reason: nobody can tell who needed them gone.
-- mend: Give expire_snapshots() a message; icecore.require-message = true has the table refuse commits without one.
WITH expiries AS (
    SELECT namespace, name, table_uuid, position, coalesce(actor, 'another engine') AS actor
    FROM events
    WHERE coalesce(trim(message), '') = ''
        AND list_contains(json_extract_string(payload, '$.updates[*].action'), 'remove-snapshots')
)
SELECT
    arg_max(namespace, position) AS namespace, arg_max(name, position) AS name, table_uuid,
    count(*) AS commits,
    list(position ORDER BY position) AS positions,
    'expiries' AS subject,
    format('expiries without a reason: {}, the last at position {} by {}', count(*), max(position), arg_max(actor, position))
        AS message
FROM expiries
WHERE name IS NOT NULL
GROUP BY table_uuid
