-- A REST server's look at one table that it loaded before.

-- name: is_as_loaded
-- One row where the name is still of the stream, no event came to it, and no other engine moved its pointer.
SELECT 1 AS is_same
FROM catalog_name n
JOIN stream_head h ON h.stream = n.stream
JOIN iceberg_tables t ON t.catalog_name = :catalog_name AND t.table_namespace = :namespace AND t.table_name = :name
WHERE n.namespace = :namespace AND n.name = :name
  AND n.stream = :stream AND h.stream_version = :stream_version AND t.metadata_location = :metadata_location;
