-- rule: log-health
-- severity: error
-- scope: warehouse
-- finds: An aspect of the log that is not as it should be: the chain of hashes, the read models, the database file.
-- mend: Read models come back by `icecore rebuild`; a log that was changed only from a copy.
SELECT
    aspect,
    aspect AS subject,
    format('{}: {}', aspect, detail) AS message
FROM log_health
WHERE NOT ok
