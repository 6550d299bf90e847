"""Commands that sign and prove the state of a log, and the options that name keys and checkpoints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from trails import files
from trails.cli import options as cli
from trails.display.terminal_text import one_line
from trails.errors import IntegrityError
from trails.files import read_whole

if TYPE_CHECKING:
    from trails.integrity.absence_proofs import Subject
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
            lines = cli.decoded(read_whole(Path(value)), value).split()
        except OSError as error:
            what = f"{value!r} is no verifier key, and no file that holds one can be read there ({error.strerror})"
            raise click.BadParameter(what, ctx, parameter) from error
        if not lines:
            raise click.BadParameter(f"{value!r} holds no verifier key", ctx, parameter)
        keys += lines
    return keys


def _read_note(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> str | None:
    if value is None:
        return None
    from trails.integrity.signed_notes import claimed_checkpoint

    text = cli.read_text(value)
    try:
        claimed_checkpoint(text)
    except IntegrityError as error:
        what = f"{value} is no checkpoint ({error}); `trails proof checkpoint -o FILE` writes one"
        raise click.BadParameter(what, ctx, parameter) from error
    return text


def _keys_option(option: str, text: str, name: str | None = None) -> Callable[[_Command], _Command]:
    return cli.option(f"{option} KEY", text, name=name, multiple=True, callback=_read_keys)


def note_option(name: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add an option that takes the file of a checkpoint and gives its text."""
    return cli.option(f"{name} FILE", help_text, type=cli.EXISTING_FILE, callback=_read_note)


verifier_option = _keys_option(
    "--verifier", "The log's public key, or a file that holds it; again for further keys.", "verifiers"
)
authority_option = cli.option(
    "--tsa-cert FILE",
    "The certificate, in PEM, of a trusted time-stamp authority or of who certifies it; again for further ones.",
    name="authorities",
    type=cli.EXISTING_FILE,
    multiple=True,
    callback=lambda ctx, parameter, values: [cli.read_text(each) for each in values],
)
evidence_options = cli.options(
    verifier_option,
    _keys_option(
        "--witness",
        "The public key of a witness of the checkpoint, or a file that holds it; again for further ones.",
        "witnesses",
    ),
    cli.option("--quorum N", "How many witnesses must have cosigned; default: all.", type=click.IntRange(min=1)),
    cli.option(
        "--timestamp FILE",
        "The response of a time-stamp authority over the checkpoint: demand that it holds.",
        type=cli.EXISTING_FILE,
        callback=lambda ctx, parameter, value: None if value is None else read_whole(value),
    ),
    authority_option,
)
"""What a checkpoint is held against."""
signature_options = cli.options(
    evidence_options,
    _keys_option(
        "--signers",
        "The public key of a principal whose signatures count, or a file of such keys; again for further ones.",
    ),
    cli.option("--require-signed", "Turns that nobody signed are findings."),
)
"""What must hold of a checkpoint and of signatures."""


def _new_file(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    refuse_existing(path)
    return path


def refuse_existing(*paths: Path | None) -> None:
    """End the command as wrong usage if a file to be written is there already."""
    for path in paths:
        if path is not None and path.exists():
            cli.refuse(
                f"{path} is there already, and keys, checkpoints and proofs are not written over; name another file"
            )


output_option = cli.option(
    "-o --output",
    "The file to write, which may not be there yet; default: stdout.",
    type=cli.NEW_FILE,
    callback=_new_file,
)
# --- checkpoints and proofs


@cli.command("checkpoint")
@cli.option("--key FILE", "The file of the log's secret key.", type=cli.NEW_FILE, required=True)
@cli.option("--new-key NAME", "Make the key instead, for a log of this name.", name="name")
@output_option
def checkpoint(*, key: Path, name: str | None, output: Path | None) -> None:
    """Sign the state of the store's log, to be kept elsewhere.

    Keep what this prints where the owner of the disk cannot change it.

    With a checkpoint that was kept elsewhere, `trails verify --checkpoint` finds anything that was rewritten since.
    Without one, whoever owns the disk can rewrite everything.

    `trails proof checkpoint --new-key NAME --key FILE` makes the key first: the secret one in FILE, to be kept from others,
    and the public one in FILE.pub and on stdout, to be given to all who verify. NAME is the log's name for good, best
    like a URL without its scheme: example.com/trails.
    """
    from trails.integrity.signed_notes import claimed_checkpoint, new_key
    from trails.integrity.verifier.notes import to_base64

    if name is not None:
        if output is not None:
            cli.refuse("--new-key makes a key and no checkpoint; leave --output out")
        _make_key(name, key, new_key)
        return
    if not key.is_file():
        cli.refuse(f"there is no key at {key}; make one with `trails proof checkpoint --new-key NAME --key {key}`")
    with cli.open_store(reading=True) as store:
        made = store.proofs.checkpoint(cli.read_text(key))
    state = claimed_checkpoint(made)
    value = {"origin": state.origin, "size": state.size, "root": to_base64(state.root), "checkpoint": made}
    where = f"to {output}: keep a copy where the owner of this disk cannot change it"
    _answer_checkpoint(value, made, output, where)


def _answer_checkpoint(value: dict[str, Any], made: str, output: Path | None, where: str) -> None:
    if output is not None:
        files.write_new(output, made.encode(), public=True)
        cli.note(f"wrote the checkpoint {where}")
    shown = made.encode() if output is None else None  # as bytes: a note stays one if a terminal knows no em dash
    cli.answer(value, shown, partial(click.echo, nl=False))


def _make_key(name: str, path: Path, make: Callable[[str], tuple[str, str]]) -> None:
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
    cli.answer(value, verifier, said=said)


@cli.command("make")
@click.argument("session", metavar="[SESSION]", required=False)
@click.argument("index", metavar="[INDEX]", required=False, type=click.IntRange(min=0))
@note_option("--checkpoint", "The checkpoint to prove against.  [required]")
@note_option("--since", "An older checkpoint: prove that the log only grew from it to the other.")
@cli.option("--without-content", "Prove the digest of the turn's content and withhold the content.")
@output_option
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
        cli.refuse("a proof is against a checkpoint; give --checkpoint FILE")
    if (since is None) == (session is None) or (session is None) != (index is None):
        cli.refuse("give SESSION and INDEX to prove a turn, or --since to prove growth")
    if since is not None and without_content:
        cli.refuse("a proof of growth holds no content; leave --without-content out")
    with cli.open_store(reading=True) as store:
        made: ConsistencyProof | TurnProof
        if since is not None:
            made = store.proofs.growth(since, checkpoint)
        else:
            made = store.proofs.turn(store.resolve(session or ""), index or 0, checkpoint, reveal=not without_content)
    if output is None:
        cli.print_json(json.loads(made.to_json()))
    else:
        files.write_new(output, made.to_json().encode())
        cli.note(f"wrote the proof to {output}")


@cli.command("absence")
@click.argument("subject", type=click.Choice(["session", "turn", "tool", "model", "author", "removal", "read"]))
@click.argument("name", metavar="[NAME]", required=False)
@note_option("--since", "The older checkpoint.  [required]")
@note_option("--checkpoint", "The newer checkpoint.  [required]")
@output_option
def absence(
    *, subject: Subject, name: str | None, since: str | None, checkpoint: str | None, output: Path | None
) -> None:
    """Prove that something was not recorded between two checkpoints.

    \b
    trails proof absence session ID        no line of the log is about this session
    trails proof absence turn DIGEST       no turn with this digest is new
    trails proof absence tool NAME         no new turn calls this tool
    trails proof absence model NAME        no new turn is by this model
    trails proof absence author NAME       no new turn is by principal:NAME or agent:NAME
    trails proof absence removal [ID]      nothing was deleted or redacted (of this session)
    trails proof absence read [ID]         no read or export was put on record (of this session)

    `trails proof check` checks the proof with the public key alone. It has every line of the log between the two: kinds, ids of
    sessions and digests. About turns it also has their roles, authors and times; about tools and models what was recorded
    with the turns, but arguments as digests; about reads the entries of all registers. It has no text of a turn. What was
    never recorded, no proof can show.
    """
    if since is None or checkpoint is None:
        cli.refuse("absence is proven between two checkpoints; give --since OLD and --checkpoint NEW")
    with cli.open_store(reading=True) as store:
        made = store.proofs.absence(subject, name, since, checkpoint)
    if output is None:
        cli.print_json(json.loads(made.to_json()))
    else:
        files.write_new(output, made.to_json().encode())
        cli.note(f"wrote the proof to {output}")


@cli.command("receipt", store=False)
@click.argument("file", metavar="FILE", type=cli.EXISTING_FILE)
@verifier_option
def check_receipt(*, file: Path, verifiers: list[str]) -> None:
    """Check the receipt of an erasure, without any store.

    FILE is what `trails erase --key KEY -o FILE` wrote. What was erased is printed, and what may still hold it. The exit code is
    0 where one of the --verifier keys signed the receipt, 1 where none did or it was altered, 2 for wrong usage.
    """
    from trails.integrity.erasure_receipts import open_receipt

    if not verifiers:
        cli.refuse("without the log's public key no signature can be trusted; give --verifier KEY")
    try:
        receipt = open_receipt(read_whole(file), verifiers)
    except IntegrityError as wrong:
        cli.answer({"valid": False, "reason": f"{wrong}"}, f"not valid: {one_line(f'{wrong}')}")
        cli.end(1)
    lines = [f"erased {one_line(each.session_id)} {each.index} {each.why}" for each in receipt.erased]
    lines += [
        f"not reached {each.kind} {one_line(each.name)} {each.sha256 or ''}".rstrip() for each in receipt.unreached
    ]
    cli.answer(
        {"valid": True} | receipt.to_dict(), ["valid", *lines, *(f"not seen {each}" for each in receipt.not_seen)]
    )


# --- witnesses and time-stamp authorities


@cli.command("cosign", store=False)
@click.argument("checkpoint", metavar="[CHECKPOINT]", type=cli.EXISTING_FILE, required=False)
@cli.option("--key FILE", "The file of the witness's secret key.", type=cli.NEW_FILE)
@cli.option("--new-key NAME", "Make the key instead, for a witness of this name.", name="name")
@verifier_option
@note_option("--kept", "The checkpoint of this log that the witness cosigned last.")
@cli.option("--growth FILE", "The proof that the log only grew since that one.", type=cli.EXISTING_FILE)
@cli.option("--add FILE", "Add lines that witnesses gave, and sign nothing.", type=cli.EXISTING_FILE)
@output_option
def cosign(
    *, checkpoint: Path | None, key: Path | None, name: str | None, add: Path | None, output: Path | None, **kept: Any
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
    from trails.integrity.witnesses import new_witness_key, with_cosignatures

    if name is not None:
        if key is None or checkpoint is not None:
            cli.refuse("--new-key makes a key in the file that --key names, and cosigns nothing")
        _make_key(name, key, new_witness_key)
        return
    if checkpoint is None or (key is None) == (add is None):
        cli.refuse("give a CHECKPOINT, and --key to cosign it or --add to add lines that witnesses gave")
    text = cli.read_text(checkpoint)
    lines = cli.read_text(add) if add is not None else _cosignature(text, cli.read_text(key or ""), **kept)
    made = with_cosignatures(text, lines)
    _answer_checkpoint({"checkpoint": made}, made, output, f"to {output}")


def _cosignature(text: str, key: str, verifiers: list[str], kept: str | None, growth: Path | None) -> str:
    """Return a witness's line, once the log's signature and its growth were checked."""
    from trails.integrity.proofs import ConsistencyProof, read_proof
    from trails.integrity.signed_notes import open_checkpoint
    from trails.integrity.witnesses import cosign

    if (kept is None) != (growth is None):
        cli.refuse("--kept and --growth go together: a proof of growth is since a checkpoint")
    state = open_checkpoint(text, verifiers)
    if kept is not None and growth is not None:
        proof = read_proof(read_whole(growth))
        if not isinstance(proof, ConsistencyProof) or proof.verify(kept, verifiers) != state:
            cli.refuse(f"{growth} is no proof that the log grew to this checkpoint")
    return cosign(text, key, datetime.now(UTC))


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


@cli.command("request", group=timestamp, store=False)
@click.argument("checkpoint", type=cli.EXISTING_FILE)
@cli.option(
    "-o --output",
    "The file to write, which may not be there yet.",
    type=cli.NEW_FILE,
    required=True,
    callback=_new_file,
)
def request(*, checkpoint: Path, output: Path) -> None:
    """Write a request for a time stamp of a checkpoint.

    It holds the checkpoint's SHA-256 and a random number, and nothing else of it.
    """
    from trails.integrity.witnesses import timestamp_request

    files.write_new(output, timestamp_request(_note(checkpoint)), public=True)
    said = f"wrote the request to {one_line(str(output))}: send it to a time-stamp authority"
    cli.answer({"request": str(output)}, None, said=said)


@cli.command("add", group=timestamp, store=False)
@click.argument("checkpoint", type=cli.EXISTING_FILE)
@click.argument("response", type=cli.EXISTING_FILE)
@cli.option("--request FILE", "The request that was sent.", name="asked", type=cli.EXISTING_FILE, required=True)
@authority_option
@cli.option("-o --output", "The file to keep the response in; default: CHECKPOINT.tsr.", type=cli.NEW_FILE)
def add(*, checkpoint: Path, response: Path, asked: Path, authorities: list[str], output: Path | None) -> None:
    """Check an authority's response, and keep it beside the checkpoint.

    It must grant what was asked, for this checkpoint and with this request's random number. Who signed it is checked with
    --tsa-cert, and else not before it is used.
    """
    from trails.integrity.witnesses import check_timestamp_answer, read_timestamp

    kept = output or checkpoint.with_name(f"{checkpoint.name}.tsr")
    refuse_existing(kept)
    note, data = _note(checkpoint), read_whole(response)
    check_timestamp_answer(note, read_whole(asked), data)
    stamp = read_timestamp(note, data, authorities) if authorities else None
    files.write_new(kept, data, public=True)
    by = "nobody's signature was checked" if stamp is None else f"there by {stamp.time.isoformat()}"
    value = {"timestamp": str(kept), "timestamped": stamp}
    cli.answer(value, None, said=f"kept the response in {one_line(str(kept))}: {by}")


def _note(path: Path) -> bytes:
    """Return the bytes of a checkpoint; raise `IntegrityError` if the file holds none."""
    from trails.integrity.signed_notes import claimed_checkpoint

    data = read_whole(path)
    claimed_checkpoint(cli.decoded(data, str(path)))
    return data


# --- principals


@cli.command("sign")
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option("--key FILE", "The file of the principal's secret key.", type=cli.NEW_FILE, required=True)
@cli.option("--new-key PRINCIPAL", "Make the key instead, for this principal.", name="principal")
def sign(*, session: str | None, key: Path, principal: str | None) -> None:
    """Sign a session's head, and so all its turns, as a principal.

    The signature is stored beside the session, and goes with it into exports. `trails verify` checks all signatures and,
    where there are any, lists the turns that nobody signed; `trails verify --signers KEY` asks for those of principals whose
    keys you know. A head that the key signed before is not signed again.

    `trails proof sign --new-key PRINCIPAL --key FILE` makes the key first: the secret one in FILE, the public one in FILE.pub and
    on stdout.
    """
    from trails.integrity.signed_notes import new_principal_key
    from trails.model import validation

    if (principal is None) == (session is None):
        cli.refuse("name the SESSION to sign, or make a key with --new-key PRINCIPAL")
    if principal is not None:
        _make_key(validation.name(principal, "principal"), key, new_principal_key)
        return
    if not key.is_file():
        cli.refuse(f"there is no key at {key}; make one with `trails proof sign --new-key PRINCIPAL --key {key}`")
    with cli.open_store() as store:
        made = store.load(store.resolve(session or "")).sign(cli.read_text(key).strip())
    said = f"{one_line(made.principal)} signed {one_line(made.session_id)} through turn {made.index}"
    cli.answer(made, None, said=said)
