"""Commands for auditors: audit, with what checks a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trails import files
from trails.cli.base import (
    EXISTING_FILE,
    NEW_FILE,
    answer,
    decoded,
    end,
    json_option,
    note,
    open_store,
    refuse,
    store_option,
    time_option,
)
from trails.cli.checkpoint import (
    authority_option,
    note_option,
    quorum_option,
    refuse_existing,
    require_signed_option,
    signers_option,
    timestamp_option,
    verifier_option,
    witness_option,
)
from trails.cli.terminal import clean, one_line
from trails.files import read_whole

if TYPE_CHECKING:
    from trails import Repository
    from trails.audit import Report

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


@audit.command("report")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole store.")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="How to write it."
)
@click.option("-o", "--output", type=NEW_FILE, help="The file to write, which may not be there yet; default: stdout.")
@click.option(
    "--fail-on", "fatal", type=click.Choice(_VERDICTS), multiple=True, help="Which verdicts make the exit code 1."
)
@note_option("--checkpoint", "A checkpoint that was kept elsewhere.")
@verifier_option
@witness_option
@quorum_option
@timestamp_option
@authority_option
@signers_option
@require_signed_option
@time_option("--time", "When the audit is said to be made; default: now.")
@click.option("--key", metavar="FILE", type=EXISTING_FILE, help="The log's secret key, to sign the report with.")
@click.option(
    "--signed", metavar="FILE", type=NEW_FILE, help="Where to write the checkpoint that vouches for the report."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@store_option()
def report(
    *,
    session: str | None,
    everything: bool,
    form: str,
    output: Path | None,
    fatal: tuple[str, ...],
    key: Path | None,
    signed: Path | None,
    as_json: bool,
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

    _check_scope(session, everything=everything)
    if (key is None) != (signed is None):
        refuse("--key and --signed go together: the log's key, and the file for what it signs")
    refuse_existing(output, signed)
    with open_store(reading=True, recorded=True) as store:
        made = audited(store, session, **how)
        if key is not None and signed is not None:
            _sign(store, made, key, signed)
    form = "json" if as_json else form
    if output is not None:
        files.write_new(output, _written(made, form).encode())
        note(f"wrote the report to {output}")
    elif form == "text":
        _draw(made)
    else:
        text = _written(made, form)
        answer(made, text, lambda text: click.echo(clean(text), nl=False), as_json=form == "json")
    if made.fails(fatal or _FAULTS):
        end(1)


def _check_scope(session: str | None, *, everything: bool) -> None:
    if (session is None) != everything:
        refuse("name a SESSION, or give --all for the whole store")


def _sign(store: Repository, made: Report, key: Path, signed: Path) -> None:
    from trails.audit.report import extension

    vouched = store.proofs.checkpoint(decoded(read_whole(key), str(key)), [extension(made.digest)])
    files.write_new(signed, vouched.encode(), public=True)
    note(f"wrote the checkpoint that vouches for the report to {signed}")


def _written(made: Report, form: str) -> str:
    from trails.audit import documents
    from trails.cli.terminal import to_json

    match form:
        case "json":
            return to_json(made.to_dict()) + "\n"
        case "html":
            return documents.html(made)
        case _:
            return documents.markdown(made)


def _draw(made: Report) -> None:
    from trails.audit import documents
    from trails.cli import render

    console = render.screen()
    console.print(documents.title(made), style="bold")
    for line in documents.facts(made):
        console.print(one_line(line))
    for verdict in made.verdicts:
        console.print()
        console.print(f"{verdict.name}: {documents.word(verdict)}", style="green" if verdict.holds else "bold red")
        console.print(one_line(verdict.said))
        for found in verdict.found:
            console.print(f"{found.query}: {one_line(found.purpose)}", style="bold")
            render.print_table(
                found.columns, [list(map(documents.shown, row)) for row in found.rows], fold=found.columns
            )
    console.print("\nThis cannot show:")
    for line in made.cannot_show:
        console.print(f"- {line}")


@audit.command("check")
@click.argument("report", metavar="REPORT|PACK", type=click.Path(exists=True, path_type=Path))
@note_option("--checkpoint", "The checkpoint that vouches for a report; a pack has its own.")
@verifier_option
@witness_option
@quorum_option
@timestamp_option
@authority_option
@json_option
def check(
    *,
    report: Path,
    checkpoint: str | None,
    verifiers: Sequence[str],
    timestamp: bytes | None,
    authorities: list[str],
    as_json: bool,
    **demanded: Any,
) -> None:
    """Check that a log vouches for a report or a pack, without any store.

    REPORT is what `trails audit --format json` wrote, PACK the folder or zip of `trails audit pack`, of which each file is
    held against the signed manifest. The exit code is 1 where anything was altered, or the log does not vouch for it.
    """
    from trails.audit import packing
    from trails.audit.signing import vouched
    from trails.integrity.timestamps import stamped_if_asked

    if not verifiers:
        refuse("without the log's public key no signature can be trusted; give --verifier KEY")
    if report.is_dir() or report.suffix == ".zip":
        packed = packing.read(report)
        packing.check(packed, verifiers)
        text = decoded(packed["report.json"], "report.json")
        checkpoint = checkpoint or decoded(packed["report.checkpoint"], "report.checkpoint")
    else:
        text = decoded(read_whole(report), str(report))
    if checkpoint is None:
        refuse("a report is held against the checkpoint that vouches for it; give --checkpoint FILE")
    state = vouched(text, checkpoint, verifiers, **demanded)
    stamp = stamped_if_asked(checkpoint, timestamp, authorities)
    value = {"valid": True, "log": state.origin, "size": state.size, "timestamped": stamp}
    by = "" if stamp is None else f", by {stamp.time.isoformat()}, as {one_line(stamp.authority)} says"
    answer(value, f"valid: the log {one_line(state.origin)} vouches for it{by}", click.echo, as_json=as_json)


@audit.command("pack")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--all", "everything", is_flag=True, help="The whole store.")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER|ZIP",
    type=click.Path(path_type=Path),
    required=True,
    help="What to write; not there yet.",
)
@note_option("--checkpoint", "A checkpoint that was kept elsewhere.")
@verifier_option
@witness_option
@quorum_option
@timestamp_option
@authority_option
@signers_option
@require_signed_option
@time_option("--time", "When the audit is said to be made; default: now.")
@click.option("--key", metavar="FILE", type=EXISTING_FILE, help="The log's secret key: it vouches for the report.")
@json_option
@store_option()
def pack_files(
    *, session: str | None, everything: bool, output: Path, key: Path | None, as_json: bool, **how: Any
) -> None:
    """Write all that an outside auditor needs into a folder or a zip.

    The report, the records as N-Quads with the program that checks them, PROV, the checkpoint, the proof of each session's
    last turn, and a manifest with the SHA-256 of each file (an in-toto statement). A zip is written where the name ends in
    .zip. The same store, time and key give the same bytes. The texts of the records are in it.
    """
    from trails.audit import audit as audited
    from trails.audit import packing

    _check_scope(session, everything=everything)
    refuse_existing(output)
    signer = None if key is None else decoded(read_whole(key), str(key))
    with open_store(reading=True, recorded=True) as store:
        made = audited(store, session, **how)
        packed = packing.pack(store, made, checkpoint=how["checkpoint"], timestamp=how["timestamp"], signer=signer)
    packing.write(packed, output, made.time)
    value = {"output": str(output), "report": made.digest, "files": sorted(packed)}
    answer(value, None, click.echo, said=f"wrote {len(packed)} files to {one_line(str(output))}", as_json=as_json)
