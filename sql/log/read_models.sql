-- Statements over the read models; what one row is stands in schema.sql.

-- name: get_warehouse
SELECT value FROM warehouse WHERE key = $key;

-- name: set_warehouse
INSERT INTO warehouse (key, value) VALUES ($key, $value) ON CONFLICT (key) DO NOTHING;

-- name: put_warehouse
INSERT INTO warehouse (key, value) VALUES ($key, $value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: names_to_complete
SELECT namespace, name FROM catalog_name ORDER BY namespace, name;

-- name: put_namespace
INSERT INTO namespace (name, properties) VALUES ($name, $properties)
ON CONFLICT (name) DO UPDATE SET properties = excluded.properties;

-- name: delete_namespace
DELETE FROM namespace WHERE name = $name;

-- name: get_namespace
SELECT properties FROM namespace WHERE name = $name;

-- name: list_namespaces
SELECT name FROM namespace ORDER BY name;

-- name: inner_namespaces
-- The levels directly below a namespace, the next ones after the key $after, in the order of their names with a dot at
-- the end: so all that begins with a level is in one place, and is stepped over at once ('/' is what follows a dot).
-- $prefix is the namespace with a dot at its end, and $before what all that is in it comes before.
WITH RECURSIVE found (key) AS (
    SELECT (
        SELECT name || '.' FROM namespace WHERE name || '.' > $after AND name || '.' < $before
        ORDER BY name || '.' LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT name || '.' FROM namespace
        WHERE name || '.' < $before AND name || '.' > $prefix
            || substr(key, length($prefix) + 1, instr(substr(key, length($prefix) + 1), '.') - 1) || '/'
        ORDER BY name || '.' LIMIT 1
    )
    FROM found WHERE key IS NOT NULL
)
SELECT substr(key, length($prefix) + 1, instr(substr(key, length($prefix) + 1), '.') - 1) AS level
FROM found WHERE key IS NOT NULL LIMIT $limit;

-- name: names_after
SELECT name FROM catalog_name WHERE namespace = $namespace AND kind = $kind AND name > $after
ORDER BY name LIMIT $limit;

-- name: names_in
SELECT name, kind, stream FROM catalog_name WHERE namespace = $namespace ORDER BY name;

-- name: all_names
SELECT namespace, name, kind, stream FROM catalog_name ORDER BY namespace, name;

-- name: get_name
SELECT kind, stream FROM catalog_name WHERE namespace = $namespace AND name = $name;

-- name: names_like
-- Names of a namespace that may be meant by one that is none: about as long, and begun or ended alike.
SELECT namespace, name, kind FROM (SELECT * FROM catalog_name WHERE namespace = $namespace LIMIT 2000)
WHERE abs(length(name) - length($name)) < 4
  AND (lower(substr(name, 1, 1)) = lower(substr($name, 1, 1)) OR lower(substr(name, -1)) = lower(substr($name, -1)))
LIMIT 100;

-- name: names_elsewhere
-- The same name in other namespaces, or the same text with its dots elsewhere, among the first names.
SELECT namespace, name, kind FROM (SELECT * FROM catalog_name LIMIT 2000)
WHERE name = $name COLLATE NOCASE OR namespace || '.' || name = $namespace || '.' || $name
LIMIT 100;

-- name: namespaces_like
-- Namespaces that may be meant by one that is none, in the same way; $level is its last level.
SELECT name FROM (SELECT name FROM namespace LIMIT 2000)
WHERE lower(name) = lower($level) OR lower(substr(name, -length($level) - 1)) = lower('.' || $level)
  OR (
    abs(length(name) - length($name)) < 4
    AND (lower(substr(name, 1, 1)) = lower(substr($name, 1, 1)) OR lower(substr(name, -1)) = lower(substr($name, -1)))
  )
LIMIT 100;

-- name: name_of_stream
SELECT namespace, name, kind FROM catalog_name WHERE stream = $stream;

-- name: put_name
INSERT INTO catalog_name (namespace, name, kind, stream) VALUES ($namespace, $name, $kind, $stream);

-- name: delete_name
DELETE FROM catalog_name WHERE stream = $stream;

-- name: put_head
INSERT INTO stream_head (stream, stream_version, position, location) VALUES ($stream, $stream_version, $position, $location)
ON CONFLICT (stream) DO UPDATE
SET stream_version = excluded.stream_version, position = excluded.position,
    location = coalesce(excluded.location, location);

-- name: get_head
SELECT * FROM stream_head WHERE stream = $stream;

-- name: standing
-- How a stream stands: its last event in the log (0 where that is archived), what is written out of it, its name, and
-- the row that other engines read under that name (has_row), which may say something else than was published last.
SELECT h.stream, (SELECT coalesce(max(stream_version), 0) FROM event AS e WHERE e.stream = h.stream) AS last_version,
       h.materialized_version, h.metadata_location, n.namespace, n.name, n.kind,
       t.catalog_name IS NOT NULL AS has_row, t.metadata_location AS shared
FROM stream_head AS h
LEFT JOIN catalog_name AS n ON n.stream = h.stream
LEFT JOIN iceberg_tables AS t
  ON t.catalog_name = $catalog AND t.table_namespace = n.namespace AND t.table_name = n.name
WHERE h.stream = $stream;

-- name: standing_of_name
-- The same by a name.
SELECT h.stream, (SELECT coalesce(max(stream_version), 0) FROM event AS e WHERE e.stream = h.stream) AS last_version,
       h.materialized_version, h.metadata_location, n.namespace, n.name, n.kind,
       t.catalog_name IS NOT NULL AS has_row, t.metadata_location AS shared
FROM catalog_name AS n
JOIN stream_head AS h ON h.stream = n.stream
LEFT JOIN iceberg_tables AS t
  ON t.catalog_name = $catalog AND t.table_namespace = n.namespace AND t.table_name = n.name
WHERE n.namespace = $namespace AND n.name = $name;

-- name: all_heads
SELECT * FROM stream_head ORDER BY stream;

-- name: behind
-- But for those whose last commit is to be written by hand: their states need not be read for that.
SELECT h.stream, h.stream_version, h.materialized_version
FROM stream_head AS h LEFT JOIN event AS e ON e.position = h.position
WHERE h.materialized_version < h.stream_version
  AND CASE WHEN json_valid(e.payload) THEN coalesce(json_extract(e.payload, '$.materialize'), 1) ELSE 1 END
ORDER BY h.position;

-- name: location_in_use
SELECT 1 FROM stream_head WHERE location = $location LIMIT 1;

-- name: put_folder
-- What is not told is so as of its latest event; of a folder the first one is enough.
INSERT INTO table_folder (folder, stream, location, is_elsewhere, position)
VALUES ($folder, $stream, $location, $location IS NOT (SELECT location FROM stream_head WHERE stream = $stream), $position)
ON CONFLICT (folder, stream) DO UPDATE SET position = excluded.position WHERE table_folder.folder = '';

-- name: folders_of_stream
SELECT folder, location FROM table_folder WHERE stream = $stream;

-- name: forget_folders
DELETE FROM table_folder WHERE stream = $stream;

-- name: advance_folders
UPDATE warehouse SET value = CAST($position AS TEXT) WHERE key = $key AND value = CAST($position - 1 AS TEXT);

-- name: forget_noted_folders
DELETE FROM warehouse WHERE key >= 'table-folders-of/' AND key < 'table-folders-of0';

-- name: add_unknown_folders
INSERT INTO table_folder (folder, stream, location, is_elsewhere, position)
SELECT '', stream, '', 1, position FROM stream_head WHERE position > $known
ON CONFLICT (folder, stream) DO UPDATE SET position = excluded.position;

-- name: streams_anywhere
SELECT stream, position FROM table_folder WHERE folder = '' AND stream <> $stream ORDER BY stream;

-- name: end_anywhere
DELETE FROM table_folder WHERE folder = '' AND stream = $stream AND position <= $position;

-- name: streams_in_folders
SELECT DISTINCT stream FROM table_folder
WHERE folder IN (SELECT value FROM json_each($folders)) AND stream <> $stream;

-- name: folders_near
-- The folders of other streams that are one of $above, or lie in one of $keys; of a stream that may have files anywhere
-- its location, which is near only by chance.
SELECT stream, location, 1 AS is_near FROM table_folder
WHERE folder IN (SELECT value FROM json_each($above)) AND stream <> $stream
UNION
SELECT f.stream, f.location, 1 FROM json_each($keys) AS k
CROSS JOIN table_folder AS f ON f.folder > k.value || '/' AND f.folder < k.value || '0'
WHERE f.stream <> $stream
UNION
SELECT h.stream, h.location, 0 FROM table_folder AS f
CROSS JOIN stream_head AS h ON h.stream = f.stream
WHERE f.folder = '' AND f.stream <> $stream AND h.location IS NOT NULL;

-- name: local_folders_elsewhere
-- Folders on local disks, which begin with one slash: locations of tables outside of the warehouse, and all others.
SELECT stream, location FROM table_folder
WHERE stream <> $stream AND folder NOT LIKE '//%'
  AND (folder > '/' AND folder < '//' OR folder >= '/0' AND folder < $home || '/' OR folder >= $home || '0')
UNION
SELECT stream, location FROM table_folder
WHERE stream <> $stream AND is_elsewhere = 1 AND folder > '/' AND folder NOT LIKE '//%';

-- name: note_hint
INSERT INTO warehouse (key, value) VALUES ('hint-due/' || $stream, $stream) ON CONFLICT (key) DO NOTHING;

-- name: hints_due
SELECT value AS stream FROM warehouse WHERE key >= 'hint-due/' AND key < 'hint-due0' ORDER BY key;

-- name: forget_hints
DELETE FROM warehouse WHERE key >= 'hint-due/' AND key < 'hint-due0';

-- name: put_deletion
-- A deletion that is not finished: the position of its event, and what is left of its files.
INSERT INTO warehouse (key, value) VALUES ('deletion-due/' || $position, $value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: deletions_due
SELECT CAST(substr(key, 14) AS INTEGER) AS position, value FROM warehouse
WHERE key >= 'deletion-due/' AND key < 'deletion-due0' ORDER BY position;

-- name: deletion_due
SELECT value FROM warehouse WHERE key = 'deletion-due/' || $position;

-- name: end_deletion
DELETE FROM warehouse WHERE key = 'deletion-due/' || $position;

-- name: put_removed_orphans
INSERT INTO removed_orphan (digest, position)
SELECT value, $position FROM json_each($digests) WHERE true
ON CONFLICT (digest) DO UPDATE SET position = excluded.position;

-- name: has_removed_orphans
SELECT 1 FROM removed_orphan LIMIT 1;

-- name: removed_orphans
SELECT digest, position FROM removed_orphan WHERE digest IN (SELECT value FROM json_each($digests));

-- name: put_materialized
UPDATE stream_head SET materialized_version = $version, metadata_location = $metadata_location
WHERE stream = $stream AND materialized_version < $version;

-- name: forget_materialized
UPDATE stream_head SET materialized_version = 0 WHERE stream = $stream;

-- name: published_before
-- What was published of a stream before its read models were set aside.
SELECT materialized_version, metadata_location FROM stream_head_before WHERE stream = $stream;

-- name: keep_files_before
INSERT INTO written_file (location, stream, position, kind, length, sha256)
SELECT location, stream, position, kind, length, sha256 FROM written_file_before WHERE stream = $stream
ON CONFLICT (location) DO NOTHING;

-- name: put_manifest
INSERT INTO manifest (stream, position, manifest_path, record) VALUES ($stream, $position, $manifest_path, $record);

-- name: manifests_by_id
SELECT manifest_id, position, record FROM manifest
WHERE manifest_id IN (SELECT value FROM json_each($ids));

-- name: manifests_by_path
SELECT manifest_id, position, record FROM manifest
WHERE stream = $stream AND manifest_path = $manifest_path ORDER BY manifest_id DESC LIMIT 1;

-- name: put_snapshot_manifests
INSERT INTO snapshot_manifests (stream, snapshot_id, manifest_ids) VALUES ($stream, $snapshot_id, $manifest_ids)
ON CONFLICT (stream, snapshot_id) DO UPDATE SET manifest_ids = excluded.manifest_ids;

-- name: get_snapshot_manifests
SELECT manifest_ids FROM snapshot_manifests WHERE stream = $stream AND snapshot_id = $snapshot_id;

-- name: put_kept_file
INSERT INTO kept_file (stream, location, position, kind, sha256)
VALUES ($stream, $location, $position, $kind, $sha256)
ON CONFLICT (stream, location) DO UPDATE
SET position = excluded.position, kind = excluded.kind, sha256 = excluded.sha256;

-- name: get_kept_file
SELECT position, kind, sha256 FROM kept_file WHERE stream = $stream AND location = $location;

-- name: streams_that_wrote
SELECT DISTINCT stream FROM written_file WHERE location IN (SELECT value FROM json_each($locations)) ORDER BY stream;

-- name: streams_that_keep
SELECT DISTINCT stream FROM kept_file WHERE location IN (SELECT value FROM json_each($locations)) ORDER BY stream;

-- name: forget_kept_files
DELETE FROM kept_file WHERE stream = $stream;

-- name: put_file
INSERT INTO written_file (location, stream, position, kind, length, sha256)
VALUES ($location, $stream, $position, $kind, $length, $sha256)
ON CONFLICT (location) DO UPDATE SET length = excluded.length, sha256 = excluded.sha256,
    kind = CASE WHEN written_file.kind = 'metadata-deleted' THEN 'metadata-forgotten' ELSE written_file.kind END;

-- name: take_over_file
-- A metadata file, named by its version alone, where one of another table was that is gone by now.
DELETE FROM written_file
WHERE location = $location AND stream <> $stream
  AND (kind IN ('metadata-forgotten', 'metadata-deleted') OR kind = 'metadata' AND $kind = 'metadata');

-- name: put_forgotten
-- A metadata file that was not written again; where it was noted as written its bytes are known.
INSERT INTO written_file (location, stream, position, kind, length, sha256)
VALUES ($location, $stream, $position, 'metadata-forgotten', 0, '')
ON CONFLICT (location) DO NOTHING;

-- name: put_kind
-- What became of a metadata file that is deleted on purpose.
UPDATE written_file SET kind = $kind
WHERE location = $location AND stream = $stream AND kind IN ('metadata', 'metadata-forgotten', 'metadata-deleted');

-- name: files_of_kind
-- The condition on two kinds is the partial index's own: SQLite uses it where the very words are there.
SELECT location, length, sha256 FROM written_file
WHERE stream = $stream AND kind = $kind AND kind IN ('metadata-forgotten', 'metadata-deleted') ORDER BY location;

-- name: streams_that_forgot
SELECT DISTINCT stream FROM written_file
WHERE kind = 'metadata-forgotten' AND kind IN ('metadata-forgotten', 'metadata-deleted') ORDER BY stream;

-- name: is_pointed_at
SELECT 1 FROM iceberg_tables WHERE metadata_location = $location LIMIT 1 OFFSET $own;

-- name: other_head_at
SELECT 1 FROM stream_head WHERE location = $location AND stream <> $stream LIMIT 1;

-- name: get_file
SELECT stream, length, sha256 FROM written_file WHERE location = $location;

-- name: files_of
SELECT location, kind, length, sha256, position FROM written_file
WHERE stream = $stream AND kind NOT IN ('metadata-forgotten', 'metadata-deleted') ORDER BY position, location;

-- name: own_metadata
SELECT 1 FROM written_file WHERE location = $location AND stream = $stream AND kind = 'metadata';

-- name: all_files_of
SELECT location FROM written_file WHERE stream = $stream ORDER BY position, location;

-- name: forget_location
UPDATE stream_head SET location = NULL WHERE stream = $stream;

-- name: forget_files
DELETE FROM written_file WHERE stream = $stream;

-- name: metadata_since
SELECT location FROM written_file WHERE stream = $stream AND position > $position AND kind = 'metadata';

-- name: all_files
SELECT location, stream, kind, length, sha256, position FROM written_file
WHERE kind NOT IN ('metadata-forgotten', 'metadata-deleted') ORDER BY position, location;

-- name: get_iceberg_table
SELECT metadata_location FROM iceberg_tables
WHERE catalog_name = $catalog AND table_namespace = $namespace AND table_name = $name;

-- name: iceberg_table_below
-- One of the tables and views that other engines see in a namespace, or in one inside of it: `below` ends in a dot.
SELECT table_namespace, table_name FROM iceberg_tables
WHERE catalog_name = $catalog
  AND (table_namespace = $namespace OR substr(table_namespace, 1, length($below)) = $below)
LIMIT 1;

-- name: put_iceberg_table
INSERT INTO iceberg_tables
    (catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location, iceberg_type)
VALUES ($catalog, $namespace, $name, $metadata_location, NULL, $iceberg_type)
ON CONFLICT (catalog_name, table_namespace, table_name) DO UPDATE
SET previous_metadata_location = iceberg_tables.metadata_location, metadata_location = excluded.metadata_location
WHERE iceberg_tables.metadata_location IS NOT excluded.metadata_location;

-- name: rename_iceberg_table
-- Only the row that is the stream's own: another engine's table may stand under the old name.
UPDATE iceberg_tables SET table_namespace = $new_namespace, table_name = $new_name
WHERE catalog_name = $catalog AND table_namespace = $namespace AND table_name = $name
  AND metadata_location IS (SELECT metadata_location FROM stream_head WHERE stream = $stream);

-- name: delete_iceberg_table
DELETE FROM iceberg_tables
WHERE catalog_name = $catalog AND table_namespace = $namespace AND table_name = $name
  AND metadata_location IS (SELECT metadata_location FROM stream_head WHERE stream = $stream);

-- name: clear_iceberg_tables
DELETE FROM iceberg_tables WHERE catalog_name = $catalog;

-- name: clear_iceberg_namespaces
DELETE FROM iceberg_namespace_properties WHERE catalog_name = $catalog;

-- name: delete_iceberg_namespace
DELETE FROM iceberg_namespace_properties WHERE catalog_name = $catalog AND namespace = $namespace;

-- name: put_iceberg_namespace
INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
VALUES ($catalog, $namespace, $key, $value);
