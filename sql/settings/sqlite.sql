-- What SQLite is told of the file of a log, and where its transactions begin and end. Nothing here reads a row, but for
-- what `empty_wal`, `write_back`, `user_version` and `data_version` say.

-- name: wal
PRAGMA journal_mode = WAL;

-- name: durable
PRAGMA synchronous = FULL;

-- name: not_durable
PRAGMA synchronous = OFF;

-- name: foreign_keys
PRAGMA foreign_keys = ON;

-- name: cache
PRAGMA cache_size = -16000;

-- name: user_version
-- A read of the file that changes nothing and needs no table.
PRAGMA user_version;

-- name: data_version
-- A number that is another one once any other connection wrote to the file.
PRAGMA data_version;

-- name: begin
BEGIN;

-- name: begin_write
-- With the write lock from the start.
BEGIN IMMEDIATE;

-- name: begin_part
-- What one of several writers of a transaction does, which can be taken back alone.
SAVEPOINT part;

-- name: end_part
RELEASE part;

-- name: rollback_part
ROLLBACK TO part;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: make_indexes_again
REINDEX;

-- name: securely
-- What is changed or deleted is written over with zeros.
PRAGMA secure_delete = ON;

-- name: compact
VACUUM;

-- name: write_back
-- As far as others' locks allow it.
PRAGMA wal_checkpoint(PASSIVE);

-- name: empty_wal
-- One row: whether others kept it from being emptied, its pages, and how many of them are in the database.
PRAGMA wal_checkpoint(TRUNCATE);
