-- Where the tables that other engines write, iceberg_tables and iceberg_namespace_properties, differ from the log's own
-- read models. One row is one table or view: its stream and the pointer that was last published (known), and the row
-- that stands under its name (shared); either side may be missing.

-- name: of_stream
SELECT n.stream, n.namespace, n.name, n.kind, h.metadata_location AS known, t.metadata_location AS shared,
       t.previous_metadata_location AS previous, t.iceberg_type
FROM catalog_name AS n
JOIN stream_head AS h USING (stream)
LEFT JOIN iceberg_tables AS t
  ON t.catalog_name = $catalog AND t.table_namespace = n.namespace AND t.table_name = n.name
WHERE n.stream = $stream AND t.metadata_location IS NOT h.metadata_location;

-- name: of_name
SELECT NULL AS stream, t.table_namespace AS namespace, t.table_name AS name, NULL AS kind, NULL AS known,
       t.metadata_location AS shared, t.previous_metadata_location AS previous, t.iceberg_type
FROM iceberg_tables AS t
WHERE t.catalog_name = $catalog AND t.table_namespace = $namespace AND t.table_name = $name
  AND NOT EXISTS (SELECT 1 FROM catalog_name AS n WHERE n.namespace = $namespace AND n.name = $name);

-- name: differences
SELECT n.stream, n.namespace, n.name, n.kind, h.metadata_location AS known, t.metadata_location AS shared,
       t.previous_metadata_location AS previous, t.iceberg_type
FROM catalog_name AS n
JOIN stream_head AS h USING (stream)
LEFT JOIN iceberg_tables AS t
  ON t.catalog_name = $catalog AND t.table_namespace = n.namespace AND t.table_name = n.name
WHERE t.metadata_location IS NOT h.metadata_location
UNION ALL
SELECT NULL, t.table_namespace, t.table_name, NULL, NULL, t.metadata_location, t.previous_metadata_location,
       t.iceberg_type
FROM iceberg_tables AS t
LEFT JOIN catalog_name AS n ON n.namespace = t.table_namespace AND n.name = t.table_name
WHERE t.catalog_name = $catalog AND n.stream IS NULL
ORDER BY 2, 3;

-- name: streams_at
SELECT stream FROM stream_head WHERE metadata_location = $location;

-- name: namespace_properties
SELECT namespace, property_key, property_value FROM iceberg_namespace_properties
WHERE catalog_name = $catalog ORDER BY namespace, property_key;

-- name: namespaces
SELECT name, properties FROM namespace ORDER BY name;

-- name: numbered_heads
-- File system tables: the name of what was published last is a number.
SELECT n.stream, n.namespace, n.name, h.metadata_location AS known
FROM catalog_name AS n JOIN stream_head AS h USING (stream)
WHERE n.kind = 'table' AND h.metadata_location GLOB '*/v[0-9]*.metadata.json*';
