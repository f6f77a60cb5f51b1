-- rule: secrets-in-log
-- severity: warning
-- finds: A property of a table that once looked like a secret, and does so no more: the log still has it.
-- mend: Change the secret, and take it out of the log with catalog.forget_text().
WITH given AS (
    SELECT namespace, name, table_uuid, key, value, position, actor
    FROM property_history
    WHERE change <> 'removed'
)
SELECT
    arg_max(g.namespace, g.position) AS namespace, arg_max(g.name, g.position) AS name, g.table_uuid, g.key,
    max(g.position) AS last_position,
    g.key AS subject,
    format('the property {} looked like a secret at position {}, set by {}', g.key, max(g.position), arg_max(g.actor, g.position))
        AS message
FROM given AS g
ANTI JOIN properties AS p ON p.table_uuid = g.table_uuid AND p.key = g.key AND p.value = g.value
-- What is on or off is no secret, nor is the name of a column that a property is about.
WHERE lower(g.value) NOT IN ('', 'true', 'false') AND (
    regexp_matches(
        regexp_replace(g.key, '\.column\..*', ''),
        '(?i)(passw|secret|credential|token|private[._-]?key|access[._-]?key|api[._-]?key|sas[._-])'
    )
    OR regexp_matches(g.value, '(AKIA|ASIA)[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_[A-Za-z0-9]{36}')
    OR regexp_matches(g.value, '(?i)(password|secret|token|accountkey|sig)=[^&; ]{4,}|://[^/@: ]+:[^/@ ]+@')
)
GROUP BY g.table_uuid, g.key
