"""Read the turns of an export, and recompute their digests from what is said of them."""

from __future__ import annotations

import re
from typing import Any

from trails.integrity.verifier.digest_rules import (
    chain_digests,
    digest_names,
    facts_digest,
    salted_digest,
    standing_digest,
)
from trails.integrity.verifier.quads import (
    JSON,
    PROV,
    REDACTED,
    TRAILS,
    TYPE,
    Properties,
    first_number,
    first_value,
    index_of,
    only_value,
)
from trails.integrity.verifier.terms import UNNAMED, author_key, iri_of, microseconds, payload_digest, tool_of

CALL_TIMES = {
    "started": (PROV + "startedAtTime", TRAILS + "keptStart"),
    "ended": (PROV + "endedAtTime", TRAILS + "keptEnd"),
}
TOOL_TIMES = {"started": "toolStartedAt", "ended": "toolEndedAt"}
TOOL_PEOPLE = {"approved_by": "approvedBy", "refused_by": "refusedBy"}


def _property(field: str) -> str:
    """Return the property that holds a field of a compaction."""
    return TRAILS + re.sub("_(.)", lambda found: found[1].upper(), field)


class Turn:
    """One turn as the file says it: `parts` are its own properties ("") and those of its calls, results and the rest."""

    def __init__(self, iri: str, parts: dict[str, Properties]) -> None:
        own = parts[""]
        self.iri, self.parts, self.own = iri, parts, own
        self.name = iri.partition("/")[2]
        self.index = index_of(only_value(own, TRAILS + "index")[0])
        self.text, self.datatype = only_value(own, PROV + "value")
        self.digest, self.salt = only_value(own, TRAILS + "digest")[0], only_value(own, TRAILS + "salt")[0]
        self.author_iri, self.role = only_value(own, PROV + "wasAttributedTo")[0], only_value(own, TRAILS + "role")[0]
        time = own.get(PROV + "generatedAtTime", [])
        self.said = {
            "index": str(self.index),
            "branch": only_value(own, TRAILS + "branch")[0],
            "role": self.role,
            "author": author_key(self.author_iri),
            "time": str(microseconds(only_value(own, PROV + "generatedAtTime")[0])) if time else "",
        }
        self.redacted = self.datatype == REDACTED
        self.withheld = first_value(own, TRAILS + "factsDigest")
        self.made_with = first_value(own, TRAILS + "contentDigest")
        """The digest of its content as it was made, where it has another salt since."""
        self.taken: list[str] = ["content"] if self.redacted else []
        self.calls = self._numbered("call/")
        self.results = self._numbered("result/")
        self.payloads = self._numbered("payload/")
        self.facts = self._facts()
        acts = [iri for iri, _ in own.get(PROV + "wasGeneratedBy", []) if iri.startswith(iri_of(self.iri) + "/act/")]
        self.copying = acts[0] if acts else None
        """The copying by which it came: what it repeats of calls is none, and was made elsewhere. Up to format 2 None."""

    @property
    def is_summary(self) -> bool:
        """Whether it stands for turns before it."""
        return "compaction" in self.facts

    @property
    def is_unnamed(self) -> bool:
        """Whether the name of its author or its role was taken out."""
        return self.author_iri in UNNAMED or self.role == "redacted"

    def after(self, before: str) -> tuple[str, str]:
        """Return the digest that the turn should have after another, and the one over what stands there now."""
        content = self.salt if self.redacted else self._salted(self.datatype)
        left = facts_digest(self.facts)
        facts = self.withheld or left
        made = self._chained(before, self.made_with or content, facts)
        return made, standing_digest(self._chained(before, content, facts), left)

    def _chained(self, before: str, content: str, facts: str) -> str:
        said = self.said
        named = digest_names(said["branch"], said["role"], said["author"])
        return chain_digests(before, said["index"], named, said["time"], content, facts=facts)

    def _salted(self, datatype: str) -> str:
        return salted_digest("json" if datatype == JSON else "text", self.salt, self.text)

    def _numbered(self, kind: str) -> list[Properties]:
        found = {index_of(name[len(kind) :]): part for name, part in self.parts.items() if name.startswith(kind)}
        return [found[position] for position in sorted(found)]

    def _covered(self, kind: str, properties: Properties, name: str) -> str | None:
        """Return the salted_digest digest of a text, or the one that was left of it."""
        for text, datatype in properties.get(TRAILS + name, []):
            if datatype != REDACTED:
                return salted_digest(kind, self.salt, text)
            self.taken.append(kind)
            return text
        return None

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        model = self.parts.get("model")
        if model is not None:
            facts["model"] = [first_value(model, TRAILS + name) for name in ("model", "usage", "stopReason")]
            facts["called"] = self._called(model)
        facts["calls"] = [
            [
                first_value(call, TRAILS + "callId") or "",
                first_value(call, TRAILS + "toolName") or "",
                self._covered("arguments", call, "arguments") or salted_digest("arguments", self.salt, ""),
            ]
            for call in self.calls
        ]
        facts["results"] = [self._result(each) for each in self.results]
        if (TRAILS + "SummaryTurn", "") in self.own.get(TYPE, []):
            facts["compaction"] = self._compaction()
        facts["payloads"] = [self._payload(each) for each in self.payloads]
        facts["source"] = sorted(text for text, _ in self.own.get(TRAILS + "sourceId", []))
        self._origins(facts)
        facts = {name: value for name, value in facts.items() if value}
        meta = self._covered("meta", self.own, "meta")
        return facts if meta is None else {**facts, "meta": meta}

    def _called(self, model: Properties) -> dict[str, Any]:
        """Return what is told of the model call; a summary is covered by its index, a system prompt by its version."""
        times = {
            name: first_value(model, of_call) or first_value(model, of_copy)
            for name, (of_call, of_copy) in CALL_TIMES.items()
        }
        prompt = first_value(model, TRAILS + "usedPrompt") or first_value(model, TRAILS + "keptPrompt")
        summary = first_value(model, TRAILS + "contextSummary")
        told = {
            **{name: None if text is None else microseconds(text) for name, text in times.items()},
            "provider": first_value(model, TRAILS + "provider"),
            "prompt": None if prompt is None else index_of(prompt.rpartition("/")[2]),
            "through": first_number(model, TRAILS + "contextThrough"),
            "summary": None if summary is None else index_of(summary.partition("/")[2].partition("-")[0]),
            "left_out": sorted(index_of(text) for text, _ in model.get(TRAILS + "leftOut", [])) or None,
        }
        return {name: value for name, value in told.items() if value is not None}

    def _result(self, result: Properties) -> list[Any]:
        """Return an answer to a tool call, with what is told of the call where something is."""
        tool = first_value(result, TRAILS + "tool")
        name, server, version = (None, None, None) if tool is None else tool_of(tool)
        times = {name: first_value(result, TRAILS + each) for name, each in TOOL_TIMES.items()}
        people = {name: first_value(result, TRAILS + each) for name, each in TOOL_PEOPLE.items()}
        told = {
            **{each: None if text is None else microseconds(text) for each, text in times.items()},
            "outcome": first_value(result, TRAILS + "toolOutcome"),
            **{each: None if iri is None else author_key(iri) for each, iri in people.items()},
            "tool": name,
            "server": server,
            "version": version,
        }
        told = {each: value for each, value in told.items() if value is not None}
        found = [first_value(result, TRAILS + "callId") or "", first_value(result, TRAILS + "isError") == "true"]
        return [*found, told] if told else found

    def _payload(self, payload: Properties) -> list[Any]:
        named = [first_value(payload, TRAILS + name) for name in ("payloadName", "mediaType")]
        covered = self._covered("payload", payload, "payloadDigest")
        if covered is None:
            covered = salted_digest(
                "payload", self.salt, payload_digest(only_value(payload, TRAILS + "payloadBytes")[0])
            )
        return [*named, index_of(only_value(payload, TRAILS + "byteCount")[0]), covered]

    def _compaction(self) -> dict[str, Any]:
        activity = self.parts.get("compaction", {})
        own = self.own
        numbers = ("summarised_through", "first_kept", "tokens_before", "tokens_after")
        always: dict[str, Any] = {name: first_number(own, _property(name)) for name in numbers}
        used = first_value(activity, PROV + "used") or first_value(activity, TRAILS + "previousSummary")
        later = {
            **{name: first_number(own, _property(name)) for name in ("summarised_from", "summarised_turns")},
            **{name: first_number(activity, _property(name)) for name in ("max_summary_tokens", "duration_ms")},
            "max_summary_rule": first_value(activity, TRAILS + "maxSummaryRule"),
            "request": self._covered("request", activity, "request"),
            "previous_summary": None if used is None else used.rpartition("/")[2],
        }
        always["trigger"] = first_value(own, TRAILS + "trigger")
        return {**always, **{name: value for name, value in later.items() if value is not None}}

    def _origins(self, facts: dict[str, Any]) -> None:
        for fact, link, kept in (
            ("quote", "wasQuotedFrom", "quotedDigest"),
            ("taken", "wasDerivedFrom", "resultDigest"),
        ):
            source, digest = first_value(self.own, PROV + link), first_value(self.own, TRAILS + kept) or ""
            if source is not None and fact == "taken" and "/ledger/" in source:
                facts["result"] = [index_of(source.rpartition("/ledger/")[2]), digest]
            elif source is not None:
                place, _, short = source.partition("/")[2].partition("-")
                if short != digest[:16]:
                    raise ValueError(f"it was made from {source}, which has not the digest that it names")
                facts[fact] = [index_of(place), digest]
