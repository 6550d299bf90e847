"""Commands for auditors: audit and validate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trails import files
from trails.cli import options as cli
from trails.cli.commands.proofs import (
    evidence_options,
    note_option,
    output_option,
    refuse_existing,
    signature_options,
)
from trails.cli.terminal import to_json
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.errors import InvalidInput

if TYPE_CHECKING:
    from trails.audit import CopiedPart, NearCopy, Report
    from trails.audit.audit_diff import AuditDiff
    from trails.integrity.signed_statements import Form
    from trails.provenance import Finding, Validation

_VERDICTS: Final = ("validity", "completeness", "integrity", "findings")
_FAULTS: Final = _VERDICTS[:3]
_FORMATS: Final = ("text", "markdown", "html", "json")


class _Audits(click.Group):
    """A group in which what is no command's name is a session to be reported on."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `report` before arguments that name no command."""
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["report", *args]
        return super().parse_args(ctx, args)


@click.group("audit", cls=_Audits)
def audit() -> None:
    """Report on a session or a store for an auditor.

    `trails audit SESSION` and `trails audit --all` give the report, see `trails audit report --help`.
    """


@cli.command("report", group=audit)
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option("--all", "The whole store.", name="everything")
@cli.option("--format", "How to write it.", name="form", type=click.Choice(_FORMATS), default="text")
@output_option
@cli.option(
    "--fail-on", "Which verdicts make the exit code 1.", name="fatal", type=click.Choice(_VERDICTS), multiple=True
)
@note_option("--checkpoint", "A checkpoint that was kept elsewhere.")
@signature_options
@cli.time_option("--time", "When the audit is said to be made; default: now.")
@cli.option("--key FILE", "The log's secret key, to sign the report with.", type=cli.EXISTING_FILE)
@cli.option("--signed FILE", "Where to write the checkpoint that vouches for the report.", type=cli.NEW_FILE)
def report(
    *,
    session: str | None,
    everything: bool,
    form: str,
    output: Path | None,
    fatal: tuple[str, ...],
    key: Path | None,
    signed: Path | None,
    **how: Any,
) -> None:
    """Say whether a session, or a store, is valid, complete and unaltered.

    SESSION is an id, an IRI or a label; its ancestors belong to it. Four verdicts, each apart: validity (PROV-CONSTRAINTS,
    of the whole store), completeness (gaps, calls without answers, turns that lack a fact), integrity (digests, chain, log,
    and the checkpoint where one is given), and findings: what is worth a look. What was found stands under the name of its
    query; texts stay in the store. The exit code is 1 where one of the first three does not hold, or of those that --fail-on
    names.

    With --key and --signed the log signs a checkpoint that has the report's digest in it: `trails audit check` holds the
    report, as JSON, against it.
    """
    from trails.audit import audit as audited
    from trails.audit.report import report_extension, report_html, report_markdown

    _check_scope(session, everything=everything)
    if (key is None) != (signed is None):
        cli.refuse("--key and --signed go together: the log's key, and the file for what it signs")
    refuse_existing(signed)
    with cli.open_store(reading=True, recorded=True) as store:
        made = audited(store, session, **how)
        if key is not None and signed is not None:
            vouched = store.proofs.checkpoint(cli.read_text(key), [report_extension(made.digest)])
            files.write_new(signed, vouched.encode(), public=True)
            cli.note(f"wrote the checkpoint that vouches for the report to {signed}")
    form = "json" if cli.as_json() else form
    text = (
        to_json(cli.selected(made)) + "\n"
        if form == "json"
        else (report_html if form == "html" else report_markdown)(made)
    )
    if output is not None:
        files.write_new(output, text.encode())
        cli.note(f"wrote the report to {output}")
    elif form == "text":
        _draw(made)
    elif form == "json":
        cli.print_json(made)
    else:
        click.echo(clean(text), nl=False)
    if made.fails(fatal or _FAULTS):
        cli.end(1)


def _check_scope(session: str | None, *, everything: bool) -> None:
    if (session is None) != everything:
        cli.refuse("name a SESSION, or give --all for the whole store")


def _draw(made: Report) -> None:
    from trails.audit import report

    console = cli.view.screen()
    console.print(report.report_title(made), style="bold")
    for line in report.report_facts(made):
        console.print(one_line(line))
    for verdict in made.verdicts:
        console.print()
        console.print(f"{verdict.name}: {report.verdict_word(verdict)}", style="green" if verdict.holds else "bold red")
        console.print(one_line(verdict.said))
        for found in verdict.found:
            console.print(f"{found.query}: {one_line(found.purpose)}", style="bold")
            cli.view.print_table(
                found.columns, [list(map(report.shown_cell, row)) for row in found.rows], fold=found.columns
            )
    console.print("\nThis cannot show:")
    for line in made.cannot_show:
        console.print(f"- {line}")


@cli.command("check", group=audit, store=False)
@click.argument("report", metavar="REPORT|PACK", type=click.Path(exists=True, path_type=Path))
@note_option("--checkpoint", "The checkpoint that vouches for a report; a pack has its own.")
@cli.option("--statement FILE", "The signed statement of the pack (DSSE, or COSE).", type=cli.EXISTING_FILE)
@evidence_options
def check(
    *,
    report: Path,
    checkpoint: str | None,
    statement: Path | None,
    timestamp: bytes | None,
    authorities: list[str],
    **demanded: Any,
) -> None:
    """Check that a log vouches for a report or a pack, without any store.

    REPORT is what `trails audit --format json` wrote, PACK the folder or zip of `trails audit pack`. Of a pack all is checked
    that its own `verify_export.py` checks. A pack that was unpacked and packed again unaltered is accepted, and called
    repacked. The exit code is 1 where anything was altered, or the log does not vouch for it.
    """
    from trails.audit import evidence_pack
    from trails.audit.report import check_signed_report
    from trails.integrity.witnesses import check_timestamp

    if not demanded["verifiers"]:
        cli.refuse("without the log's public key no signature can be trusted; give --verifier KEY")
    of_pack: dict[str, Any] = {}
    if report.is_dir() or report.suffix == ".zip":
        packed = evidence_pack.read_pack(report)
        answer = evidence_pack.check_pack(packed.files, demanded["verifiers"])
        text = cli.decoded(packed.files["report.json"], "report.json")
        checkpoint = checkpoint or cli.decoded(packed.files["report.checkpoint"], "report.checkpoint")
        if statement is not None:
            evidence_pack.check_statement(packed.files, files.read_whole(statement), demanded["verifiers"])
        of_pack = {"form": packed.form, "ignored": packed.ignored, **answer._asdict()}
        for line in evidence_pack.pack_notes(packed, answer):
            cli.note(one_line(line))
    elif statement is not None:
        cli.refuse("--statement goes with a pack")
    else:
        text = cli.read_text(report)
    if checkpoint is None:
        cli.refuse("a report is held against the checkpoint that vouches for it; give --checkpoint FILE")
    state = check_signed_report(text, checkpoint, **demanded)
    stamp = check_timestamp(checkpoint, timestamp, authorities)
    value = {"valid": True, "log": state.origin, "size": state.size, "timestamped": stamp, **of_pack}
    by = "" if stamp is None else f", by {stamp.time.isoformat()}, as {one_line(stamp.authority)} says"
    cli.answer(value, f"valid: the log {one_line(state.origin)} vouches for it{by}")


@cli.command("diff", group=audit, store=False)
@click.argument("before", metavar="A", type=click.Path(exists=True, path_type=Path))
@click.argument("after", metavar="B", type=click.Path(exists=True, path_type=Path))
def diff(*, before: Path, after: Path) -> None:
    """Say what changed between two audits, without any store.

    A and B are each what `trails audit --format json` wrote, or the folder or zip of `trails audit pack`, of the same session
    or of the whole store. Sessions and findings are compared; models, tools and removals only where both are packs. A
    session that was deleted is one that is gone, and removals are those of turns, texts and marks. Whether a log vouches for
    the audits is for `trails audit check` to say, and that the second goes on from the first for `trails verify --checkpoint`.
    """
    from trails.audit.audit_diff import diff_audits, read_audit

    found = diff_audits(read_audit(before), read_audit(after))
    cli.answer(found.to_dict(), found, _draw_diff)


def _draw_diff(found: AuditDiff) -> None:
    click.echo(f"from {one_line(found.times[0])} to {one_line(found.times[1])}")
    click.echo(f"log: {found.log_lines[0]} lines, then {found.log_lines[1]}")
    if found.doubt is not None:
        click.echo(f"WARNING: {found.doubt}")
    for name in ("sessions", "models", "tools", "removals", "findings"):
        changes = getattr(found, name)
        if changes is None:
            click.echo(f"{name}: unknown, for a report has no records; compare two packs")
            continue
        click.echo(f"{name}: {len(changes.added)} added, {len(changes.gone)} gone")
        for sign, values in (("+", changes.added), ("-", changes.gone)):
            for each in values:
                click.echo(f"  {sign} {one_line(each if isinstance(each, str) else ' '.join(each))}")
        if name == "sessions":
            for changed in found.changed:
                click.echo(f"  ~ {one_line(changed.session)}: {changed.turns[0]} turns, then {changed.turns[1]}")


@cli.command("copied", group=audit)
@click.argument("session", metavar="SESSION")
@cli.option(
    "--tool NAME", "A tool that is not trusted; again for further ones; default: all.", name="tools", multiple=True
)
@cli.option(
    "--shortest N", "The fewest characters of a part; 12 unless given.", type=click.IntRange(min=12), default=12
)
def copied(*, session: str, tools: tuple[str, ...], shortest: int) -> None:
    """Show what tool calls copied from outputs of other tools.

    Of each call in the transcript, the parts of its arguments that stand verbatim in an earlier output of a tool, or in an
    attached document: also where that came by a fork, a sub-agent's result or task, or a quotation. Ranges are of characters,
    the end exclusive. "also given" is an earlier turn in which a user or the system gave the same text. What was changed or
    encoded (Base64, URLs, escapes) is not found.
    """
    from trails.audit import copied_arguments

    with cli.open_store(reading=True) as store:
        found = copied_arguments(store, store.resolve(session), tools=tools or None, shortest=shortest)
    said = f"{count(found.calls, 'call')}, {count(len(found.parts), 'copied part')}"
    if found.unread:
        said += f"; {count(len(found.unread), 'turn')} not read, as its text was taken out"
    if found.unreached:
        said += f"; not in the store: {', '.join(map(one_line, found.unreached))}"
    cli.answer(found, [_copied_line(part) for part in found.parts], said=said)


def _copied_line(part: CopiedPart) -> str:
    source = f"{part.source_session} {part.source_index} {part.source_tool or 'document'}{part.source_pointer or ''}"
    way = f" by {' > '.join(part.path)}" if len(part.path) > 1 else ""
    also = "" if part.also_given is None else f" (also given in {part.also_given})"
    where = f"{part.session_id} {part.index} {part.tool}{part.pointer} {part.start}-{part.end}"
    text = shorten(part.text, 60)
    return one_line(f"{where} from {source} {part.source_start}-{part.source_end}{way}{also}: {text}")


@cli.command("near-copies", group=audit)
@click.argument("text", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@cli.option(
    "--share",
    "How many of its runs of three words a turn has.",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.3,
)
def near_copies(*, text: Path, share: float) -> None:
    """List the turns that may repeat a text, as in FILE.

    For a text that was redacted, or must be: FILE has it (- reads it from stdin), and is stored nowhere. The turns are
    candidates, the likeliest first, for a person to judge: what says the same in other words is not found, and a turn that
    shares everyday phrases may be. The exit code is 0 where there are some, 1 where there are none.
    """
    from trails.audit import find_near_copies

    said = cli.text_of("-") if str(text) == "-" else cli.read_text(text)
    with cli.open_store(reading=True) as store:
        found = find_near_copies(store, said, share=share)

    def draw(rows: Sequence[NearCopy]) -> None:
        lines = [[f"{each.session_id}@{each.index}", f"{each.share:.3f}"] for each in rows]
        cli.view.print_table(["candidate", "share"], lines, right=("share",), rule=False)

    cli.answer([each.model_dump() for each in found], found, draw, empty="no turn is a candidate")
    if not found:
        raise click.exceptions.Exit(1)


@cli.command("pack", group=audit)
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option("--all", "The whole store.", name="everything")
@cli.option("-o --output FOLDER|ZIP", "What to write; not there yet.", type=click.Path(path_type=Path), required=True)
@note_option("--checkpoint", "A checkpoint that was kept elsewhere.")
@signature_options
@cli.time_option("--time", "When the audit is said to be made; default: now.")
@cli.option("--key FILE", "The log's secret key: it vouches for the report.", type=cli.EXISTING_FILE)
@cli.option("--statement FILE", "With --key: write a signed statement (DSSE, or COSE).", type=cli.NEW_FILE)
@cli.option(
    "--statement-format", "What to write; default: by the name.", type=click.Choice(["dsse", "cose"]), name="form"
)
@cli.recipients_option
def pack_files(
    *,
    session: str | None,
    everything: bool,
    output: Path,
    key: Path | None,
    statement: Path | None,
    form: Form | None,
    recipients: tuple[str, ...],
    **how: Any,
) -> None:
    """Write all that an outside auditor needs into a folder or a zip.

    The report, the records as N-Quads with the program that checks them, PROV, the checkpoint, the proof of each session's
    last turn, and a manifest with the SHA-256 of each file (an in-toto statement). A zip is written where the name ends in
    .zip. The same store, time and key give the same bytes. The texts of the records are in it.
    """
    from trails.audit import audit as audited
    from trails.audit import evidence_pack

    _check_scope(session, everything=everything)
    refuse_existing(output)
    refuse_existing(statement)
    if statement is not None and key is None:
        cli.refuse("--statement goes with --key: the log's key signs it")
    if statement is None and form is not None:
        cli.refuse("--statement-format goes with --statement")
    form = None if statement is None else form or _form_of(statement)
    signer = None if key is None else cli.read_text(key)
    with cli.open_store(reading=not recipients, recorded=True) as store:
        made = audited(store, session, **how)
        packed = evidence_pack.make_pack(
            store,
            made,
            checkpoint=how["checkpoint"],
            timestamp=how["timestamp"],
            signer=signer,
            recipients=recipients,
        )
    signed = b"" if form is None or signer is None else evidence_pack.signed_statement(packed, signer, form)
    evidence_pack.write_pack(packed, output, made.time)
    if statement is not None:
        files.write_new(statement, signed, public=True)
    value = {"output": str(output), "report": made.digest, "files": sorted(packed)}
    cli.answer(value, None, said=f"wrote {len(packed)} files to {one_line(str(output))}")


def _form_of(statement: Path) -> Form:
    forms: dict[str, Form] = {".dsse": "dsse", ".json": "dsse", ".jsonl": "dsse", ".cose": "cose", ".cbor": "cose"}
    form = forms.get(statement.suffix)
    if form is None:
        cli.refuse(f"{statement.name} does not say what to write: give --statement-format dsse, or cose")
    return form


FORMATS = ("provn", "json", "jsonld", "xml", "turtle", "trig", "ntriples", "nquads", "ro-crate")


@cli.command("validate")
@click.argument("source", metavar="[FILE|STORE]", required=False, type=click.Path(path_type=Path))
@cli.option("--format", "What FILE is; default: by the end of its name.", type=click.Choice(FORMATS))
@cli.option("--timed", "Compare the times that are stated with the order, too.")
@cli.option("--skew SECONDS", "With --timed: how far clocks may differ.", type=click.FloatRange(0))
@cli.option("--shapes", "Check RDF by the ontology's SHACL shapes instead.")
def validate(*, source: Path | None, timed: bool, skew: float | None, shapes: bool, **how: Any) -> None:
    """Check PROV, a file's or a store's, by the W3C's constraints.

    Without an argument it is the store that --store names; the rules are those of PROV-CONSTRAINTS. Each finding names
    the constraint, the nodes and the statements that clash; an order that runs in a circle is shown as its shortest
    circle. The exit code is 0 where all is valid, 1 where something was found, 2 where FILE cannot be read. --timed also
    holds the order that the statements imply against their times, which the W3C's constraints never look at: a verdict
    of its own, open where times are missing. --shapes asks instead whether what Trails wrote is as its ontology says.
    """
    from trails.provenance import validate as checked

    if skew is not None and not timed:
        cli.refuse("--skew goes with --timed")
    if source is not None and not source.exists():
        raise InvalidInput(f"there is no {source}; name a PROV file or the folder of a store")
    if shapes and timed:
        cli.refuse("--timed goes with PROV's constraints, not with --shapes")
    with _source(source, how["format"]) as opened:
        if shapes:
            _by_shapes(opened, how["format"])
            return
        verdict = checked(opened, format=how["format"], timed=timed, skew=skew or 0.0)
    cli.answer(verdict, list(_shown(verdict)), said=_said(verdict))
    if not verdict.ok:
        cli.end(1)


@cli.command("ontology", json=False, store=False)
@cli.option(
    "--format",
    "In which format.",
    type=click.Choice(cli.TRIPLE_FORMATS),
    default="turtle",
)
@cli.option("--shapes", "Print the SHACL shapes of the terms instead.")
@cli.option("--alignments", "Print what other vocabularies call the terms instead.")
@cli.option("--concepts", "Print the roles, kinds and outcomes as SKOS concepts instead.")
def print_ontology(*, shapes: bool, alignments: bool, concepts: bool, **how: str) -> None:
    """Print the ontology: every term that a store's graph has.

    It is the one of this version of Trails. Turtle has the comments of its authors, too.
    """
    from trails.provenance.ontology import write_ontology

    wanted = {"shapes": shapes, "alignments": alignments, "concepts": concepts}
    chosen = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        cli.refuse("--shapes, --alignments and --concepts exclude each other")
    click.echo(write_ontology(chosen[0] if chosen else "ontology", how["format"]), nl=False)


def _source(source: Path | None, form: str | None) -> AbstractContextManager[Any]:
    """Return what is to be checked: a file, or a store that is open to be read."""
    from trails.opening import open_to_read

    if source is not None and not source.is_dir():
        return nullcontext(source)
    if form is not None:
        cli.refuse("--format goes with a file, and a store is none")
    return cli.open_store(reading=True) if source is None else open_to_read(source)


def _by_shapes(source: Any, form: str | None) -> None:
    from trails.history import record_registry
    from trails.provenance.ontology import violations, violations_in

    if isinstance(source, Path):
        found = violations_in(source, form)
    else:  # what documents of others say was not written by Trails
        quads = source.store.quads((None, None, None, None))
        graphs = ((quad, str(getattr(quad.graph_name, "value", ""))) for quad in quads)
        found = violations(quad for quad, graph in graphs if record_registry.owner_of(graph) is None)
    lines = [f"{one_line(each.node)}: {one_line(each.message)} ({each.shape})" for each in found]
    said = f"not as the ontology says, {count(len(found), 'finding')}" if found else "as the ontology says"
    cli.answer({"valid": not found, "findings": [each.to_dict() for each in found]}, lines, said=said)
    if found:
        cli.end(1)


def _shown(verdict: Validation) -> Iterator[str]:
    for finding in verdict.findings:
        yield from _finding(finding, "")
    for finding in verdict.timing.findings if verdict.timing else ():
        yield from _finding(finding, "times: ")


def _finding(finding: Finding, kind: str) -> Iterator[str]:
    number = "" if finding.constraint is None else f" ({finding.constraint})"
    bundle = "" if finding.bundle is None else f" in the bundle {one_line(finding.bundle)}"
    yield f"{kind}{finding.name}{number}{bundle}: {one_line(finding.message)}"
    for statement in finding.statements:
        yield f"    {one_line(statement.to_provn())}"


def _said(verdict: Validation) -> str:
    bundles = f" and {count(verdict.bundles, 'bundle')}" if verdict.bundles else ""
    found = f"not valid, {count(len(verdict.findings), 'finding')}" if verdict.findings else "valid"
    said = f"{found}: {count(verdict.statements, 'statement')}{bundles}"
    timing = verdict.timing
    if timing is None:
        return said
    return f"{said}; times {timing.verdict}: {timing.kept:,} orders kept, {timing.open:,} open, {len(timing.findings)} broken"
