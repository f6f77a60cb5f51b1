"""Tokens, hashed at rest, and their grants by namespace."""
