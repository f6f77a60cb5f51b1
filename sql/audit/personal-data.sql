-- rule: personal-data
-- severity: warning
-- finds: A column whose bounds in the log look like personal data: they stay there after their rows were deleted.
-- mend: Set write.metadata.metrics.column.<column> = counts, so that no more come, and take out what is there with
--   table.forget(columns=[...]) after the files are gone.
WITH measured AS (
    SELECT namespace, name, table_uuid, position, unnest(map_entries(readable_metrics)) AS metric
    FROM file_history
    WHERE content IN ('data', 'equality_deletes')
),
bounds AS (
    SELECT
        namespace, name, table_uuid, position, metric.key AS column_name,
        unnest([metric.value.lower_bound, metric.value.upper_bound]) AS bound
    FROM measured
),
seen AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(bound, '^[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+') THEN 'an e-mail address'
            WHEN regexp_matches(bound, '^\+[0-9][0-9 ()/-]{7,}$') THEN 'a telephone number'
            WHEN regexp_matches(bound, '^[A-Z]{2}[0-9]{2} ?[A-Z0-9]{4} ?[0-9]{4}[ 0-9]*$') THEN 'a bank account'
            WHEN regexp_matches(bound, '^[0-9]{4}([ -])[0-9]{4}([ -])[0-9]{4}') THEN 'a card number'
            WHEN regexp_matches(bound, '^[0-9]{3}-[0-9]{2}-[0-9]{4}$') THEN 'a social security number'
            WHEN regexp_matches(bound, '^[0-9]{1,3}(\.[0-9]{1,3}){3}$') THEN 'an address of the Internet'
        END AS looks_like
    FROM bounds
)
SELECT
    arg_max(namespace, position) AS namespace, arg_max(name, position) AS name, table_uuid, column_name, looks_like,
    count(*) AS bounds,
    max(position) AS last_position,
    concat_ws(' ', column_name, looks_like) AS subject,
    format('bounds of {} that look like {}: {}, the last at position {}', column_name, looks_like, count(*), max(position))
        AS message
FROM seen
WHERE looks_like IS NOT NULL
GROUP BY table_uuid, column_name, looks_like
