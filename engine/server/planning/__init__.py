"""Scans that the server plans for clients."""
