CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    stream_version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    actor TEXT,
    engine TEXT,
    message TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    idempotency_key TEXT UNIQUE,
    payload TEXT NOT NULL,
    content_sha256 TEXT,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    UNIQUE (stream, stream_version)
) STRICT;

CREATE TABLE event_content (
    position INTEGER PRIMARY KEY REFERENCES event (position),
    row_count INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE kept_content (
    position INTEGER PRIMARY KEY,
    row_count INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE kept_event (
    position INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    stream_version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    actor TEXT,
    engine TEXT,
    message TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    idempotency_key TEXT UNIQUE,
    payload TEXT NOT NULL,
    content_sha256 TEXT,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    UNIQUE (stream, stream_version)
) STRICT;

CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    stream TEXT NOT NULL,
    stream_version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    recorded_at_ms INTEGER NOT NULL,
    actor TEXT,
    engine TEXT,
    message TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    idempotency_key TEXT,
    payload TEXT NOT NULL,
    content_sha256 TEXT,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    UNIQUE (stream, stream_version)
) STRICT;

CREATE TABLE event_content (
    position INTEGER PRIMARY KEY REFERENCES event (position),
    row_count INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
