"""The Iceberg REST Compatibility Kit, which is Java's own suite for catalogs, run against our server.

It comes from Maven Central; without Java, Maven or that it is skipped. `make interop` runs it with scans planned too.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from maven_jars import MOST_S, class_path
from rest_client import served

import icecore
from icecore.engine.server.server_settings import ServerSettings

POM = Path(__file__).parent / "rest_kit" / "pom.xml"
RUN = {"default": (144, []), "planned by the server": (143, ["testCatalogWithCustomMetricsReporter()"])}
"""The tests that pass and those that fail; 13 more are of what the kit takes no catalog to have by default.

Java's client reports no metrics of scans that a server planned.
"""


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> str:
    return class_path(POM, tmp_path_factory.mktemp("kit") / "class-path")


@pytest.mark.slow
@pytest.mark.parametrize("mode", RUN if "ICECORE_INTEROP" in os.environ else ["default"])
def test_the_compatibility_kit_passes(kit: str, tmp_path: Path, mode: str) -> None:
    """All tests that run by the kit's defaults; a server that plans all scans is used by the same suite."""
    settings = ServerSettings(makes_namespaces=True, plans_scans=mode != "default")
    with (
        icecore.open(tmp_path / "warehouse", location_roots=["/tmp"], unique_locations=True) as catalog,
        served(catalog, settings) as rest,
    ):
        asked = {"rck.local": "false", "rck.uri": rest.uri, "uri": rest.uri}
        # The suite is short, so quick compiling costs least.
        java = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", kit]
        launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"]
        chosen = ["--select-class", "org.apache.iceberg.rest.RESTCompatibilityKitSuite", "--include-classname", ".*"]
        shown = ["--details=tree", "--details-theme=ascii", "--disable-ansi-colors"]
        command = [*java, *(f"-D{k}={v}" for k, v in asked.items()), *launcher, *chosen, *shown]
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, check=False)
    failed = re.findall(r"(\w+\(\)) \[X\]", done.stdout)
    successful = re.search(r"(\d+) tests successful", done.stdout)
    assert (int(successful[1]) if successful else 0, failed) == RUN[mode], done.stdout[-6000:] + done.stderr[-2000:]
