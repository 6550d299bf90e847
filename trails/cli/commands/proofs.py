"""Commands that sign and prove the state of a log.

Commands that sign the state of the store's log, and prove what it covers: checkpoint, proof.

The command of witnesses of a checkpoint: cosign.

The commands that let a time-stamp authority say when a checkpoint was there: timestamp request, timestamp add.

The command by which a principal signs the head of a session: sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trails import files
from trails.cli.options import (
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
from trails.cli.terminal import one_line
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
    from trails.integrity.signed_notes import claimed_checkpoint

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
    from trails.integrity.signed_notes import claimed_checkpoint, to_base64

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
    from trails.integrity.signed_notes import new_key
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


@click.command("cosign")
@click.argument("checkpoint", metavar="[CHECKPOINT]", type=EXISTING_FILE, required=False)
@click.option("--key", metavar="FILE", type=NEW_FILE, help="The file of the witness's secret key.")
@click.option("--new-key", "name", metavar="NAME", help="Make the key instead, for a witness of this name.")
@verifier_option
@note_option("--kept", "The checkpoint of this log that the witness cosigned last.")
@click.option("--growth", metavar="FILE", type=EXISTING_FILE, help="The proof that the log only grew since that one.")
@click.option("--add", metavar="FILE", type=EXISTING_FILE, help="Add lines that witnesses gave, and sign nothing.")
@click.option("-o", "--output", type=NEW_FILE, help="The file to write, which may not be there yet; default: stdout.")
@json_option
def cosign(
    *,
    checkpoint: Path | None,
    key: Path | None,
    name: str | None,
    verifiers: list[str],
    kept: str | None,
    growth: Path | None,
    add: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Say as a witness that you saw a checkpoint, and when.

    No store is needed.

    \b
    trails proof cosign CHECKPOINT --key FILE --verifier KEY
        add the witness's line to a checkpoint that the log signed
    trails proof cosign CHECKPOINT --add LINES
        add lines that witnesses gave

    A witness that cosigned a checkpoint of the log before gives it with --kept, and with --growth a proof that the log only
    grew since (`trails proof make --since`): without these, its line says when it saw the checkpoint, and no more.
    `trails verify --witness` demands the lines. `trails proof cosign --new-key NAME --key FILE` makes a witness's key.
    """
    if name is not None:
        if key is None or checkpoint is not None:
            refuse("--new-key makes a key in the file that --key names, and cosigns nothing")
        make_key(name, key, as_json=as_json, witness=True)
        return
    if checkpoint is None or (key is None) == (add is None):
        refuse("give a CHECKPOINT, and --key to cosign it or --add to add lines that witnesses gave")
    refuse_existing(output)
    text = decoded(read_whole(checkpoint), str(checkpoint))
    made = _added(text, add) if key is None else _cosigned(text, key, verifiers, kept, growth)
    if output is not None:
        files.write_new(output, made.encode(), public=True)
        note(f"wrote the checkpoint to {output}")
    shown = made.encode() if output is None else None
    answer({"checkpoint": made}, shown, partial(click.echo, nl=False), as_json=as_json)


def _added(text: str, lines: Path | None) -> str:
    from trails.integrity.witnesses import with_cosignatures

    assert lines is not None  # noqa: S101 - checked by the caller
    return with_cosignatures(text, decoded(read_whole(lines), str(lines)))


def _cosigned(text: str, key: Path, verifiers: list[str], kept: str | None, growth: Path | None) -> str:
    """Return the checkpoint with the witness's line, once the log's signature and its growth were checked."""
    from trails.integrity.proofs import ConsistencyProof, read_proof
    from trails.integrity.signed_notes import open_checkpoint
    from trails.integrity.witnesses import cosign, with_cosignatures

    if (kept is None) != (growth is None):
        refuse("--kept and --growth go together: a proof of growth is since a checkpoint")
    state = open_checkpoint(text, verifiers)
    if kept is not None and growth is not None:
        proof = read_proof(read_whole(growth))
        if not isinstance(proof, ConsistencyProof) or proof.verify(kept, verifiers) != state:
            refuse(f"{growth} is no proof that the log grew to this checkpoint")
    return with_cosignatures(text, cosign(text, decoded(read_whole(key), str(key)), datetime.now(UTC)))


@click.group("timestamp")
def timestamp() -> None:
    """Let an authority say by when a checkpoint was there.

    \b
    trails proof timestamp request CHECKPOINT -o note.tsq
        write the request, to be sent to a time-stamp authority (RFC 3161)
    trails proof timestamp add CHECKPOINT note.tsr --request note.tsq
        check its response, and keep it as CHECKPOINT.tsr

    No store is needed, and nothing is sent: `curl --data-binary @note.tsq -H "Content-Type: application/timestamp-query" URL`
    does it. The file is stamped as it stands: let witnesses cosign it first. `trails verify --timestamp` demands the token.
    """


@timestamp.command("request")
@click.argument("checkpoint", type=EXISTING_FILE)
@click.option("-o", "--output", type=NEW_FILE, required=True, help="The file to write, which may not be there yet.")
@json_option
def request(*, checkpoint: Path, output: Path, as_json: bool) -> None:
    """Write a request for a time stamp of a checkpoint.

    It holds the checkpoint's SHA-256 and a random number, and nothing else of it.
    """
    from trails.integrity.witnesses import timestamp_request as made

    refuse_existing(output)
    files.write_new(output, made(_note(checkpoint)), public=True)
    said = f"wrote the request to {one_line(str(output))}: send it to a time-stamp authority"
    answer({"request": str(output)}, None, click.echo, said=said, as_json=as_json)


@timestamp.command("add")
@click.argument("checkpoint", type=EXISTING_FILE)
@click.argument("response", type=EXISTING_FILE)
@click.option(
    "--request", "asked", metavar="FILE", type=EXISTING_FILE, required=True, help="The request that was sent."
)
@authority_option
@click.option("-o", "--output", type=NEW_FILE, help="The file to keep the response in; default: CHECKPOINT.tsr.")
@json_option
def add(
    *, checkpoint: Path, response: Path, asked: Path, authorities: list[str], output: Path | None, as_json: bool
) -> None:
    """Check an authority's response, and keep it beside the checkpoint.

    It must grant what was asked, for this checkpoint and with this request's random number. Who signed it is checked with
    --tsa-cert, and else not before it is used.
    """
    from trails.integrity.witnesses import check_timestamp_answer, read_timestamp

    kept = output or checkpoint.with_name(f"{checkpoint.name}.tsr")
    refuse_existing(kept)
    note, data = _note(checkpoint), read_whole(response)
    check_timestamp_answer(note, read_whole(asked), data)
    found = read_timestamp(note, data, authorities) if authorities else None
    files.write_new(kept, data, public=True)
    value = {"timestamp": str(kept), "timestamped": None if found is None else found.to_dict()}
    by = "nobody's signature was checked" if found is None else f"there by {found.time.isoformat()}"
    answer(value, None, click.echo, said=f"kept the response in {one_line(str(kept))}: {by}", as_json=as_json)


def _note(path: Path) -> bytes:
    """Return the bytes of a checkpoint; raise IntegrityError where the file holds none."""
    from trails.integrity.signed_notes import claimed_checkpoint

    data = read_whole(path)
    claimed_checkpoint(decoded(data, str(path)))
    return data


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
    from trails.integrity.signed_notes import new_principal_key

    if (principal is None) == (session is None):
        refuse("name the SESSION to sign, or make a key with --new-key PRINCIPAL")
    if principal is not None:
        from trails.model import validation

        write_key(validation.name(principal, "principal"), key, new_principal_key, as_json=as_json)
        return
    assert session is not None  # noqa: S101 - checked above
    if not key.is_file():
        refuse(f"there is no key at {key}; make one with `trails proof sign --new-key PRINCIPAL --key {key}`")
    with open_store() as store:
        made = store.load(store.resolve(session)).sign(decoded(read_whole(key), str(key)).strip())
    said = f"{one_line(made.principal)} signed {one_line(made.session_id)} through turn {made.index}"
    answer(made, None, click.echo, said=said, as_json=as_json)
