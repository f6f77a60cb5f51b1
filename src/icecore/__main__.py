"""`python -m icecore` is the command `icecore`."""

from icecore.engine.cli.main import main

main()
