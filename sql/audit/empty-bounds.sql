-- rule: empty-bounds
-- severity: error
-- finds: A column of a data file whose least value is above its greatest, or which has more nulls than values: filters
--   leave the file out, and its rows are lost to them.
-- mend: table.rewrite_data_files(options={"rewrite-all": "true"}) writes the files anew, with metrics that are right.
WITH measured AS (
    SELECT namespace, name, table_uuid, file_path, unnest(map_entries(readable_metrics)) AS metric
    FROM files
    WHERE content = 'data'
),
bounds AS (
    SELECT
        m.namespace, m.name, m.table_uuid, m.file_path,
        c.column_name, c.type,
        m.metric.value.lower_bound AS lower_bound,
        m.metric.value.upper_bound AS upper_bound,
        m.metric.value.null_value_count > m.metric.value.value_count AS has_more_nulls
    FROM measured AS m
    JOIN columns AS c ON c.namespace = m.namespace AND c.name = m.name AND c.column_name = m.metric.key
),
judged AS (
    SELECT
        *,
        CASE
            WHEN type IN ('int', 'long') THEN try_cast(lower_bound AS HUGEINT) > try_cast(upper_bound AS HUGEINT)
            WHEN type IN ('float', 'double') OR type LIKE 'decimal%'
                THEN try_cast(lower_bound AS DOUBLE) > try_cast(upper_bound AS DOUBLE)
            WHEN type = 'date' OR type LIKE 'timestamp%'
                THEN try_cast(lower_bound AS TIMESTAMP) > try_cast(upper_bound AS TIMESTAMP)
            -- Of UUIDs writers have two orders; of shapes bounds are points, and may go around the world.
            WHEN type IN ('boolean', 'time', 'string', 'binary') OR type LIKE 'fixed%' THEN lower_bound > upper_bound
        END AS is_empty
    FROM bounds
)
SELECT
    namespace, name, table_uuid, file_path, column_name,
    concat_ws(' ', file_path, column_name) AS subject,
    CASE
        WHEN is_empty
            THEN format('{}: the bounds of {}, from {} to {}, hold nothing', file_path, column_name, lower_bound, upper_bound)
        ELSE format('{}: more nulls than values are counted in {}', file_path, column_name)
    END AS message
FROM judged
WHERE is_empty OR has_more_nulls
