"""Reports of clients, beside the log."""
