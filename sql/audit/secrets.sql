-- rule: secrets
-- severity: error
-- finds: A property of a table, view or namespace that looks like a secret, by its name or its value.
-- mend: Remove the property, change the secret, and take it out of the log with catalog.forget_text().
WITH given AS (
    SELECT namespace, name, table_uuid, '' AS owner, key, value FROM properties
    UNION ALL
    SELECT NULL, NULL, NULL, concat('namespace ', name), e.key, e.value
    FROM (SELECT name, unnest(map_entries(properties)) AS e FROM namespaces)
    UNION ALL
    SELECT NULL, NULL, NULL, concat('view ', namespace, '.', whole), e.key, e.value
    FROM (
        -- As names are typed: one that holds a dot is quoted.
        SELECT
            namespace, IF(contains(name, '.'), concat('"', replace(name, '"', '""'), '"'), name) AS whole,
            unnest(map_entries(properties)) AS e
        FROM views
    )
)
SELECT
    namespace, name, table_uuid, key,
    concat_ws(' ', nullif(owner, ''), key) AS subject,
    format('{}the property {} looks like a secret', CASE owner WHEN '' THEN '' ELSE concat(owner, ': ') END, key) AS message
FROM given
-- What is on or off is no secret, nor is the name of a column that a property is about.
WHERE lower(value) NOT IN ('', 'true', 'false') AND (
    regexp_matches(
        regexp_replace(key, '\.column\..*', ''),
        '(?i)(passw|secret|credential|token|private[._-]?key|access[._-]?key|api[._-]?key|sas[._-])'
    )
    OR regexp_matches(value, '(AKIA|ASIA)[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_[A-Za-z0-9]{36}')
    OR regexp_matches(value, '(?i)(password|secret|token|accountkey|sig)=[^&; ]{4,}|://[^/@: ]+:[^/@ ]+@')
)
