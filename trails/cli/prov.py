"""Commands that write PROV, and that keep PROV documents of others: prov, documents, delete-document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from trails import files, iris
from trails.cli.base import (
    NEW_FILE,
    answer,
    by_option,
    command,
    confirmed,
    end,
    first_of,
    json_option,
    left_out,
    limit_option,
    note,
    open_store,
    refuse,
    yes_option,
)
from trails.cli.terminal import clean, count, escaping, one_line
from trails.errors import TrailsError

if TYPE_CHECKING:
    from trails.records.documents import ImportedDocument

FORMATS = ("provn", "json", "jsonld", "xml", "turtle", "trig")
PICTURES = ("svg", "png", "mermaid")


@command("prov", pager=True)
@click.argument("session", metavar="[SESSION|TURN|DOCUMENT]", required=False)
@click.option("--all", "whole", is_flag=True, help="Write everything that is stored.")
@click.option("--format", "format_", type=click.Choice(FORMATS + PICTURES), required=True, help="The format to write.")
@click.option("--turn", metavar="INDEX", type=int, help="Only this turn of SESSION, counted from 0.")
@click.option("--forks", is_flag=True, help="With svg, png and mermaid: draw the tree of forks, without turns.")
@click.option("--recorded-only", is_flag=True, help="Leave out what is only derived by a rule.")
@click.option("-o", "--output", type=NEW_FILE, help="The file to write; default: stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@json_option
def write_prov(
    *,
    session: str | None,
    whole: bool,
    format_: str,
    turn: int | None,
    forks: bool,
    recorded_only: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write what is stored as a W3C PROV document, or draw it.

    Of SESSION (an id, an IRI or a label) with its ancestors as far as it inherits them, of a TURN (its IRI), or with
    --all of the whole store. Each session's turns are a bundle. Each statement says what it rests on: recorded, imported,
    or derived by a rule. Texts stay in the store: `trails export` writes sessions whole. The formats svg, png and mermaid
    are pictures of at most 200 nodes. A DOCUMENT of somebody else's (its IRI; `trails documents` lists them) is written
    as what it says, in any of the other formats.
    """
    from functools import partial

    from trails.prov.exporting import draw, export

    if whole == (session is not None):
        refuse("name a session or a turn, or give --all")
    if as_json and output is None:
        refuse("--json says what was written where, and stdout is for the data: give -o FILE too")
    if output is not None and output.exists() and not force:
        refuse(f"{output} is there already; give --force to replace it, or name another file")
    if forks and format_ not in PICTURES:
        refuse("--forks goes with the formats svg, png and mermaid")
    is_document = session is not None and session.startswith(iris.document(""))
    if is_document and (format_ in PICTURES or turn is not None or recorded_only):
        refuse("a PROV document of somebody else's is written as it is, and no picture is drawn of it")
    with open_store(reading=True, recorded=True) as store:
        if format_ in PICTURES:
            drawn = draw(store, format=format_, session=session, turn=turn, forks=forks, recorded_only=recorded_only)
            write: Callable[[BinaryIO], object] = partial(_put, drawn)
        else:
            write = partial(export, store, format=format_, session=session, turn=turn, recorded_only=recorded_only)
        if output is None:
            plain = format_ in ("xml", *PICTURES)  # these hold nothing that steers a terminal, and are not text alone
            write(sys.stdout.buffer if plain else escaping(sys.stdout.buffer))
            return
        files.write_whole(output, write)
    value = {"format": format_, "output": str(output), "bytes": output.stat().st_size}
    answer(value, None, click.echo, said=f"wrote {one_line(str(output))}", as_json=as_json)


def _put(data: bytes, out: BinaryIO) -> None:
    out.write(data)


# --- PROV documents of others


def import_documents(paths: tuple[Path, ...], format_: str, *, create: bool, keep_invalid: bool, as_json: bool) -> None:
    """Bring PROV documents in: `trails import --format prov`, or prov-FORMAT."""
    from trails.prov import import_document
    from trails.prov.reading import FORMATS as READABLE

    chosen = format_.partition("-")[2] or None
    if chosen is not None and chosen not in READABLE:
        refuse(
            f"{format_!r} is no format of PROV documents; there are prov and: {', '.join(f'prov-{each}' for each in READABLE)}"
        )
    with open_store(create=create) as store:
        found = []
        for path in paths:
            try:
                found.append(import_document(store, path, format=chosen, keep_invalid=keep_invalid))
            except TrailsError:
                if found:  # what came in before the failing file is there
                    answer({"documents": list(map(_plain, found))}, found, _draw, as_json=as_json)
                raise
    answer({"documents": list(map(_plain, found))}, found, _draw, as_json=as_json)


@command("documents", pager=True)
@limit_option(None, most=1_000_000)
@json_option
def list_documents(*, limit: int | None, as_json: bool) -> None:
    """List the PROV documents of others, the oldest first.

    `trails import --format prov FILE` brings one in, `trails prov DOCUMENT` writes it again.
    """
    from trails.prov import documents

    with open_store(reading=True) as store:
        found, more = first_of(documents(store), limit)
    value, said = {"documents": list(map(_plain, found)), "more": more}, left_out(len(found), more)
    empty = "there are no PROV documents of others"
    answer(value, found, _draw, empty=empty, said=said, as_json=as_json)


@command("delete-document")
@click.argument("document", metavar="DOCUMENT")
@click.option("--reason", help="Why; it stays on record.")
@by_option
@yes_option
@json_option
def delete_document(*, document: str, reason: str | None, yes: bool, as_json: bool) -> None:
    """Delete a PROV document of somebody else's.

    That it was there, who deleted it and when stays on record. DOCUMENT is its IRI, its SHA-256 or the beginning of that, or
    its file's name. It asks first on a terminal; elsewhere it needs --yes.
    """
    from trails.prov import delete_document as delete

    with open_store() as store:
        if not yes and not confirmed(f"Delete the PROV document {document}?", "deleting"):
            note("nothing was deleted")
            end(1)
        found = delete(store, document, reason=reason)
    answer({"document": _plain(found)}, None, click.echo, said=f"deleted {found.iri}", as_json=as_json)


def _plain(document: ImportedDocument) -> dict[str, Any]:
    shown = document.model_dump(mode="json", exclude={"digest", "leaf_salt", "by_iri"})
    return {"iri": document.iri, **shown, "by": iris.author_name(document.by_iri)}


def _draw(found: Sequence[ImportedDocument]) -> None:
    for each in found:
        verdict = "valid" if each.valid else f"not valid ({', '.join(each.broken)})"
        by = f"{clean(iris.author_name(each.by_iri))}, {each.time:%Y-%m-%d %H:%M}"
        click.echo(f"{each.iri}")
        click.echo(
            f"  {one_line(each.name or '-')}, {each.format}, {count(each.statements, 'statement')}, {verdict}; by {by}"
        )
