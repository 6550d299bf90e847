"""The command of witnesses of a checkpoint: cosign."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from trails import files
from trails.cli.base import EXISTING_FILE, NEW_FILE, answer, decoded, json_option, note, refuse
from trails.cli.checkpoint import make_key, note_option, refuse_existing, verifier_option
from trails.files import read_whole


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
    from trails.integrity.note import open_checkpoint
    from trails.integrity.proofs import ConsistencyProof, read_proof
    from trails.integrity.witnesses import cosign, with_cosignatures

    if (kept is None) != (growth is None):
        refuse("--kept and --growth go together: a proof of growth is since a checkpoint")
    state = open_checkpoint(text, verifiers)
    if kept is not None and growth is not None:
        proof = read_proof(read_whole(growth))
        if not isinstance(proof, ConsistencyProof) or proof.verify(kept, verifiers) != state:
            refuse(f"{growth} is no proof that the log grew to this checkpoint")
    return with_cosignatures(text, cosign(text, decoded(read_whole(key), str(key)), datetime.now(UTC)))
