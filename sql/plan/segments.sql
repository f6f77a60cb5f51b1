-- Segment files: DuckDB files that are written once, with the wide entries of many manifests (projections/entries/wide_entries.py).
-- One row of `entries` is one file in one manifest, `m` numbers the manifests of the segment from 0. The one row of
-- `info` says as JSON what is in it. {name} is what the file is attached as, {path} its path, {entries} a table,
-- {source} a query, {columns} columns with their types, {name} in `rename_entries` a name without its schema.

-- name: one_thread
SET threads = 1;

-- name: all_threads
RESET threads;

-- name: attach_new
ATTACH {path} AS {name};

-- name: attach
ATTACH {path} AS {name} (READ_ONLY);

-- name: detach
DETACH {name};

-- name: checkpoint
CHECKPOINT {name};

-- name: put_info
CREATE TABLE {name}.info AS SELECT $info::VARCHAR AS info;

-- name: get_info
SELECT info FROM {name}.info;

-- name: describe
DESCRIBE {source};

-- name: create_entries
CREATE TABLE {entries} ({columns});

-- name: add_column
ALTER TABLE {entries} ADD COLUMN {column} {kind};

-- name: rename_entries
ALTER TABLE {entries} RENAME TO {name};

-- name: insert_entries
INSERT INTO {entries} BY NAME {source};

-- name: retype_column
ALTER TABLE {entries} ALTER COLUMN {column} SET DATA TYPE {kind} USING {value};

-- name: drop_column
ALTER TABLE {entries} DROP COLUMN {column};

-- name: drop_entries
DROP TABLE IF EXISTS {entries};

-- name: incoming
SELECT * FROM incoming;

-- name: renumbered
SELECT r.new::INTEGER AS m, {columns} FROM {entries} AS e JOIN renumbering AS r ON r.old = e.m;
