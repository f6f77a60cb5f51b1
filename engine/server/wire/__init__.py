"""Requests and answers of the server, apart from what they are about."""
