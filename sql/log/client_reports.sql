-- Reports of clients on their scans and commits, in a file of their own beside the log, so that nobody who waits for the
-- log's lock or looks whether it changed is held up by them.
--
-- client_report   one row per report as it came, as JSON of `size` bytes; `position` is the log's last one then

-- name: schema
CREATE TABLE IF NOT EXISTS client_report (
    report_id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    stream TEXT NOT NULL,
    position INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    actor TEXT,
    engine TEXT,
    size INTEGER NOT NULL,
    report TEXT NOT NULL
) STRICT;

-- name: put
INSERT INTO client_report (kind, stream, position, received_at_ms, actor, engine, size, report)
VALUES ($kind, $stream, $position, $received_at_ms, $actor, $engine, $size, $report);

-- name: drop_oldest
-- All but the last ones, by number and by bytes.
DELETE FROM client_report
WHERE report_id <= coalesce((
    SELECT max(report_id) FROM (
        SELECT report_id, row_number() OVER newer AS reports, sum(size) OVER newer AS bytes FROM client_report
        WINDOW newer AS (ORDER BY report_id DESC)
    )
    WHERE reports > $most OR bytes > $most_bytes
), 0);

-- name: of_kind
SELECT stream, position, received_at_ms, actor, engine, report FROM client_report
WHERE kind = $kind AND position <= $up_to ORDER BY report_id;

-- name: forget
DELETE FROM client_report
WHERE instr(report, $text) > 0 OR instr(coalesce(actor, ''), $text) > 0 OR instr(coalesce(engine, ''), $text) > 0;
