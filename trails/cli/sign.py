"""The command by which a principal signs the head of a session: sign."""

from __future__ import annotations

from pathlib import Path

import click

from trails.cli.base import NEW_FILE, answer, command, decoded, json_option, open_store, refuse
from trails.cli.checkpoint import write_key
from trails.cli.terminal import one_line
from trails.files import read_whole


@command("sign")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--key", metavar="FILE", type=NEW_FILE, required=True, help="The file of the principal's secret key.")
@click.option("--new-key", "principal", metavar="PRINCIPAL", help="Make the key instead, for this principal.")
@json_option
def sign(*, session: str | None, key: Path, principal: str | None, as_json: bool) -> None:
    """Sign a session's head, and so all its turns, as a principal.

    The signature is stored beside the session, and goes with it into exports. `trails verify` checks all signatures and,
    where there are any, lists the turns that nobody signed; `trails verify --signers KEY` asks for those of principals whose
    keys you know. A head that the key signed before is not signed again.

    `trails proof sign --new-key PRINCIPAL --key FILE` makes the key first: the secret one in FILE, the public one in FILE.pub and
    on stdout.
    """
    from trails.integrity.head_signatures import new_principal_key

    if (principal is None) == (session is None):
        refuse("name the SESSION to sign, or make a key with --new-key PRINCIPAL")
    if principal is not None:
        from trails import validate

        write_key(validate.name(principal, "principal"), key, new_principal_key, as_json=as_json)
        return
    assert session is not None  # noqa: S101 - checked above
    if not key.is_file():
        refuse(f"there is no key at {key}; make one with `trails proof sign --new-key PRINCIPAL --key {key}`")
    with open_store() as store:
        made = store.load(store.resolve(session)).sign(decoded(read_whole(key), str(key)).strip())
    said = f"{one_line(made.principal)} signed {one_line(made.session_id)} through turn {made.index}"
    answer(made, None, click.echo, said=said, as_json=as_json)
