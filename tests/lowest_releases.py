"""The dependencies of pyproject.toml as constraints for pip, each at the lowest release that it allows.

`make lowest` installs these: what is allowed and was never tried has given wrong answers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_PROJECT = Path(__file__).parent.parent / "pyproject.toml"
# The name, perhaps extras, which a constraint can't have, the release, and perhaps a limit above or a marker.
_REQUIREMENT = re.compile(r"([\w-]+)(?:\[[^]]*\])?>=([\w.]+)(?:,[^;]*)?(;.*)?")


def constraints() -> Iterator[str]:
    """One line of pip's constraints for each dependency of the engine, and of what is installed with it on demand."""
    project = tomllib.loads(_PROJECT.read_text())["project"]
    extras = [project["optional-dependencies"][extra] for extra in ("server", "stats", "demo")]
    for requirement in sum(extras, project["dependencies"]):
        found = _REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"{requirement!r} names no lowest release")
        name, release, marker = found.groups()
        yield f"{name}=={release}{marker or ''}"


if __name__ == "__main__":
    print(*constraints(), sep="\n")
