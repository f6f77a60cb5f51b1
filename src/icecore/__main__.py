"""The command `icecore`, or `python -m icecore`: its version and its help are printed before anything is loaded."""

import os
import sys

from icecore.engine.common.version import VERSION

WIDTHS = (80, 100)
"""The widths of a terminal that help is kept for; each is that of the wider ones up to the next, too."""


def main() -> None:
    """Prints what is kept, or does as the command is told."""
    _open_what_is_closed()
    text = _kept(sys.argv[1:])
    if not text:
        try:
            from icecore.engine.cli.main import main as command

            command()
        except KeyboardInterrupt:
            # While the command was loaded; it ends so by itself.
            sys.stderr.write("\nAborted!\n")
            sys.exit(130)
    try:
        while text:
            text = text[os.write(1, text) :]
    except BrokenPipeError:
        sys.exit(1)
    except OSError as e:
        sys.exit(f"error: {e}")


def _open_what_is_closed() -> None:
    """Streams that were closed, as by `>&-`, lead nowhere: else the next file that is opened takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # for as long as the process is there


def _kept(arguments: list[str]) -> bytes:
    """The output of the command for these arguments where it is known, else nothing."""
    match arguments:
        case ["--version"]:
            return f"icecore, version {VERSION}\n".encode()
        case ["--help" | "-h"]:
            width = max((w for w in WIDTHS if w <= _columns()), default=0)
            try:
                with open(f"{os.path.dirname(__file__)}/help_{width}.txt", "rb") as file:
                    return file.read()
            except OSError:
                return b""  # none is kept for one so narrow, or all is in an archive
    return b""


def _columns() -> int:
    """The width of the terminal, as `shutil` has it, which would be a module more to load."""
    try:
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    except ValueError:
        pass
    try:
        return os.get_terminal_size(1).columns or WIDTHS[0]
    except OSError:
        return WIDTHS[0]


if __name__ == "__main__":
    main()
