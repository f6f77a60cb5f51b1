-- rule: narrowed-schema
-- severity: warning
-- finds: A change of a column after which what was written or read before no longer fits: it was removed or required,
--   or given a type that does not hold all values of the one before.
-- mend: Tell who reads and writes the table; an added column of another name, or a wider type, breaks nobody.
WITH changes AS (
    SELECT
        * REPLACE (coalesce(actor, 'another engine') AS actor),
        type <> type_before AND NOT (
            (type_before = 'int' AND type = 'long')
            OR (type_before = 'float' AND type = 'double')
            OR (type_before = 'date' AND type LIKE 'timestamp%')
            OR type_before = 'unknown'
            OR (
                type_before LIKE 'decimal%' AND type LIKE 'decimal%'
                AND regexp_extract(type, ',\s*(\d+)', 1) = regexp_extract(type_before, ',\s*(\d+)', 1)
                AND try_cast(regexp_extract(type, '(\d+)', 1) AS INT)
                    >= try_cast(regexp_extract(type_before, '(\d+)', 1) AS INT)
            )
        ) AS is_narrower
    FROM schema_history
)
SELECT
    namespace, name, table_uuid, position, actor, field_id,
    format('{} {}', position, coalesce(column_name, column_name_before)) AS subject,
    CASE
        WHEN change = 'removed' THEN format('{} was removed at position {} by {}', column_name_before, position, actor)
        WHEN is_narrower
            THEN format('{} went from {} to {} at position {} by {}', column_name, type_before, type, position, actor)
        ELSE format('{} was made required at position {} by {}', column_name, position, actor)
    END AS message
FROM changes
WHERE change = 'removed' OR (change = 'changed' AND (is_narrower OR (required AND NOT required_before)))
