"""A log vouches for a report: a checkpoint that is signed with the report's digest in it."""

from __future__ import annotations

from collections.abc import Sequence

from trails.audit.report import extension, read
from trails.errors import IntegrityError
from trails.integrity.note import Checkpoint, open_checkpoint, to_base64
from trails.integrity.witnesses import cosignatures


def vouched(
    text: str,
    checkpoint: str,
    verifiers: Sequence[str],
    *,
    witnesses: Sequence[str] = (),
    quorum: int | None = None,
) -> Checkpoint:
    """Return the checkpoint that vouches for a report, given as JSON, if the log signed it with one of the given keys.

    Raises `InvalidInput` for a text that is no report, `IntegrityError` where the report was altered, where the signature
    does not hold, where too few witnesses cosigned it, or where the checkpoint is not of this report and its state of the log.
    """
    said, state = read(text), open_checkpoint(checkpoint, verifiers)
    if witnesses:
        cosignatures(checkpoint, witnesses, quorum=quorum)
    if extension(said["digest"]) not in state.extensions:
        raise IntegrityError(f"the checkpoint of {state.origin!r} does not vouch for this report: it is of another one")
    if (said["lines"], said["root"]) != (state.size, to_base64(state.root)):
        raise IntegrityError(f"the report was made at another state of the log {state.origin!r} than the checkpoint")
    return state
