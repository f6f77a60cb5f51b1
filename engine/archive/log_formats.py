"""The formats of exported logs, by name."""

JSONL, PARQUET = "jsonl", "parquet"
FORMATS = (JSONL, PARQUET)
