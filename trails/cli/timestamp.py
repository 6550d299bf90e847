"""The commands that let a time-stamp authority say when a checkpoint was there: timestamp request, timestamp add."""

from __future__ import annotations

from pathlib import Path

import click

from trails import files
from trails.cli.base import EXISTING_FILE, NEW_FILE, answer, decoded, json_option
from trails.cli.checkpoint import authority_option, refuse_existing
from trails.cli.terminal import one_line
from trails.files import read_whole


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
    from trails.integrity.timestamps import request as made

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
    from trails.integrity.timestamps import check_answer, stamped

    kept = output or checkpoint.with_name(f"{checkpoint.name}.tsr")
    refuse_existing(kept)
    note, data = _note(checkpoint), read_whole(response)
    check_answer(note, read_whole(asked), data)
    found = stamped(note, data, authorities) if authorities else None
    files.write_new(kept, data, public=True)
    value = {"timestamp": str(kept), "timestamped": None if found is None else found.to_dict()}
    by = "nobody's signature was checked" if found is None else f"there by {found.time.isoformat()}"
    answer(value, None, click.echo, said=f"kept the response in {one_line(str(kept))}: {by}", as_json=as_json)


def _note(path: Path) -> bytes:
    """Return the bytes of a checkpoint; raise IntegrityError where the file holds none."""
    from trails.integrity.note import claimed_checkpoint

    data = read_whole(path)
    claimed_checkpoint(decoded(data, str(path)))
    return data
