"""Commands that find out whether what is stored, or proven, was altered: verify, verify-proof."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import EXISTING_FILE, answer, as_of_option, command, end, is_as_of, json_option, open_store, refuse
from trails.cli.checkpoint import (
    authority_option,
    note_option,
    quorum_option,
    require_signed_option,
    signers_option,
    timestamp_option,
    verifier_option,
    witness_option,
)
from trails.cli.mirror import verify_mirror
from trails.cli.terminal import one_line, shorten
from trails.errors import IntegrityError, InvalidInput
from trails.files import read_whole

if TYPE_CHECKING:
    from trails.integrity.note import Checkpoint
    from trails.integrity.proofs import ConsistencyProof, TurnProof
    from trails.model import VerifyReport


@command("verify")
@click.argument("session", metavar="[SESSION]", required=False)
@note_option("--checkpoint", "A checkpoint that was kept elsewhere: find what was rewritten since.")
@note_option(
    "--since", "A checkpoint of a store that was verified then: read turns only of sessions that changed since."
)
@verifier_option
@witness_option
@quorum_option
@timestamp_option
@authority_option
@signers_option
@require_signed_option
@as_of_option
@click.option("--mirror", metavar="URL", help="Hold a mirror in a SPARQL server against the store.")
@json_option
def verify(
    *,
    session: str | None,
    mirror: str | None,
    checkpoint: str | None,
    since: str | None,
    verifiers: list[str],
    witnesses: list[str],
    quorum: int | None,
    timestamp: bytes | None,
    authorities: list[str],
    signers: list[str],
    require_signed: bool,
    as_json: bool,
) -> None:
    """Check that what is stored is whole and was not altered.

    All sessions, or SESSION (an id, an IRI or a label) with its ancestors. The exit code is 1 where something was
    found. Whoever owns the disk can rewrite everything so that nothing is found; with --checkpoint (and --verifier, the
    log's public key) that is found too: what the checkpoint covers is as it was, but for what is then listed as changed,
    detached, deleted, brought back or redacted since. What may change of a session is its label, key, metadata, state,
    spawner, system prompts, tags, notes, signatures and entry.

    With --since, which takes a checkpoint as --checkpoint does, turns are read only of sessions of which the log tells later on:
    what somebody altered past Trails in the turns, or the ledgers, of others is not found so.

    With --witness, that many of the witnesses as --quorum says (all unless given) must have cosigned the checkpoint.
    With --timestamp and --tsa-cert, a time-stamp authority must have said that the checkpoint was there, and by when is shown.

    With --mirror, every triple that `trails mirror` brought to a SPARQL server is compared with the store instead.

    Signatures of heads (`trails proof sign`) must hold. The turns that none covers are listed, with --signers of those by these
    keys alone; with --require-signed they are findings.
    """
    from trails.cli import render

    if mirror is not None:
        if (
            session is not None
            or checkpoint
            or since
            or timestamp
            or require_signed
            or is_as_of()
            or [*verifiers, *witnesses, *signers]
        ):
            refuse("--mirror compares a whole mirror with the store, and nothing else; leave the others out")
        with open_store(reading=True) as store:
            verify_mirror(store, mirror, as_json=as_json)
        return
    with open_store(reading=True) as store, render.working("verifying"):
        wanted = None if session is None else store.resolve(session)
        report = store.verify(
            wanted,
            checkpoint=checkpoint,
            since=since,
            verifiers=verifiers,
            witnesses=witnesses,
            quorum=quorum,
            timestamp=timestamp,
            authorities=authorities,
            signers=signers,
            require_signed=require_signed,
        )
    answer_report(report, as_json=as_json)


def answer_report(report: VerifyReport, *, as_json: bool) -> None:
    """Answer with what was verified; the exit code is 1 where something was found."""
    from trails.cli import render

    answer(report, report, lambda report: render.verdict(render.screen(), report), as_json=as_json)
    if not report.ok:
        end(1)


@click.command("check")
@click.argument("file", metavar="FILE", type=EXISTING_FILE)
@verifier_option
@witness_option
@quorum_option
@timestamp_option
@authority_option
@note_option("--kept", "For a proof of growth: the older checkpoint, as it was kept.")
@json_option
def verify_proof(
    *,
    file: Path,
    verifiers: list[str],
    witnesses: list[str],
    quorum: int | None,
    timestamp: bytes | None,
    authorities: list[str],
    kept: str | None,
    as_json: bool,
) -> None:
    """Check a proof, without any store.

    FILE is what `trails proof make` wrote. The exit code is 0 where the proof holds, 1 where it does not, 2 for wrong usage.
    A proof holds if the log's own key signed its checkpoint, and the checkpoint covers what is proven. It says nothing
    of whether the times and names that were recorded are true.
    """
    if not verifiers:
        refuse("without the log's public key no signature can be trusted; give --verifier KEY")
    try:
        data = read_whole(file)
        shown = _verified(data, verifiers, kept) | _witnessed(data, witnesses, quorum)
        shown |= _stamped(data, timestamp, authorities)
    except IntegrityError as wrong:
        why = str(wrong)
        answer({"valid": False, "reason": why}, f"not valid: {one_line(why)}", click.echo, as_json=as_json)
        end(1)
    answer({"valid": True} | shown, shown, _draw_proven, as_json=as_json)


def _witnessed(data: bytes, witnesses: list[str], quorum: int | None) -> dict[str, Any]:
    """Return who cosigned the checkpoint of a proof, or raise IntegrityError where too few did."""
    from trails.integrity.proofs import read_proof
    from trails.integrity.witnesses import cosignatures

    if not witnesses:
        if quorum is not None:
            refuse("--quorum says how many of the witnesses must have cosigned; give --witness KEY")
        return {}
    found = cosignatures(read_proof(data).checkpoint, witnesses, quorum=quorum)
    return {"witnessed": [each.to_dict() for each in found]}


def _stamped(data: bytes, timestamp: bytes | None, authorities: list[str]) -> dict[str, Any]:
    """Return by when the checkpoint of a proof was there, or raise IntegrityError where its token does not hold."""
    from trails.integrity.proofs import read_proof
    from trails.integrity.timestamps import stamped_if_asked

    found = stamped_if_asked(read_proof(data).checkpoint, timestamp, authorities)
    return {} if found is None else {"timestamped": found.to_dict()}


def _draw_proven(shown: Mapping[str, Any]) -> None:
    from trails.cli import render

    click.echo("valid")
    said = {name.replace("_", " "): _plain(value) for name, value in shown.items() if value is not None}
    if withheld := shown.get("withheld"):
        said["withheld"] = (
            f"{' and '.join(withheld)}: the turn has more than this proof shows, and only its digest is proven"
        )
    else:
        said.pop("withheld", None)
    render.screen().print(render.grid(said))


def _verified(data: bytes, verifiers: list[str], kept: str | None) -> dict[str, Any]:
    """Return what a proof proves, or raise IntegrityError where it does not hold."""
    from trails.integrity.proofs import ConsistencyProof, TurnProof, read_proof

    try:
        found = read_proof(data)
    except InvalidInput as wrong:  # a proof with a byte altered may be no JSON any more: it is not valid either way
        raise IntegrityError(str(wrong)) from wrong
    if isinstance(found, ConsistencyProof):
        if kept is None:
            refuse("this proves growth since an older checkpoint; give the one that was kept with --kept FILE")
        return _growth_shown(found, found.verify(kept, verifiers))
    if kept is not None:
        refuse("--kept goes with a proof of growth, and this is none; leave it out")
    state = found.verify(verifiers)
    if isinstance(found, TurnProof):
        return _turn_shown(found, state)
    leaf = found.leaf.decode(errors="replace")
    return {"proves": "leaf", "leaf": leaf, "leaf_index": found.index, "log": state.origin, "size": state.size}


def _growth_shown(proof: ConsistencyProof, state: Checkpoint) -> dict[str, Any]:
    return {"proves": "growth", "log": state.origin, "old_size": proof.old_size, "size": state.size}


def _turn_shown(proof: TurnProof, state: Checkpoint) -> dict[str, Any]:
    turn, said = proof.turn, proof.content
    return {
        "proves": "turn",
        "session": proof.session_id,
        "index": turn.index,
        "branch": turn.branch,
        "role": turn.role,
        "author": turn.author,
        "time": turn.time and turn.time.isoformat(),
        "content": said and said.text,
        "structured": said and said.structured,
        "facts": proof.facts or None,
        "withheld": list(proof.withheld),
        "digest": proof.digest,
        "leaf_index": proof.leaf_index,
        "log": state.origin,
        "size": state.size,
    }


def _plain(value: Any) -> str:
    return shorten(str(value), 500)
