"""Commands for the tokens with which a server is called."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trails.cli import options as cli
from trails.display.terminal_text import clean
from trails.errors import InvalidInput

if TYPE_CHECKING:
    from trails.serve.tokens import Token, TokenFile

_DAYS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_file_option = cli.option(
    "--tokens FILE",
    "The file of the tokens; default: tokens.json in the store's folder.",
    name="file",
    type=cli.NEW_FILE,
)


@cli.command("make")
@click.argument("name", metavar="NAME")
@cli.option("--principal NAME", "Whose sessions it shows, and who acts with it.", required=True)
@cli.option(
    "--role ROLE",
    "Reader, writer, auditor or admin.",
    type=click.Choice(["reader", "writer", "auditor", "admin"]),
    default="reader",
)
@cli.option("--all", "A reader or writer gets the sessions of everybody.", name="is_for_all")
@cli.option("--expires DURATION", "How long it holds: 12h, 30d, 8w; default: until it is revoked.")
@_file_option
def make_token(
    *, name: str, principal: str, role: str, is_for_all: bool, expires: str | None, file: Path | None
) -> None:
    """Make a token with which a server of the store is called.

    The token is printed here, once, and kept nowhere: the file has a digest of it. NAME is what it is called when it is
    listed and revoked. A reader sees the sessions of the principal, and a writer writes there too; an auditor sees all, and an
    admin does everything. Once a store has tokens, `trails serve` lets nobody in without one.
    """
    from trails.serve.callers import role_of

    until = None if expires is None else datetime.now(UTC) + _duration(expires)
    token, secret = _token_file(file).make(name, principal, role_of(role), expires=until, is_for_all=is_for_all)
    cli.answer(
        token.to_dict() | {"token": secret}, secret, said="this is shown once; keep it where others cannot read it"
    )


@cli.command("list", pager=True, limit=True)
@_file_option
def list_tokens(*, file: Path | None) -> None:
    """List the tokens of a store, the oldest first.

    Each line says whose the token is, what it allows, and whether it holds.
    """
    draw = cli.table("name,principal,role,sees,made (UTC),state", _row)
    cli.answer_list("tokens", _token_file(file).every(), draw, "there are no tokens")


@cli.command("revoke")
@click.argument("name", metavar="NAME")
@_file_option
def revoke_token(*, name: str, file: Path | None) -> None:
    """Revoke a token: it lets nobody in from the next request on.

    This holds for servers that run, too.

    NAME is what the token is called. Its name and what it was stay on record.
    """
    token = _token_file(file).revoke(name)
    cli.answer({"token": token.to_dict()}, None, said=f"the token {token.name!r} holds no more")


def _token_file(named: Path | None) -> TokenFile:
    from trails.serve import tokens

    if named is not None:
        return tokens.TokenFile(named)
    with cli.open_store(reading=True) as store:
        place = tokens.place_of(store.store.folder, None)
    if place is None:
        raise InvalidInput("this store has no folder in which its tokens could be; name their file with --tokens FILE")
    return tokens.TokenFile(place)


def _duration(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if unit not in _DAYS or not (number.isascii() and number.isdecimal()) or not 1 <= int(number[:6]) <= 99_999:
        raise InvalidInput(f"{text!r:.40} is no duration; write 12h, 30d or 8w")
    return int(number) * _DAYS[unit]


def _row(token: Token) -> Sequence[str]:
    sees = "all" if token.caller.sees_all else "own"
    return token.name, clean(token.principal), token.role, sees, cli.view.moment(token.made), _state(token)


def _state(token: Token) -> str:
    if token.revoked is not None:
        return "revoked"
    if token.expires is None:
        return "holds"
    is_valid = token.is_valid(datetime.now(UTC))
    return f"{'until' if is_valid else 'expired'} {cli.view.moment(token.expires)}"
