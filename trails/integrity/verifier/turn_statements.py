"""Say what a turn would be written as, so that a statement that no digest covers is found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from trails.integrity.verifier.quads import (
    BOOLEAN,
    DATE_TIME,
    DECIMAL,
    INTEGER,
    JSON,
    PROV,
    REDACTED,
    STRING,
    TRAILS,
    TYPE,
    Properties,
    Term,
    first_value,
    only_value,
)
from trails.integrity.verifier.terms import comparable
from trails.integrity.verifier.turns import Turn
from trails.usage import figures_of, older_figures_of

Statement = tuple[str, str, tuple[Any, str]]
"""Of a turn: the part ("" for its own), the predicate, the object by value."""


def _datatypes(**kinds: str) -> dict[str, str]:
    """Return the datatypes of terms of Trails, given their names by datatype."""
    known = {"strings": STRING, "integers": INTEGER, "times": DATE_TIME, "json": JSON, "iris": ""}
    return {TRAILS + name: known[kind] for kind, names in kinds.items() for name in names.split()}


_OWN = {
    **_datatypes(integers="index", strings="role branch digest salt factsDigest contentDigest"),
    PROV + "generatedAtTime": DATE_TIME,
    PROV + "wasAttributedTo": "",
}
_QUOTE = {PROV + "wasQuotedFrom": "", **_datatypes(strings="quotedDigest")}
_RESULT = {PROV + "wasDerivedFrom": "", **_datatypes(strings="resultDigest")}
_SUMMARY = _datatypes(
    integers="summarisedThrough firstKept tokensBefore tokensAfter summarisedFrom summarisedTurns", strings="trigger"
)
_MODEL = _datatypes(strings="model stopReason", json="usage")


_SHOWN = _datatypes(strings="provider", integers="contextThrough")
_SHOWN_BY_CALL = {
    PROV + "startedAtTime": DATE_TIME,
    PROV + "endedAtTime": DATE_TIME,
    **_datatypes(iris="usedPrompt"),
    **_SHOWN,
}
_SHOWN_BY_COPY = {**_datatypes(times="keptStart keptEnd", iris="keptPrompt"), **_SHOWN}


_TOLD_OF_TOOLS = _datatypes(times="toolStartedAt toolEndedAt", iris="approvedBy refusedBy tool", strings="toolOutcome")
_CALLED = _datatypes(strings="callDigest", iris="calledIn calledFor")
_COMPACTING = {
    PROV + "used": "",
    **_datatypes(iris="previousSummary", strings="request maxSummaryRule", integers="maxSummaryTokens durationMs"),
}
_OF_PAYLOAD = {TRAILS + "payloadName": STRING, TRAILS + "mediaType": STRING, TRAILS + "byteCount": INTEGER}
_CAN_GO = (TRAILS + "meta", TRAILS + "arguments", TRAILS + "request")
"""What leaves its salted_digest digest in its place when it is taken out."""


def _kept(properties: Properties, datatypes: dict[str, str]) -> Iterator[tuple[str, Term]]:
    """Yield what is said, in the datatype that it must have: what a digest covers is right as it stands."""
    for name, datatype in datatypes.items():
        if name in properties:
            text, said = properties[name][0]
            yield name, (text, said if said == REDACTED and name in _CAN_GO else datatype)


def written_as(turn: Turn, answered: dict[str, str], copies: set[str], names: dict[int, str]) -> set[Statement]:
    """Return the statements that a turn would be written as.

    `answered` has the call of each call id before it, `copies` the turns before it that are copies, `names` by index what
    the IRIs of those before it have after the session's.
    """
    found = set(_statements("", _own_pairs(turn)))
    if "model" in turn.parts:
        found |= set(_statements("model", _model_pairs(turn, names)))
    if "request" in turn.taken or any(name in turn.parts.get("compaction", {}) for name in _COMPACTING):
        found |= set(_statements("compaction", _compacting_pairs(turn)))
    for position, call in enumerate(turn.calls):
        found |= set(_statements(f"call/{position}", _call_pairs(turn, call)))
    for position, result in enumerate(turn.results):
        found |= set(_statements(f"result/{position}", _result_pairs(result)))
        answers = answered.get(first_value(result, TRAILS + "callId") or "")
        if answers is not None:
            found |= set(_answering(turn, position, result, answers, of_copy=answers.partition("/call/")[0] in copies))
    for position, payload in enumerate(turn.payloads):
        found |= set(_statements(f"payload/{position}", _payload_pairs(payload)))
    return found


def _answering(
    turn: Turn, position: int, result: Properties, answers: str, *, of_copy: bool
) -> Iterator[tuple[str, str, tuple[Any, str]]]:
    """Yield how a result is bound to the call that it answers; one that came before the call was copied to both."""
    again = turn.copying is not None or (of_copy and TRAILS + "answersCopy" in result)
    if again:
        yield f"result/{position}", TRAILS + "answersCopy", (_call(answers), "")
    if not again or (turn.copying is None and TRAILS + "answers" in result):
        yield f"result/{position}", TRAILS + "answers", (_call(answers), "")
        yield "", PROV + "wasGeneratedBy", (_call(answers), "")


def _statements(part: str, pairs: Iterable[tuple[str, Term]]) -> Iterator[Statement]:
    return ((part, name, comparable(term)) for name, term in pairs)


def _own_pairs(turn: Turn) -> Iterator[tuple[str, Term]]:
    own = turn.own
    yield TYPE, (TRAILS + "Turn", "")
    yield TYPE, (PROV + "Entity", "")
    datatype = turn.datatype if turn.datatype in (JSON, REDACTED) else STRING
    yield PROV + "value", ("" if turn.redacted else turn.text, datatype)
    yield from _kept(own, {**_OWN, TRAILS + "meta": JSON})
    yield from ((TRAILS + "sourceId", (text, STRING)) for text, _ in own.get(TRAILS + "sourceId", []))
    if "quote" in turn.facts:
        yield from _kept(own, _QUOTE)
    if "result" in turn.facts or "taken" in turn.facts:
        yield from _kept(own, _RESULT)
    if "compaction" in turn.facts:
        yield TYPE, (TRAILS + "SummaryTurn", "")
        yield from _kept(own, _SUMMARY)
    for position in range(len(turn.results)):
        yield TRAILS + "toolResult", (f"{turn.iri}/result/{position}", "")
    for position in range(len(turn.payloads)):
        yield TRAILS + "payload", (f"{turn.iri}/payload/{position}", "")
    if turn.copying is not None:
        yield PROV + "wasGeneratedBy", (turn.copying, "")
        return
    if "compaction" in turn.facts and "compaction" in turn.parts:
        yield PROV + "wasGeneratedBy", (f"{turn.iri}/compaction", "")
    if "model" in turn.parts:
        yield PROV + "wasGeneratedBy", (f"{turn.iri}/model", "")


def _made_by(turn: Turn, activity: str) -> Iterator[tuple[str, Term]]:
    """Yield what an activity that generated a turn is, or what a copied turn keeps of it."""
    if turn.copying is not None:
        yield TYPE, (TRAILS + activity + "Copy", "")
        yield TRAILS + "keptWith", (turn.iri, "")
        return
    yield TYPE, (TRAILS + activity, "")
    yield PROV + "wasAssociatedWith", (turn.author_iri, "")


def _model_pairs(turn: Turn, names: dict[int, str]) -> Iterator[tuple[str, Term]]:
    model = turn.parts["model"]
    yield from _made_by(turn, "ModelCall")
    yield from _kept(model, {**_MODEL, **(_CALLED if turn.copying else {})})
    told = {name: [_linked(name, term) for term in terms] for name, terms in model.items()}
    yield from _kept(told, _SHOWN_BY_COPY if turn.copying else _SHOWN_BY_CALL)
    yield from ((TRAILS + "leftOut", (text, INTEGER)) for text, _ in model.get(TRAILS + "leftOut", []))
    shown = turn.facts.get("called", {}).get("summary")
    if shown is not None:
        yield TRAILS + "contextSummary", ("shown:" + names.get(shown, ""), "")
    reported = json.loads(first_value(model, TRAILS + "usage") or "{}")
    if not isinstance(reported, dict):
        return
    stored = {(name, term) for name, terms in model.items() for term in terms}
    counted = [set(_figures(each(reported), model)) for each in (figures_of, older_figures_of)]
    yield from next((figures for figures in counted if figures <= stored), counted[0])


def _figures(figures: dict[str, Any], model: Properties) -> Iterator[tuple[str, Term]]:
    """Yield what is stored of a usage; a cost that is a whole number is one in older stores."""
    for name, figure in figures.items():
        prop = TRAILS + name
        if isinstance(figure, int):
            yield prop, (str(figure), INTEGER)
        else:
            older = str(figure).isdigit() and model.get(prop, [("", "")])[0][1] == INTEGER
            yield prop, (format(figure, "f"), INTEGER if older else DECIMAL)


def _compacting_pairs(turn: Turn) -> Iterator[tuple[str, Term]]:
    yield from _made_by(turn, "Compaction")
    if turn.said["time"] and turn.copying is None:
        yield PROV + "endedAtTime", turn.own[PROV + "generatedAtTime"][0]
    other = "used" if turn.copying else "previousSummary"
    kept = {name: kind for name, kind in _COMPACTING.items() if not name.endswith(other)}
    yield from _kept(turn.parts["compaction"], kept)


def _call_pairs(turn: Turn, call: Properties) -> Iterator[tuple[str, Term]]:
    yield TYPE, (TRAILS + ("ToolCall" if turn.copying is None else "ToolCallCopy"), "")
    yield (PROV + "wasStartedBy" if turn.copying is None else TRAILS + "keptWith"), (turn.iri, "")
    for name in ("callId", "toolName"):
        yield TRAILS + name, (first_value(call, TRAILS + name) or "", STRING)
    yield from _kept({TRAILS + "arguments": [("", JSON)], **call}, {TRAILS + "arguments": JSON})


def _result_pairs(result: Properties) -> Iterator[tuple[str, Term]]:
    call_id = first_value(result, TRAILS + "callId") or ""
    yield TYPE, (TRAILS + "ToolResult", "")
    yield TRAILS + "callId", (call_id, STRING)
    yield TRAILS + "isError", ("true" if first_value(result, TRAILS + "isError") == "true" else "false", BOOLEAN)
    yield from _kept(result, _TOLD_OF_TOOLS)


def _payload_pairs(payload: Properties) -> Iterator[tuple[str, Term]]:
    yield TYPE, (TRAILS + "PayloadReference", "")
    yield from _kept(payload, _OF_PAYLOAD)
    left = TRAILS + ("payloadDigest" if TRAILS + "payloadDigest" in payload else "payloadBytes")
    yield left, (only_value(payload, left)[0], REDACTED if left.endswith("Digest") else "")


def stands_as(turn: Turn) -> Iterator[Statement]:
    """Yield what the file says of a turn. A call that it answers is named by turn and place: copies differ in the session."""
    for part, properties in turn.parts.items():
        for name, terms in properties.items():
            if name == PROV + "alternateOf" and not part:
                continue
            for term in terms:
                yield part, name, comparable(_linked(name, term))


LINKS = (PROV + "wasGeneratedBy", TRAILS + "answers", TRAILS + "answersCopy")


def _linked(name: str, term: Term) -> Term:
    """Return a link by what it names in a session, not by which session: copies of it differ in that."""
    if name in LINKS:
        return _call(term[0]), term[1]
    return ("shown:" + term[0].partition("/")[2], term[1]) if name in SHOWN_LINKS else term


SHOWN_LINKS = tuple(TRAILS + name for name in ("contextSummary", "usedPrompt", "keptPrompt"))


def _call(iri: str) -> str:
    return "call:" + iri.partition("/")[2] if "/call/" in iri else iri
