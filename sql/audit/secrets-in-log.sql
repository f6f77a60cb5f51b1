-- rule: secrets-in-log
-- severity: warning
-- finds: A property of a table, view or namespace that looked like a secret and is no more: the log still has it.
-- mend: Change the secret, and take it out of the log with catalog.forget_text().
WITH of_namespaces AS (
    SELECT
        concat('namespace ', name) AS owner, position, actor,
        unnest(map_entries(from_json(
            coalesce(json_extract(payload, '$.properties'), json_extract(payload, '$.updates')), '"MAP(VARCHAR, VARCHAR)"'
        ))) AS e
    FROM log
    WHERE kind IN ('namespace.created', 'namespace.properties-updated')
),
updates_of_views AS (
    SELECT
        concat('view ', name) AS owner, position, actor,
        unnest(from_json(json_extract(payload, '$.updates'), '["JSON"]')) AS given
    FROM log
    WHERE kind IN ('view.created', 'view.committed')
),
of_views AS (
    SELECT
        owner, position, actor,
        unnest(map_entries(from_json(json_extract(given, '$.updates'), '"MAP(VARCHAR, VARCHAR)"'))) AS e
    FROM updates_of_views
    WHERE json_extract_string(given, '$.action') = 'set-properties'
),
given AS (
    SELECT namespace, name, table_uuid, '' AS owner, key, value, position, actor, replace(value, 'forgotten', '') AS kept
    FROM property_history
    WHERE change <> 'removed'
    UNION ALL
    SELECT NULL, NULL, NULL, owner, e.key, e.value, position, actor, replace(e.value, 'forgotten', '')
    FROM (FROM of_namespaces UNION ALL FROM of_views)
),
there AS (
    SELECT table_uuid, '' AS owner, key, value FROM properties
    UNION ALL
    SELECT NULL, concat('namespace ', name), e.key, e.value
    FROM (SELECT name, unnest(map_entries(properties)) AS e FROM namespaces)
    UNION ALL
    SELECT NULL, concat('view ', namespace, '.', whole), e.key, e.value
    FROM (
        SELECT
            namespace, IF(contains(name, '.'), concat('"', replace(name, '"', '""'), '"'), name) AS whole,
            unnest(map_entries(properties)) AS e
        FROM views
    )
)
SELECT
    arg_max(g.namespace, g.position) AS namespace, arg_max(g.name, g.position) AS name, g.table_uuid, g.key,
    max(g.position) AS last_position,
    concat_ws(' ', nullif(g.owner, ''), g.key) AS subject,
    format(
        '{}the property {} looked like a secret at position {}, set by {}',
        CASE g.owner WHEN '' THEN '' ELSE concat(g.owner, ': ') END, g.key, max(g.position),
        arg_max(coalesce(g.actor, 'another engine'), g.position)
    ) AS message
FROM given AS g
ANTI JOIN there AS t
    ON t.table_uuid IS NOT DISTINCT FROM g.table_uuid AND t.owner = g.owner AND t.key = g.key AND t.value = g.value
-- What is on or off is no secret, nor is the name of a column that a property is about, nor what was forgotten.
WHERE lower(g.kept) NOT IN ('', 'true', 'false') AND (
    regexp_matches(
        regexp_replace(g.key, '\.column\..*', ''),
        '(?i)(passw|secret|credential|token|private[._-]?key|access[._-]?key|api[._-]?key|sas[._-])'
    )
    OR regexp_matches(g.kept, '(AKIA|ASIA)[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_[A-Za-z0-9]{36}')
    OR regexp_matches(g.kept, '(?i)(password|secret|token|accountkey|sig)=[^&; ]{4,}|://[^/@: ]+:[^/@ ]+@')
)
GROUP BY g.table_uuid, g.owner, g.key
