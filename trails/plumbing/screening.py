"""Secrets in a turn on its way in: it is refused, or a mark takes their place, before anything is hashed or stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from trails.errors import InvalidInput, SecretFound
from trails.model import NO_FACTS
from trails.plumbing.draft import Draft

if TYPE_CHECKING:
    from trails.secrets import Secret

Screening = Literal["refuse", "redact", "off"]
"""What becomes of a turn in which a secret is found."""
_KINDS: Final = get_args(Screening)


def checked(scan: object) -> Screening | None:
    """Return how turns are screened, or None where that is not said; raise `InvalidInput` for anything else."""
    for kind in _KINDS:
        if scan == kind:
            return kind  # type: ignore[no-any-return] # one of the literals
    if scan is not None:
        raise InvalidInput(f'scan is "refuse", "redact" or "off", not {scan!r:.80}')
    return None


def screened(made: Draft, scan: Screening | None, session_id: str) -> Draft:
    """Return a turn without its secrets; with "refuse", raise `SecretFound` for the first of them."""
    if scan is None or scan == "off" or (found := next(_secrets(made), None)) is None:
        return made
    if made.facts.quoted_from is not None:
        raise _found(*found, session_id, "redact the turn that it repeats")
    if scan == "refuse":
        raise _found(*found, session_id, 'take it out, or append with scan="redact"')
    return _redacted(made)


def screened_prompt(text: str, scan: Screening | None, session_id: str) -> str:
    """Return a system prompt without its secrets; with "refuse", raise `SecretFound` for the first of them."""
    if scan is None or scan == "off":
        return text
    from trails.secrets import detector, redact  # noqa: PLC0415 - see `_secrets`

    if scan == "refuse" and (found := detector()(text)):
        raise _found("system prompt", found[0], session_id, "take it out")
    return redact(text, detector())


def _found(where: str, secret: Secret, session_id: str, remedy: str) -> SecretFound:
    return SecretFound(
        f"session {session_id!r} was given what looks like a secret ({secret.kind}), in the {where}; nothing was appended: "
        f'{remedy}. What is no secret is appended with scan="off"',
        kind=secret.kind,
        where=where,
    )


def _secrets(made: Draft) -> Iterator[tuple[str, Secret]]:
    """Yield the secrets of a turn, each with where it stands."""
    from trails.secrets import detector, secrets_in_json  # noqa: PLC0415 - its patterns take a while to compile

    look, facts = detector(), made.facts
    yield from (("content", secret) for secret in ([] if made.structured else look(made.text)))
    model_call = facts.model_call
    for where, text in (
        ("content", made.text if made.structured else None),
        *((f"arguments of a call of {call.name!r:.40}", call.arguments) for call in facts.tool_calls),
        ("metadata", facts.meta_json),
        ("usage", model_call and model_call.usage_json),
        ("model's name", model_call and model_call.model),
        ("stop reason", model_call and model_call.stop_reason),
        ("request for a summary", facts.compaction and facts.compaction.request),
    ):
        yield from ((where, secret) for _, secret in secrets_in_json(text or "", look))


def _redacted(made: Draft) -> Draft:
    from trails.secrets import detector, redact, redact_json  # noqa: PLC0415 - see `_secrets`

    look, facts = detector(), made.facts

    def without(text: str | None) -> str | None:
        return text and redact_json(text, look)

    changes: dict[str, Any] = {
        "meta_json": without(facts.meta_json),
        "tool_calls": tuple(
            call.model_copy(update={"arguments": without(call.arguments)}) for call in facts.tool_calls
        ),
    }
    if (call := facts.model_call) is not None:
        names = ("usage_json", "model", "stop_reason")
        changes["model_call"] = call.model_copy(update={name: without(getattr(call, name)) for name in names})
    if (compaction := facts.compaction) is not None:
        changes["compaction"] = compaction.model_copy(update={"request": without(compaction.request)})
    text = redact_json(made.text, look) if made.structured else redact(made.text, look)
    return made._replace(text=text, facts=facts if facts is NO_FACTS else facts.model_copy(update=changes))
