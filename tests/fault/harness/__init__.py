"""Kills, starves and damages warehouses by the thousand, and checks what is there afterwards.

Each round forks a process that has everything imported, so that it dies in tens of milliseconds. What dies is always a
real process, by a real SIGKILL (or SIGXFSZ), and whoever looks at what it left is another one.
"""
