"""The server as a process: connections, their limits, and its end."""
