"""The command that checks PROV against the W3C's constraints: validate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trails.cli.base import answer, command, echo_each, end, json_option, open_store, refuse
from trails.cli.terminal import count, one_line
from trails.errors import InvalidInput

if TYPE_CHECKING:
    from trails import Repository
    from trails.prov import Finding, Validation

FORMATS = ("provn", "json", "jsonld", "xml", "turtle", "trig", "ntriples", "nquads")


@command("validate")
@click.argument("source", metavar="[FILE|STORE]", required=False, type=click.Path(path_type=Path))
@click.option("--format", type=click.Choice(FORMATS), help="What FILE is; default: by the end of its name.")
@click.option("--timed", is_flag=True, help="Compare the times that are stated with the order, too.")
@click.option("--skew", metavar="SECONDS", type=click.FloatRange(0), help="With --timed: how far clocks may differ.")
@click.option("--shapes", is_flag=True, help="Check RDF by the ontology's SHACL shapes instead.")
@json_option
def validate(
    *,
    source: Path | None,
    format: str | None,  # noqa: A002 - the option's name
    timed: bool,
    skew: float | None,
    shapes: bool,
    as_json: bool,
) -> None:
    """Check PROV, a file's or a store's, by the W3C's constraints.

    Without an argument it is the store that --store names; the rules are those of PROV-CONSTRAINTS. Each finding names
    the constraint, the nodes and the statements that clash; an order that runs in a circle is shown as its shortest
    circle. The exit code is 0 where all is valid, 1 where something was found, 2 where FILE cannot be read. --timed also
    holds the order that the statements imply against their times, which the W3C's constraints never look at: a verdict
    of its own, open where times are missing. --shapes asks instead whether what Trails wrote is as its ontology says.
    """
    from trails.prov import validate as checked

    if skew is not None and not timed:
        refuse("--skew goes with --timed")
    if source is not None and not source.exists():
        raise InvalidInput(f"there is no {source}; name a PROV file or the folder of a store")
    if shapes:
        if timed:
            refuse("--timed goes with PROV's constraints, not with --shapes")
        _by_shapes(source, format, as_json=as_json)
        return
    if source is not None and not source.is_dir():
        verdict = checked(source, format=format, timed=timed, skew=skew or 0.0)
    elif format is not None:
        refuse("--format goes with a file, and a store is none")
    else:
        with _opened(source) as store:
            verdict = checked(store, timed=timed, skew=skew or 0.0)
    answer(verdict, list(_shown(verdict)), echo_each, said=_said(verdict), as_json=as_json)
    if not verdict.ok:
        end(1)


def _by_shapes(source: Path | None, format: str | None, *, as_json: bool) -> None:  # noqa: A002 - the option's name
    from trails.ontology.shapes import violations, violations_in
    from trails.plumbing import kinds

    if source is not None and not source.is_dir():
        found = violations_in(source, format)
    elif format is not None:
        refuse("--format goes with a file, and a store is none")
    else:
        with _opened(source) as store:
            quads = store.store.quads((None, None, None, None))
            # what documents of others say was not written by Trails
            found = violations(
                quad for quad in quads if kinds.owner(str(getattr(quad.graph_name, "value", ""))) is None
            )
    lines = [f"{one_line(each.node)}: {one_line(each.message)} ({each.shape})" for each in found]
    said = f"not as the ontology says, {count(len(found), 'finding')}" if found else "as the ontology says"
    answer(
        {"valid": not found, "findings": [each.to_dict() for each in found]},
        lines,
        echo_each,
        said=said,
        as_json=as_json,
    )
    if found:
        end(1)


def _opened(folder: Path | None) -> Repository:
    from trails.opening import open_to_read

    return open_store(reading=True) if folder is None else open_to_read(folder)


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
