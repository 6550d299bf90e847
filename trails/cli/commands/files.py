"""Commands on the files that a session's turns worked on: files, checkout, and blame of lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import clean, count
from trails.errors import InvalidInput

if TYPE_CHECKING:
    from trails.session.file_blame import LineBlame


@cli.command("files", pager=True, as_of=True, limit=True)
@click.argument("ref", metavar="REF")
@click.argument("path", metavar="[PATH]", required=False)
@cli.option("--history", "List what became of them at each turn.", name="is_history")
@cli.option("-p --patch", "Print what became of them at each turn as patches.", name="is_patch")
def list_files(*, ref: str, path: str | None, is_history: bool, is_patch: bool) -> None:
    """List the files that a session's turns worked on.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it: the files are shown
    as they were then. The column "by" is empty where no turn is known to have done it. PATH is one of the files, as it is
    listed. `trails checkout` writes them.
    """
    from trails.session.work_files import patches

    with cli.open_store(reading=True) as store:
        place = cli.place_of(store, ref)
        session = store.load(place.session_id)
        if is_history or is_patch:
            found = session.files.history(path, place.end)
        else:
            found = [each for each in session.files.list(place.end) if path in (None, each.path)]
        if path is not None and not found:
            raise InvalidInput(
                f"session {place.session_id!r} has no file {path!r} then; without PATH, all that it has are listed"
            )
        texts = patches(session.worktree, found) if is_patch else []
    empty = "there are no such files; `trails append --files` and `trails watch --files` record them"
    if is_patch:
        value = [{**each.to_dict(), "patch": text} for each, text in zip(found, texts, strict=True)]
        cli.answer({"session": place.session_id, "files": value}, "".join(texts).rstrip("\n") or None, empty=empty)
        return
    draw = cli.table("turn,by,mode,bytes,sha256,path", _file_row, fold=("path",), right=("turn", "bytes"))
    cli.answer_list("files", found, draw, empty, session=place.session_id)


def _file_row(change: trails.FileChange) -> tuple[str, ...]:
    kept = "not kept" if change.left_out else "redacted" if change.redacted else (change.after or "")[:8]
    by = "" if change.outside else clean(change.session_id)
    return str(change.index), by, change.mode, "" if change.size is None else str(change.size), kept, change.path


@cli.command("checkout", as_of=True)
@click.argument("ref", metavar="REF")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@cli.option("--partial", "Leave out files whose content is not kept.")
@cli.option("--trusted", "Write names and links, too, that may mean something else elsewhere.")
def check_out(*, ref: str, folder: Path, partial: bool, trusted: bool) -> None:
    """Write the files of a session as they were after a turn.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it: plan@3 is after the
    first three turns. DIR is a new folder, or an empty one. All files are written or none, and nothing is written over.
    """
    with cli.open_store(reading=True) as store:
        place = cli.place_of(store, ref)
        files = store.load(place.session_id).files
        written = files.checkout(folder, place.end, partial=partial, trusted=trusted)
    said = f"wrote {count(written.files, 'file')}"
    if written.missing:
        said += f"; not kept, and not there: {', '.join(map(clean, written.missing))}"
    cli.answer(written, clean(written.folder), said=said)


_LINE = re.compile(r"(.+?)(?::([1-9][0-9]{0,8}))?", re.DOTALL)


def file_asked(
    store: trails.Repository, text: str, session: str | None
) -> tuple[str, int | None, str, int | None] | None:
    """Return the session, how many turns of it, the path and the line that a text for `trails blame` names.

    Without a session, that is the newest with such a file, and None where the text names a session instead. Raises
    `InvalidInput` where it names both.
    """
    parts = _LINE.fullmatch(text)
    path, line = (parts[1], parts[2]) if parts else (text, None)
    path = path.removeprefix("./")
    if session is not None:
        place = cli.place_of(store, session)
        return place.session_id, place.end, path, int(line) if line else None
    owner = _newest_with_file(store, path)
    named = None
    with suppress(trails.TrailsError):
        named = cli.place_of(store, text)
    if owner is None and named is None and re.search(r"[./]|:[0-9]+$", text):
        raise trails.SessionNotFound(
            f"no session has a file {path!r} on record, and none is called {text!r}; `trails files SESSION` lists those it has"
        )
    if owner is None:
        return None
    if named is not None:
        raise InvalidInput(
            f"{text!r} names the session {named.session_id!r} and a file of session {owner!r}: say --session {owner} for the "
            f"file, or give the session as urn:trails:session:{named.session_id}"
        )
    return owner, None, path, int(line) if line else None


def _newest_with_file(store: trails.Repository, path: str) -> str | None:
    """Return the id of the newest session whose files have a path; None where there is none (encrypted ones do not tell)."""
    from pyoxigraph import Literal, NamedNode

    from trails.model import iris
    from trails.rdf import vocab

    named = store.store.quads((None, vocab.PAYLOAD_NAME, Literal(path), None))
    owners = {iris.session_id(quad.graph_name.value) for quad in named if isinstance(quad.graph_name, NamedNode)}
    cursor: str | None = None
    while owners:
        page = store.list(cursor=cursor)
        for record in page:
            chain = store.workspace.reader.lineage(record.id)
            if owners.isdisjoint(each.id for each in chain):
                continue
            if any(each.path == path for each in store.load(record.id).files.list()):
                return record.id
        cursor = page.cursor
        if cursor is None:
            break
    return None


def blame_file(store: trails.Repository, session_id: str, at: int | None, path: str, line: int | None) -> None:
    """Answer which turn wrote the lines of a file, or one of them."""
    lines = store.load(session_id).files.blame(path, at)
    if line is not None:
        if line > len(lines):
            cli.refuse(f"{path!r} has {count(len(lines), 'line')} in session {session_id!r}, so none is number {line}")
        lines = lines[line - 1 : line]
    cli.answer({"session": session_id, "path": path, "lines": lines}, lines, _draw_lines, empty="the file is empty")


def _draw_lines(lines: Sequence[LineBlame]) -> None:
    columns = ["line", "turn", "session", "by", "model", "text"]
    cli.view.print_table(columns, [_line_row(each) for each in lines], fold=("text",), right=("line",))


def _line_row(each: LineBlame) -> tuple[str, ...]:
    if each.index is None:
        return str(each.line), "unknown", "", "", "", each.text
    turn = f"{each.index - each.turns + 1} to {each.index}" if each.turns > 1 else str(each.index)
    return str(each.line), turn, each.session_id or "", each.author or "", each.model or "", each.text
