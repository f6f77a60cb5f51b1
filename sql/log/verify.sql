-- What `verify` compares of a log's read models with a replay; one row is one row of the model, in a fixed order.

-- name: integrity
PRAGMA integrity_check(5);

-- name: manifest
SELECT manifest_id, stream, position, manifest_path, record FROM manifest ORDER BY manifest_id;

-- name: snapshot_manifests
SELECT stream, snapshot_id, manifest_ids FROM snapshot_manifests ORDER BY stream, snapshot_id;

-- name: stream_head
SELECT stream, stream_version, position, location FROM stream_head ORDER BY stream;

-- name: catalog_name
SELECT namespace, name, kind, stream FROM catalog_name ORDER BY stream;

-- name: iceberg_namespace_properties
SELECT catalog_name, namespace, property_key, property_value FROM iceberg_namespace_properties
WHERE catalog_name = $catalog ORDER BY namespace, property_key;

-- name: table_folder
SELECT stream, folder, position FROM table_folder ORDER BY stream, folder;
