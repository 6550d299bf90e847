"""Commands that sign the state of the store's log, and prove what it covers: checkpoint, proof."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trails import files
from trails.cli.base import (
    EXISTING_FILE,
    NEW_FILE,
    answer,
    command,
    decoded,
    json_option,
    note,
    open_store,
    print_json,
    refuse,
)
from trails.errors import IntegrityError
from trails.files import read_whole

if TYPE_CHECKING:
    from trails.integrity.proofs import ConsistencyProof, TurnProof

_Command = TypeVar("_Command", bound=Callable[..., Any])
_KEY: Final = re.compile(r"PRIVATE\+KEY\+.*|[^+\s]+\+[0-9a-f]{8}\+\S+")

# --- options that take keys and notes


def _read_keys(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    keys: list[str] = []
    for value in values:
        if _KEY.fullmatch(value):
            keys.append(value)
            continue
        try:
            found = decoded(read_whole(Path(value)), value).split()
        except OSError as error:
            what = f"{value!r} is no verifier key, and no file that holds one can be read there ({error.strerror})"
            raise click.BadParameter(what, ctx, parameter) from error
        if not found:
            raise click.BadParameter(f"{value!r} holds no verifier key", ctx, parameter)
        keys += found
    return keys


def _read_note(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> str | None:
    if value is None:
        return None
    from trails.integrity.note import claimed_checkpoint

    text = decoded(read_whole(value), str(value))
    try:
        claimed_checkpoint(text)
    except IntegrityError as error:
        what = f"{value} is no checkpoint ({error}); `trails proof checkpoint -o FILE` writes one"
        raise click.BadParameter(what, ctx, parameter) from error
    return text


verifier_option = click.option(
    "--verifier",
    "verifiers",
    metavar="KEY",
    multiple=True,
    callback=_read_keys,
    help="The log's public key, or a file that holds it; again for further keys.",
)


witness_option = click.option(
    "--witness",
    "witnesses",
    metavar="KEY",
    multiple=True,
    callback=_read_keys,
    help="The public key of a witness of the checkpoint, or a file that holds it; again for further ones.",
)
signers_option = click.option(
    "--signers",
    metavar="KEY",
    multiple=True,
    callback=_read_keys,
    help="The public key of a principal whose signatures count, or a file of such keys; again for further ones.",
)
require_signed_option = click.option("--require-signed", is_flag=True, help="Turns that nobody signed are findings.")
quorum_option = click.option(
    "--quorum", metavar="N", type=click.IntRange(min=1), help="How many witnesses must have cosigned; default: all."
)


def _read_bytes(_: click.Context, __: click.Parameter, value: Path | None) -> bytes | None:
    return None if value is None else read_whole(value)


def _read_texts(_: click.Context, __: click.Parameter, values: tuple[Path, ...]) -> list[str]:
    return [decoded(read_whole(each), str(each)) for each in values]


timestamp_option = click.option(
    "--timestamp",
    metavar="FILE",
    type=EXISTING_FILE,
    callback=_read_bytes,
    help="The response of a time-stamp authority over the checkpoint: demand that it holds.",
)
authority_option = click.option(
    "--tsa-cert",
    "authorities",
    metavar="FILE",
    type=EXISTING_FILE,
    multiple=True,
    callback=_read_texts,
    help="The certificate, in PEM, of a trusted time-stamp authority or of who certifies it; again for further ones.",
)


def note_option(name: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add an option that takes the file of a checkpoint and gives its text."""
    return click.option(name, metavar="FILE", type=EXISTING_FILE, callback=_read_note, help=help_text)


@command("checkpoint")
@click.option("--key", metavar="FILE", type=NEW_FILE, required=True, help="The file of the log's secret key.")
@click.option("--new-key", "name", metavar="NAME", help="Make the key instead, for a log of this name.")
@click.option("-o", "--output", type=NEW_FILE, help="The file to write, which may not be there yet; default: stdout.")
@json_option
def checkpoint(*, key: Path, name: str | None, output: Path | None, as_json: bool) -> None:
    """Sign the state of the store's log, to be kept elsewhere.

    Keep what this prints where the owner of the disk cannot change it.

    With a checkpoint that was kept elsewhere, `trails verify --checkpoint` finds anything that was rewritten since.
    Without one, whoever owns the disk can rewrite everything.

    `trails proof checkpoint --new-key NAME --key FILE` makes the key first: the secret one in FILE, to be kept from others,
    and the public one in FILE.pub and on stdout, to be given to all who verify. NAME is the log's name for good, best
    like a URL without its scheme: example.com/trails.
    """
    if name is not None:
        if output is not None:
            refuse("--new-key makes a key and no checkpoint; leave --output out")
        make_key(name, key, as_json=as_json)
        return
    from trails.integrity.note import claimed_checkpoint, to_base64

    if not key.is_file():
        refuse(f"there is no key at {key}; make one with `trails proof checkpoint --new-key NAME --key {key}`")
    refuse_existing(output)
    with open_store(reading=True) as store:
        made = store.proofs.checkpoint(decoded(read_whole(key), str(key)))
    if output is not None:
        files.write_new(output, made.encode(), public=True)
        note(f"wrote the checkpoint to {output}: keep a copy where the owner of this disk cannot change it")
    state = claimed_checkpoint(made)
    value = {"origin": state.origin, "size": state.size, "root": to_base64(state.root), "checkpoint": made}
    shown = made.encode() if output is None else None  # as bytes: a note stays one where a terminal knows no em dash
    answer(value, shown, partial(click.echo, nl=False), as_json=as_json)


def make_key(name: str, path: Path, *, as_json: bool, witness: bool = False) -> None:
    """Make a key of a log or of a witness, and answer with its public half."""
    from trails.integrity.note import new_key
    from trails.integrity.witnesses import new_witness_key

    write_key(name, path, new_witness_key if witness else new_key, as_json=as_json)


def write_key(name: str, path: Path, make: Callable[[str], tuple[str, str]], *, as_json: bool) -> None:
    """Make a key with a name by what makes a secret and a public half, write both, and answer with the public one."""
    public = path.with_name(f"{path.name}.pub")
    refuse_existing(path, public)
    signer, verifier = make(name)
    files.write_new(path, f"{signer}\n".encode())
    try:
        files.write_new(public, f"{verifier}\n".encode(), public=True)
    except BaseException:  # an interrupt too: a secret key without its public one helps nobody
        path.unlink()
        raise
    value = {"name": name, "key": str(path), "public_key": str(public), "verifier": verifier}
    said = f"wrote the secret key to {path} and the public one to {public}: keep the first from others, give out the second"
    answer(value, verifier, click.echo, said=said, as_json=as_json)


@command("make")
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", required=False, type=click.IntRange(min=0))
@note_option("--checkpoint", "The checkpoint to prove against.  [required]")
@note_option("--since", "An older checkpoint: prove that the log only grew from it to the other.")
@click.option(
    "--without-content", is_flag=True, help="Prove the digest of the turn's content and withhold the content."
)
@click.option("-o", "--output", type=NEW_FILE, help="The file to write, which may not be there yet; default: stdout.")
@click.option("--json", is_flag=True, expose_value=False, help="A proof is JSON with or without this.")
def proof(
    *,
    session: str | None,
    index: int | None,
    checkpoint: str | None,
    since: str | None,
    without_content: bool,
    output: Path | None,
) -> None:
    """Prove a turn to others, or that the log only grew.

    \b
    trails proof make SESSION INDEX --checkpoint FILE
        the turn was in the transcript when FILE was signed
    trails proof make --since OLD --checkpoint FILE
        what OLD covers is unchanged in FILE

    SESSION is an id, an IRI or a label. The proof carries the checkpoint and all that `trails proof check` needs but
    the public key. The other turns of the transcript stand in it as digests, with their roles, authors and times. With
    the content comes its salt: whoever has it can try guesses at the arguments of the turn's tool calls.
    """
    if checkpoint is None:
        refuse("a proof is against a checkpoint; give --checkpoint FILE")
    if (since is None) == (session is None) or (session is None) != (index is None):
        refuse("give SESSION and INDEX to prove a turn, or --since to prove growth")
    if since is not None and without_content:
        refuse("a proof of growth holds no content; leave --without-content out")
    refuse_existing(output)
    with open_store(reading=True) as store:
        made: ConsistencyProof | TurnProof
        if since is not None:
            made = store.proofs.growth(since, checkpoint)
        else:
            assert session is not None and index is not None  # noqa: S101, PT018 - checked above
            made = store.proofs.turn(store.resolve(session), index, checkpoint, reveal=not without_content)
    if output is None:
        import json

        print_json(json.loads(made.to_json()))
    else:
        files.write_new(output, made.to_json().encode())
        note(f"wrote the proof to {output}")


def refuse_existing(*paths: Path | None) -> None:
    """End the command as wrong usage where a file to be written is there already."""
    for path in paths:
        if path is not None and path.exists():
            refuse(f"{path} is there already, and keys, checkpoints and proofs are not written over; name another file")
