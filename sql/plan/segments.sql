-- Segment files: DuckDB files that are written once, with the wide entries of many manifests (projections/entries/wide_entries.py).
-- One row of `entries` is one file in one manifest, `m` numbers the manifests of the segment from 0. The one row of
-- `info` says as JSON what is in it.

-- name: attach_new
-- {name}: what the file is attached as
-- {path}: its path, a string in SQL
ATTACH {path} AS {name};

-- name: attach
-- {name}: what the file is attached as
-- {path}: its path, a string in SQL
ATTACH {path} AS {name} (READ_ONLY);

-- name: detach
-- {name}: what the file is attached as
-- It is not attached any more where a call was broken off.
DETACH DATABASE IF EXISTS {name};

-- name: checkpoint
-- {name}: what the file is attached as
CHECKPOINT {name};

-- name: put_info
-- {name}: what the file is attached as
CREATE TABLE {name}.info AS SELECT $info::VARCHAR AS info;

-- name: get_info
-- {name}: what the file is attached as
SELECT info FROM {name}.info;

-- name: describe
-- {source}: a query
DESCRIBE {source};

-- name: create_entries
-- {entries}: the table
-- {columns}: quoted names with their types
CREATE TABLE {entries} ({columns});

-- name: create_entries_of
-- {entries}: the table
-- {source}: a query for entries
CREATE TABLE {entries} AS {source};

-- name: add_column
-- {entries}: the table
-- {column}: a quoted name
-- {kind}: its DuckDB type
ALTER TABLE {entries} ADD COLUMN {column} {kind};

-- name: rename_entries
-- {entries}: the table
-- {name}: its new name, without a schema
ALTER TABLE {entries} RENAME TO {name};

-- name: insert_entries
-- {entries}: the table
-- {source}: a query for entries
INSERT INTO {entries} BY NAME {source};

-- name: retype_column
-- {entries}: the table
-- {column}: a quoted name
-- {kind}: its DuckDB type
-- {value}: what the column becomes
ALTER TABLE {entries} ALTER COLUMN {column} SET DATA TYPE {kind} USING {value};

-- name: drop_column
-- {entries}: the table
-- {column}: a quoted name
ALTER TABLE {entries} DROP COLUMN {column};

-- name: drop_entries
-- {entries}: the table
DROP TABLE IF EXISTS {entries};

-- name: incoming
SELECT * FROM incoming;

-- name: renumbered
-- {entries}: the table
-- {columns}: columns of `e`, but for `m`
SELECT r.new::INTEGER AS m, {columns} FROM {entries} AS e JOIN renumbering AS r ON r.old = e.m;

-- name: all_entries
-- {entries}: the table
SELECT * FROM {entries};

-- name: entries_of
-- {entries}: the table
-- {offset}: what is added to `m`
-- {columns}: columns, each after a comma
-- {where}: which manifests count, by `m`
-- `m` becomes unique over all segments.
SELECT m::BIGINT + {offset} AS m{columns} FROM {entries} WHERE {where};

-- name: date_as_number
-- {column}: a date
-- {limit}: the last day that fits
-- {factor}: units in a day
-- A date that was promoted, in finer units since 1970; null where that is out of range.
CASE WHEN {column}::BIGINT BETWEEN -{limit} AND {limit} THEN {column}::BIGINT * {factor} END
