-- What the demo asks: of the raw CSV, to check a scan against, and of the audit tables.

-- name: count_in_csv
SELECT count(*) AS flights
FROM read_csv($path, nullstr = 'NA', header = TRUE)
WHERE dest = 'SFO' AND dep_delay > 120;

-- name: log
SELECT
    position,
    strftime(recorded_at, '%H:%M:%S') AS "when",
    actor AS who,
    name,
    regexp_replace(changes, '; branch main -> .*$| -> -?[0-9]+', '', 'g') AS what,
    coalesce(message, '') AS why
FROM log
ORDER BY position;

-- name: who_wrote_what_is_live
SELECT
    log.actor AS who,
    log.message AS why,
    count(*) AS files,
    sum(files.record_count)::BIGINT AS rows,
    any_value(files.spec_id) AS spec
FROM files
JOIN log USING (snapshot_id)
WHERE files.namespace = 'demo' AND files.name = 'flights'
GROUP BY ALL
ORDER BY min(log.position);
