"""Commands that import and export transcripts and PROV."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

import trails
from trails import files
from trails.cli import options as cli
from trails.cli.terminal import escaping
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.errors import InvalidInput, TrailsError
from trails.model import iris

if TYPE_CHECKING:
    from trails.display.progress import Progress
    from trails.exchange.exporters.session_family import SessionExport
    from trails.exchange.openclaw.openclaw_export import ExportReport
    from trails.exchange.source_transcript import FileProblem, ImportReport, LeftOut
    from trails.rdf.activity_records import ImportedDocument

FORMATS = ("provn", "json", "jsonld", "xml", "turtle", "trig")
PICTURES = ("svg", "png", "mermaid")


@cli.command("prov", pager=True)
@click.argument("session", metavar="[SESSION|TURN|DOCUMENT]", required=False)
@cli.option("--all", "Write everything that is stored.", name="whole")
@cli.option("--format", "The format to write.", name="format_", type=click.Choice(FORMATS + PICTURES), required=True)
@cli.option("--turn INDEX", "Only this turn of SESSION, counted from 0.", type=int)
@cli.option("--forks", "With svg, png and mermaid: draw the tree of forks, without turns.")
@cli.option("--recorded-only", "Leave out what is only derived by a rule.")
@cli.option("-o --output", "The file to write; default: stdout.", type=cli.NEW_FILE)
@cli.option("--force", "Replace the file if it is there.")
def write_prov(*, session: str | None, whole: bool, format_: str, output: Path | None, force: bool, **how: Any) -> None:
    """Write what is stored as a W3C PROV document, or draw it.

    Of SESSION (an id, an IRI or a label) with its ancestors as far as it inherits them, of a TURN (its IRI), or with
    --all of the whole store. Each session's turns are a bundle. Each statement says what it rests on: recorded, imported,
    or derived by a rule. Texts stay in the store: `trails export` writes sessions whole. The formats svg, png and mermaid
    are pictures of at most 200 nodes. A DOCUMENT of somebody else's (its IRI; `trails documents` lists them) is written
    as what it says, in any of the other formats.
    """
    from trails.provenance.session_export import draw, export

    if whole == (session is not None):
        cli.refuse("name a session or a turn, or give --all")
    if cli.as_json() and output is None:
        cli.refuse("--json says what was written where, and stdout is for the data: give -o FILE too")
    cli.refuse_replacing(output, force=force)
    is_picture = format_ in PICTURES
    if (forks := how.pop("forks")) and not is_picture:
        cli.refuse("--forks goes with the formats svg, png and mermaid")
    is_document = session is not None and session.startswith(iris.document(""))
    if is_document and (is_picture or how["turn"] is not None or how["recorded_only"]):
        cli.refuse("a PROV document of somebody else's is written as it is, and no picture is drawn of it")
    with cli.open_store(reading=True, recorded=True) as store:

        def write(out: BinaryIO) -> None:
            if is_picture:
                out.write(draw(store, format=format_, session=session, forks=forks, **how))
                return
            export(store, out, format=format_, session=session, **how)

        if output is None:
            plain = is_picture or format_ == "xml"  # these hold nothing that steers a terminal, and are not text alone
            write(sys.stdout.buffer if plain else escaping(sys.stdout.buffer))
            return
        files.write_whole(output, write)
    value = {"format": format_, "output": str(output), "bytes": output.stat().st_size}
    cli.answer(value, None, said=f"wrote {one_line(str(output))}")


# --- PROV documents of others


def import_documents(paths: tuple[Path, ...], format_: str, *, create: bool, keep_invalid: bool) -> None:
    """Bring PROV documents in: `trails import --format prov`, or prov-FORMAT."""
    from trails.provenance import import_document
    from trails.provenance.serializations import READ_FORMATS as READABLE

    chosen = format_.partition("-")[2] or None
    if chosen is not None and chosen not in READABLE:
        cli.refuse(
            f"{format_!r} is no format of PROV documents; there are prov and: {', '.join(f'prov-{each}' for each in READABLE)}"
        )
    found: list[ImportedDocument] = []
    try:
        with cli.open_store(create=create) as store:
            found.extend(import_document(store, path, format=chosen, keep_invalid=keep_invalid) for path in paths)
    finally:
        if found:  # also what came in before a failing file
            cli.answer({"documents": list(map(_plain, found))}, map(_described, found))


@cli.command("documents", pager=True, limit=True)
def list_documents() -> None:
    """List the PROV documents of others, the oldest first.

    `trails import --format prov FILE` brings one in, `trails prov DOCUMENT` writes it again.
    """
    from trails.provenance import documents

    with cli.open_store(reading=True) as store:
        every = documents(store)
    empty = "there are no PROV documents of others"
    cli.answer_list("documents", every, lambda found: cli.echo_each(map(_described, found)), empty, describe=_plain)


@cli.command("delete-document", by=True, reason=True, yes=True)
@click.argument("document", metavar="DOCUMENT")
def delete_document(*, document: str, reason: str | None, yes: bool) -> None:
    """Delete a PROV document of somebody else's.

    That it was there, who deleted it and when stays on record. DOCUMENT is its IRI, its SHA-256 or the beginning of that, or
    its file's name. It asks first on a terminal; elsewhere it needs --yes.
    """
    from trails.provenance import delete_document as delete

    with cli.open_store() as store:
        if not yes:
            cli.confirm(f"Delete the PROV document {document}?", "deleting", "nothing was deleted")
        found = delete(store, document, reason=reason)
    cli.answer({"document": _plain(found)}, None, said=f"deleted {found.iri}")


def _plain(document: ImportedDocument) -> dict[str, Any]:
    shown = document.model_dump(mode="json", exclude={"digest", "leaf_salt", "by_iri"})
    return {"iri": document.iri, **shown, "by": iris.author_name(document.by_iri)}


def _described(document: ImportedDocument) -> str:
    verdict = "valid" if document.valid else f"not valid ({', '.join(document.broken)})"
    facts = f"{one_line(document.name or '-')}, {document.format}, {count(document.statements, 'statement')}, {verdict}"
    by = f"{clean(iris.author_name(document.by_iri))}, {document.time:%Y-%m-%d %H:%M}"
    return f"{document.iri}\n  {facts}; by {by}"


# --- transcripts

_SOURCES = click.Path(exists=True, allow_dash=True, path_type=Path)
_STDIN = Path("-")
_SHOWN_PROBLEMS: Final = 20
_SHOWN_SESSIONS: Final = 20
"""How many sessions of a file are listed."""
_VERIFIER = "verify_export.py"


@cli.command("import", by=True)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=_SOURCES)
@cli.option(
    "--format NAME",
    "claude-code, pi, codex, copilot-cli, gemini-cli, chatgpt, swe-agent, mini-swe-agent, inspect, atif, langfuse, "
    "langsmith, mlflow, otel, cline, goose, opencode, messages, openclaw, nquads or trig; told from the files' content unless "
    "given. "
    "ro-crate is a folder, a zip or a metadata file: the sessions of a pack, the provenance of another crate. "
    "prov is a PROV document of somebody else's; prov-FORMAT, as in prov-json, where the file's name "
    "does not say which.",
    name="format_",
    type=cli.Named("import-format"),
)
@cli.option("--restore", "Let exported sessions come back that were deleted here.")
@cli.option("--redact-secrets", "Put a mark in the place of each key, token and password.")
@cli.option("--final", "Take the last message of a file as it stands.")
@cli.option(
    "--growing",
    "Leave the last message of a file out unless the file says that it is whole. Default: so if the file was written "
    "to in the last ten minutes.",
)
@cli.option("--allow-outside", "Read transcripts that a folder of OpenClaw names and that lie outside of it.")
@cli.option("--keep-invalid", "With prov: keep a document that breaks PROV's constraints, and say so.")
@cli.option("-v --verbose", "A line a file, and all that there is to say of them.")
@cli.option("--create", "Create the store if it is not there.")
def import_files(
    *,
    paths: tuple[Path, ...],
    format_: str | None,
    create: bool,
    final: bool,
    growing: bool,
    keep_invalid: bool,
    verbose: bool,
    **how: bool | None,
) -> None:
    """Import transcripts from files and folders.

    A folder stands for all files below it, and - for standard input; a state folder of OpenClaw comes with its keys and
    runs. Importing the same again adds nothing; a file that grew goes on where it ended. Each session says who imported
    it, when, and from which file (`trails query imported-sessions`). A line sums it up. Lines that cannot be used are reported
    on stderr and the exit code stays 0; it is 1 where nothing at all could be imported. Keys, tokens and passwords in what
    comes in are named by kind, session and turn, and never shown; --redact-secrets takes them out before anything is stored.
    """
    from trails.exchange.source_transcript import ImportReport

    if format_ is not None and (format_ == "ro-crate" or format_.partition("-")[0] == "prov"):
        _import_of_others(paths, format_, create=create, keep_invalid=keep_invalid, final=final or growing, **how)
        return
    if keep_invalid:
        cli.refuse("--keep-invalid goes with --format prov and ro-crate")
    if final and growing:
        cli.refuse("--final and --growing exclude each other; give one, or neither")
    how["final"] = final if final or growing else None
    report = ImportReport()
    with cli.open_store(create=create) as store:

        def tell() -> None:
            files = _by_file(store, report) if verbose and not cli.as_json() else None
            cli.answer(report, report, partial(_draw, files=files))

        try:
            with cli.view.progress("importing") as progress:
                for number, path in enumerate(paths):
                    moves = None if progress is None else _moves(progress, number, len(paths))
                    report.add(_import_one(store, path, format_, progress=moves, **how))
        except TrailsError as error:
            if _recognised(report):
                tell()  # what came in before the failing path is there
            if isinstance(error, InvalidInput) and (path == _STDIN or path.is_file()):
                raise click.ClickException(str(error)) from error  # the command line is right, the file cannot be read
            raise
        tell()
    if not _recognised(report):
        cli.note("nothing could be imported")
        cli.end(1)


def _import_of_others(
    paths: tuple[Path, ...], format_: str, *, create: bool, keep_invalid: bool, final: bool, **how: bool | None
) -> None:
    """Bring in PROV documents or RO-Crates; of the options for transcripts, crates take those that an export takes."""
    if format_ != "ro-crate":
        if final or any(how.values()):
            cli.refuse("with PROV documents go --keep-invalid, --create and --by alone")
        import_documents(paths, format_, create=create, keep_invalid=keep_invalid)
        return
    if final or how.pop("allow_outside"):
        cli.refuse("with an RO-Crate go --restore, --redact-secrets, --keep-invalid, --create and --by alone")
    _import_crates(
        paths, create=create, keep_invalid=keep_invalid, **{name: bool(value) for name, value in how.items()}
    )


def _import_crates(paths: tuple[Path, ...], *, create: bool, keep_invalid: bool, **how: bool) -> None:
    """Bring crates in, and say of each what came of it."""
    from trails.exchange.crate_import import import_crate
    from trails.exchange.source_transcript import ImportReport

    report, left_out = ImportReport(), Counter[str]()
    found: list[ImportedDocument] = []
    try:
        with cli.open_store(create=create) as store:
            for path in paths:
                came = import_crate(store, path, keep_invalid=keep_invalid, **how)
                left_out.update(came.left_out)
                found += [] if came.document is None else [came.document]
                if came.sessions is not None:
                    report.add(came.sessions)
    finally:
        if found or _recognised(report):  # also what came in before a failing crate
            value = {"sessions": report, "documents": list(map(_plain, found)), "left_out": dict(left_out)}
            lines = [*map(_described, found), *(f"  left out: {what}, {number}" for what, number in left_out.items())]
            cli.answer(value, lines)
            if _recognised(report) and not cli.as_json():
                _draw(report, None)
    if not (found or _recognised(report)):
        cli.note("nothing could be imported")
        cli.end(1)


def _moves(progress: Progress, number: int, paths: int) -> Progress:
    """Return what moves the bar while one path is imported: by files, or by paths where several were given."""

    def move(done: int, total: int, what: str) -> None:
        progress(*((done, total) if paths == 1 else (number + (done == total), paths)), Path(what).name)

    return move


def _import_one(
    store: trails.Repository, path: Path, format_: str | None, *, progress: Progress | None, **how: Any
) -> ImportReport:
    from trails.exchange.file_import import import_bytes, import_path

    if path == _STDIN:
        if how.pop("allow_outside"):
            cli.refuse("--allow-outside goes with a folder, not with standard input")
        how["final"] = how["final"] is not False
        return import_bytes(store, sys.stdin.buffer.read(), format=format_, **how)
    return import_path(store, path, format=format_, progress=progress, **how)


def _recognised(report: ImportReport) -> bool:
    return any(
        (report.sessions_created, report.forks_created, report.grown, report.unchanged, report.changed, report.deleted)
    )


_TITLES: Final = {
    "sessions_created": "new",
    "forks_created": "forked",
    "grown": "grown",
    "changed": "changed",
    "unchanged": "unchanged",
    "deleted": "deleted here",
}


def _draw(report: ImportReport, files: Mapping[str, Sequence[str]] | None) -> None:
    """Print what came in: a line; with the sessions of each of the `files`, a line a file before it, and all remarks."""
    from trails.secrets import shown_id

    for name, session_ids in ({} if files is None else files).items():
        became = {each: title for field, title in _TITLES.items() for each in getattr(report, field)}
        shown = [f"{became[each]} {shown_id(each)}" for each in session_ids[:_SHOWN_SESSIONS]]
        more = len(session_ids) - len(shown)
        click.echo(one_line(f"{name or '-'}: {', '.join(shown)}{f' and {more:,} more' if more else ''}"))
    _draw_remarks(report, is_whole=files is not None)
    click.echo(_summary(report, is_whole=files is not None))


def _by_file(store: trails.Repository, report: ImportReport) -> dict[str, list[str]]:
    """Return the sessions that a report names by the file that they came from last."""
    named = {each for field in _TITLES for each in getattr(report, field)}
    rows = store.select("imported-sessions").to_dicts() if named else []
    files = {each: str(row["name"] or "") for row in rows if (each := iris.session_id(row["session"])) in named}
    found: dict[str, list[str]] = {}
    for each in sorted(named):
        found.setdefault(files.get(each, ""), []).append(each)
    return dict(sorted(found.items()))


def _summary(report: ImportReport, *, is_whole: bool) -> str:
    """Return in a line what was imported, what became of the sessions, and what there is to tell."""
    sessions = sum(len(getattr(report, name)) for name in _TITLES)
    came = f"{count(report.turns_added, 'turn')} from {count(report.files, 'file')}"
    if report.scores_added:
        came += f", {count(report.scores_added, 'score')}"
    parts = [f"{len(getattr(report, name)):,} {title}" for name, title in _TITLES.items() if getattr(report, name)]
    became = f" ({', '.join(parts)})" if parts else ""
    remarks = (
        (report.turns_held, "turn", "kept back, since a file may still be written to"),
        (len(report.problems), "problem", ""),
        (len(report.notes), "note", ""),
        (sum(row.count for row in report.left_out if row.is_prose), "text", "kept nowhere"),
        (len(report.secrets), "secret", ""),
    )
    told = ", ".join(f"{count(number, noun)} {why}".rstrip() for number, noun, why in remarks if number)
    where = "" if is_whole or not told else " (-v lists all)"
    return f"imported {came}: {count(sessions, 'session')}{became}{f'; {told}{where}' if told else ''}"


def _draw_remarks(report: ImportReport, *, is_whole: bool) -> None:
    from trails.cli.commands.sessions import described

    if report.deleted:
        cli.note("sessions that were deleted here are not imported again; --restore brings exported ones back")
    cli.note_each("secret", [described(each) for each in report.secrets])
    if stored := sum(not found.redacted for found in report.secrets):
        cli.note(
            f"{count(stored, 'secret')} in the store as {'it is' if stored == 1 else 'they are'}; --redact-secrets on a first "
            "import takes them out, `trails redact` does for turns that are there"
        )
    if is_whole:
        cli.note_each("note", report.notes)
        _draw_left_out(report.left_out)
    for problem in report.problems[: None if is_whole else _SHOWN_PROBLEMS]:
        cli.note(_problem(problem))
    if (more := len(report.problems) - _SHOWN_PROBLEMS) > 0 and not is_whole:
        cli.note(f"{count(more, 'more problem')}; -v lists them all")


def _problem(problem: FileProblem) -> str:
    place = f"{problem.file}, line {problem.line}" if problem.line else problem.file
    text = f": {shorten(problem.text, 60)}" if problem.text else ""
    return f"{place}: {problem.reason}{text}"


def _draw_left_out(rows: Sequence[LeftOut]) -> None:
    """Print the places whose texts no session keeps; those with ids and times alone are listed by --json."""
    from trails.exchange.text_coverage import REFUSED_REASON

    places: dict[tuple[str, str], list[LeftOut]] = {}
    for row in rows:
        if row.is_prose and row.reason != REFUSED_REASON:
            places.setdefault((row.place, row.reason), []).append(row)
    for (place, reason), same in list(places.items())[:_SHOWN_PROBLEMS]:
        first = f"{same[0].file}, line {same[0].line}" if same[0].line else same[0].file
        more = f" and {count(len(same) - 1, 'more file')}" if len(same) > 1 else ""
        texts = count(sum(row.count for row in same), "text")
        cli.note(f"not kept: {texts} at {one_line(place)} ({one_line(first)}{more}): {reason}")
    if len(places) > _SHOWN_PROBLEMS:
        cli.note(f"not kept: texts at {len(places) - _SHOWN_PROBLEMS} more places; --json lists them all")


@cli.command("export", as_of=True)
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option(
    "--format NAME",
    "nquads, trig or pi; html, a page to read; messages, lines to tune a model on; inspect; atif; agent-trace; or the folders "
    "parquet and openclaw.",
    name="format_",
    required=True,
    type=cli.Named("export-format"),
)
@cli.option("-o --output", "The file to write (default, and -: stdout), or folder.", type=click.Path(path_type=Path))
@cli.option("--agent NAME", "For openclaw: this agent only; may be repeated.", name="agents", multiple=True)
@cli.option("--forks", "With all forks of the session, theirs too.")
@cli.option("--force", "Replace the file if it is there, or the files in the folder.")
@cli.option("--with-verifier", f"For nquads: write {_VERIFIER} beside the file, which checks it without Trails.")
@cli.recipients_option
def export(
    *,
    session: str | None,
    format_: str,
    output: Path | None,
    agents: tuple[str, ...],
    with_verifier: bool,
    recipients: tuple[str, ...],
    **how: bool,
) -> None:
    """Write a session to a file or stdout.

    SESSION is an id, an IRI or a label; the ancestors that its transcript needs are written too. A file appears only
    once it is whole. On stdout, control characters and direction marks are escaped, and mean the same; a file holds
    them as they are. What a format cannot say is named on stderr. With --format openclaw no session is named: all
    sessions by key are written as a state folder, with their transcripts and the sub-agents' runs. With --format
    parquet none need be: all are written then.

    `python3 verify_export.py FILE` checks the digests of an export in N-Quads: it needs Python 3.9 and nothing else.
    """
    from trails.exchange.file_import import export_session

    cli.check_options(
        (
            with_verifier and (format_ != "nquads" or output is None),
            "--with-verifier goes with --format nquads and -o FILE",
        ),
        (format_ == "openclaw" and how["forks"], "--forks goes with a session; openclaw is all sessions by key"),
        (bool(agents) and format_ != "openclaw", "--agent goes with --format openclaw only"),
        (session is None and format_ not in ("openclaw", "parquet", "html"), "Missing argument 'SESSION'."),
        (
            bool(recipients) and (format_ in ("openclaw", "parquet") or session is None),
            "--recipient goes with a format that is one file",
        ),
        (bool(recipients) and cli.is_as_of(), "--recipient is kept on record, and --as-of only reads"),
    )
    if format_ == "openclaw":
        _export_folder(session, output, agents, force=how["force"])
        return
    if format_ == "parquet":
        _export_tables(session, output, **how)
        return
    output = None if output == Path("-") else output
    if session is None:
        _export_pages(output, **how)
        return
    if cli.as_json() and output is None:
        cli.refuse("--json says what was written where, and stdout is for the data: give -o FILE too")
    if output is not None:
        _export_file(session, format_, output, with_verifier=with_verifier, recipients=recipients, **how)
        return
    with cli.open_store(reading=not recipients, recorded=True) as store:
        session_id, out = store.resolve(session), escaping(sys.stdout.buffer)
        report = export_session(store, session_id, format_, out, forks=how["forks"], recipients=recipients)
    _note_left_out(report)


def _export_file(
    session: str,
    format_: str,
    output: Path,
    *,
    forks: bool,
    force: bool,
    with_verifier: bool,
    recipients: tuple[str, ...],
) -> None:
    from trails.exchange.file_import import export_session
    from trails.integrity.verifier.joined import standalone_verifier

    if output.is_dir():
        cli.refuse(f"{output} is a folder; name a file")
    beside, verifier = output.with_name(_VERIFIER), standalone_verifier() if with_verifier else b""
    cli.refuse_replacing(output, force=force)
    if with_verifier and not (beside.is_file() and beside.read_bytes() == verifier):
        cli.refuse_replacing(beside, force=force)
    cli.refuse_in_store(output)
    with cli.open_store(reading=not recipients, recorded=True) as store:
        session_id = store.resolve(session)
        written: list[SessionExport] = []
        files.write_whole(
            output,
            lambda out: written.append(
                export_session(store, session_id, format_, out, forks=forks, recipients=recipients)
            ),
        )
    (report,) = written
    value = {"session": session_id, **report.to_dict(), "output": str(output)}
    checks = ""
    if with_verifier:
        files.write_whole(beside, lambda out: out.write(verifier))
        value["verifier"] = str(beside)
        checks = f", and what checks it to {beside}"
    cli.answer(value, None)
    others = f" and {count(len(report.sessions) - 1, 'fork')}" if len(report.sessions) > 1 else ""
    cli.note(f"wrote {session_id}{others} to {output}{checks}")
    _note_left_out(report)


def _note_left_out(report: SessionExport) -> None:
    for text in report.left_out:
        cli.note(f"left out: {text}")


def _export_tables(session: str | None, output: Path | None, *, forks: bool, force: bool) -> None:
    from trails.exchange.exporters.parquet_export import export_tables

    if output is None:
        cli.refuse("parquet is a folder of tables: name it with -o FOLDER")
    if session is None and forks:
        cli.refuse("without a session all of them are written, forks too: leave --forks out")
    cli.refuse_in_store(output)
    with cli.open_store(reading=True, recorded=True) as store:
        report = export_tables(store, output, session, forks=forks, force=force)
    cli.answer({**report.to_dict(), "output": str(output)}, None)
    cli.note(f"wrote {count(len(report.sessions), 'session')} with {count(report.turns, 'turn')} to {output}")
    _note_left_out(report)


def _export_pages(output: Path | None, *, forks: bool, force: bool) -> None:
    from trails.exchange.exporters.html_folder import export_pages

    if output is None:
        cli.refuse("without a session all of them are written, to a folder of pages: name it with -o FOLDER")
    if forks or force:
        cli.refuse(
            "without a session all of them are written, forks too, and nothing is replaced: leave --forks and --force out"
        )
    cli.refuse_in_store(output)
    with cli.open_store(reading=True, recorded=True) as store:
        report = export_pages(store, output, progress=not cli.as_json())
    cli.answer({**report.to_dict(), "output": str(output)}, None)
    cli.note(
        f"wrote {count(len(report.sessions), 'session')} with {count(report.turns, 'turn')} to {output}: open index.html there"
    )
    _note_left_out(report)


def _export_folder(session: str | None, output: Path | None, agents: tuple[str, ...], *, force: bool) -> None:
    from trails.exchange.openclaw.openclaw_export import export_folder

    if session is not None:
        cli.refuse("openclaw is a whole folder: name no session; --agent chooses agents")
    if output is None:
        cli.refuse("openclaw is a whole folder: name it with -o FOLDER")
    cli.refuse_in_store(output)
    with cli.open_store(reading=True, recorded=True) as store, files.private_folders():
        report = export_folder(store, output, agents=agents or None, force=force)
    cli.answer(report, report, lambda report: _draw_export(report, output))


def _draw_export(report: ExportReport, output: Path) -> None:
    what = ((report.entries, "key"), (report.transcripts, "transcript"), (report.runs, "run"))
    click.echo(
        f"wrote {', '.join(count(*each) for each in what)} of {count(len(report.agents), 'agent')} to {one_line(str(output))}"
    )
    for name in report.agents:
        click.echo(f"  {one_line(name)}")
    cli.note_each("note", report.notes)
