"""Commands for the tokens that a server asks its clients for."""

from __future__ import annotations

import datetime as dt
import re

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.errors import ValidationError

_UNITS = {"m": 60, "h": 3600, "d": 86400}


@click.group()
def token() -> None:
    """Make, list and revoke tokens for clients of icecore serve."""


@token.command("create", epilog=examples("icecore token create etl --grant write:shop --expires 30d"))
@click.argument("name")
@click.option(
    "--grant", "grants", metavar="LEVEL:NAMESPACE", multiple=True, required=True, help="As read:shop, manage:*."
)
@click.option("--expires", metavar="TIME", help="When it ends: 30d, 12h or 30m from now; never by default.")
@common_options
@pass_settings
def create_token(settings: Settings, name: str, grants: tuple[str, ...], expires: str | None) -> None:
    """Make a token; its text is printed once.

    NAME is who commits with it. A grant is read, write or manage in a namespace and all inside of it; * is everywhere.
    """
    from icecore.engine.server.auth.access_tokens import AccessTokens
    from icecore.engine.server.auth.grants import Grant

    with settings.write() as catalog:
        tokens = AccessTokens(catalog._warehouse.store)
        token_id, text = tokens.create(name, [Grant.parse(g) for g in grants], _milliseconds(expires))
    record = {"token_id": token_id, "name": name, "token": text}
    settings.print_record(record, text, "", f"credential={token_id}:{text} for clients that ask for an id and a secret")


@token.command("ls", epilog=examples("icecore token ls"))
@common_options
@pass_settings
def list_tokens(settings: Settings) -> None:
    """List the tokens, without their texts."""
    from icecore.engine.server.auth.access_tokens import AccessTokens

    with settings.read() as catalog:
        rows = [
            (
                t.token_id,
                t.name,
                " ".join(map(str, t.grants)),
                *map(_time, (t.created_at_ms, t.expires_at_ms, t.revoked_at_ms)),
            )
            for t in AccessTokens(catalog._warehouse.store).all()
        ]
    settings.print_rows(("token_id", "name", "grants", "created_at", "expires_at", "revoked_at"), rows)


@token.command("revoke", epilog=examples("icecore token revoke etl"))
@click.argument("name")
@common_options
@pass_settings
def revoke_token(settings: Settings, name: str) -> None:
    """End a token, by its NAME or id."""
    from icecore.engine.server.auth.access_tokens import AccessTokens

    with settings.write() as catalog:
        AccessTokens(catalog._warehouse.store).revoke(name)
    settings.print_record({"revoked": name}, f"revoked {name}")


def _milliseconds(text: str | None) -> int | None:
    """The length of a time such as 30d. Raises ValidationError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if found is None:
        raise ValidationError(f"--expires is a number of days, hours or minutes, as 30d, found {text[:60]!r}")
    return int(found[1]) * _UNITS[found[2]] * 1000


def _time(at_ms: int | None) -> dt.datetime | None:
    return None if at_ms is None else dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
