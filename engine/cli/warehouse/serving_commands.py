"""The command serve."""

from __future__ import annotations

from typing import Any

import click
from attrs import fields

from icecore.engine.cli.settings import Command, Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.server.server_settings import LEAST, LIMIT, ServerSettings


def limit_options(command: Command) -> Command:
    """An option for each limit of a server, as --most-connections."""
    for limit in reversed(fields(ServerSettings)):
        if LIMIT in limit.metadata:
            least = limit.metadata[LEAST]
            kind = click.FloatRange(least) if isinstance(limit.default, float) else click.IntRange(least)
            words = limit.name.removesuffix("_s") + ("_seconds" if limit.name.endswith("_s") else "")
            name, text = f"--{words.replace('_', '-')}", limit.metadata[LIMIT]
            option = click.option(
                name, limit.name, type=kind, metavar="N", default=limit.default, show_default=True, help=text
            )
            command = option(command)
    return command


@click.command(epilog=examples("icecore serve", "icecore serve --port 8181 --workers 4"))
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    default=8181,
    show_default=True,
    help="Its port; 0 takes a free one.",
)
@click.option("--workers", type=click.IntRange(1), metavar="N", default=1, help="Processes that share the address.")
@click.option("--tls-certificate", metavar="FILE", help="Speak TLS, by this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its key, where that is in another file.")
@click.option("--plan-scans", is_flag=True, help="Tell clients to have their scans planned here.")
@click.option(
    "--location-root", "location_roots", metavar="FOLDER", multiple=True, help="A folder tables may be in too."
)
@click.option("--any-location", is_flag=True, help="Let tables be anywhere, one in another's folder too.")
@click.option("--name", "names", metavar="NAME", multiple=True, help="What clients may call it: by default anything.")
@click.option("--create-namespaces", is_flag=True, help="Make the namespace of what is created in none.")
@click.option("--without-tokens", is_flag=True, help="Let everybody in who reaches the address.")
@limit_options
@common_options
@pass_settings
def serve(
    settings: Settings,
    /,
    host: str,
    port: int,
    workers: int,
    tls_certificate: str | None,
    tls_key: str | None,
    plan_scans: bool,
    location_roots: tuple[str, ...],
    any_location: bool,
    names: tuple[str, ...],
    create_namespaces: bool,
    without_tokens: bool,
    **limits: Any,
) -> None:
    """Serve the warehouse as an Iceberg REST catalog.

    For Spark, Trino, PyIceberg, DuckDB and others, in other processes, which must see the files under the same paths.
    Their tables may be in the warehouse's folder, each in a place of its own, unless --location-root or --any-location
    says more. Where the warehouse has tokens (icecore token), clients must show one.
    """
    from icecore.engine.server.serve import serve as listen

    told = ServerSettings(
        plans_scans=plan_scans,
        asks_for_tokens=False if without_tokens else None,
        makes_namespaces=create_namespaces,
        names=names,
        **limits,
    )
    roots = None if any_location else location_roots
    listen(
        settings.path,
        host=host,
        port=port,
        settings=told,
        location_roots=roots,
        without_tokens=without_tokens,
        workers=workers,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
    )
