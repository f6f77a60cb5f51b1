-- rule: commits-without-reason
-- severity: note
-- finds: Commits to a table that name no author or give no reason, renames, drops and purges too, and other engines'
--   commits; those that expire snapshots have their own rule.
-- mend: Give them a message; icecore.require-message = true has the table refuse commits without one.
WITH silent AS (
    SELECT namespace, name, table_uuid, position, coalesce(actor, 'another engine') AS actor
    FROM events
    WHERE kind IN ('table.committed', 'table.adopted', 'table.renamed', 'table.dropped', 'table.purged')
        AND (coalesce(trim(message), '') = '' OR coalesce(trim(actor), '') = '')
        AND NOT coalesce(
            list_contains(json_extract_string(payload, '$.updates[*].action'), 'remove-snapshots'), FALSE
        )
)
SELECT
    arg_max(namespace, position) AS namespace, arg_max(name, position) AS name, table_uuid,
    count(*) AS commits,
    list(DISTINCT actor ORDER BY actor) AS actors,
    max(position) AS last_position,
    'commits' AS subject,
    format('commits without a reason: {}, the last at position {} by {}', count(*), max(position), arg_max(actor, position))
        AS message
FROM silent
WHERE name IS NOT NULL
GROUP BY table_uuid
