"""The published test vectors: they are what the rules say, and the package and its verifier give them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support import digest_vectors
from trails.integrity import digests
from trails.integrity.verifier import digest_rules
from trails.model.values import (
    Call,
    Compaction,
    ContextUsed,
    Derivation,
    Facts,
    ModelCall,
    PayloadReference,
    Quote,
    ToolCall,
    ToolResult,
)

_PUBLISHED: dict[str, Any] = json.loads(digest_vectors.FILE.read_text())
_CASES: list[dict[str, Any]] = _PUBLISHED["cases"]


def _of(rule: str) -> list[dict[str, Any]]:
    return [case for case in _CASES if case["rule"] == rule]


def test_the_published_vectors_are_those_that_the_rules_give() -> None:
    assert digest_vectors.FILE.read_text() == digest_vectors.text()
    # printf 'trails/genesis/1' | sha256sum
    assert _PUBLISHED["genesis"] == "f1c310338f02c2dcef2042590e07f699c0d4155d628a8476d51fe9fb1782cab4"


def test_the_chain_starts_with_the_published_constant() -> None:
    assert _PUBLISHED["genesis"] == digests.GENESIS


@pytest.mark.parametrize("case", _of("salted"))
def test_a_salted_text_has_the_published_digest(case: dict[str, Any]) -> None:
    fields = case["fields"]
    assert digests.salted_digest(**fields) == case["digest"]


@pytest.mark.parametrize("case", _of("turn"))
def test_a_turn_has_the_published_digest(case: dict[str, Any]) -> None:
    said = dict(case["fields"])
    before, content, facts, time = (said.pop(name) for name in ("previous", "content", "facts", "time"))
    named = digest_rules.digest_names(said["branch"], said["role"], said["author"])
    assert digest_rules.chain_digests(before, said["index"], named, time, content, facts=facts) == case["digest"]
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(time)) if time else None
    index = int(said.pop("index"))
    made = digests.turn_digest(previous=before, index=index, time=when, content=content, facts=facts, **said)
    assert made == case["digest"]


@pytest.mark.parametrize("case", _of("facts"))
def test_facts_have_the_published_digest(case: dict[str, Any]) -> None:
    assert digest_rules.facts_digest(case["of"]) == case["digest"]
    assert digests.facts_json_digest(case["fields"]["json"]) == case["digest"]


def test_the_facts_of_values_are_the_published_ones() -> None:
    salt = digest_vectors.SALT
    called = Facts(
        model_call=ModelCall(model="m-1", usage_json='{"input_tokens":3}'),
        tool_calls=(ToolCall(id="c1", name="weather", arguments='{"place":"Z\u00fcrich"}'),),
        meta_json='{"k":[1]}',
    )
    answered = Facts(tool_results=(ToolResult(call_id="c1", is_error=True),))
    summary = Facts(
        compaction=Compaction(
            summarised_through=1,
            tokens_before=100,
            trigger="manual",
            summarised_from=0,
            previous_summary="urn:trails:session:s/4-00112233445566aa",
            request="Sum up",
        ),
        source_ids=("aa", "ab"),
        quoted_from=Quote(session_id="q", index=3, digest="ab" * 32),
        derived_from=Derivation(session_id="r", number=7, digest="cd" * 32),
    )
    when = datetime(2026, 1, 2, 3, 4, 4, tzinfo=UTC)
    later, last = when + timedelta(seconds=1), when + timedelta(seconds=2)
    context = ContextUsed(through=5, summary=3, left_out=(4, 5))
    call = Call(started=when, ended=later, provider="acme", prompt=2, context=context)
    told = Facts(model_call=ModelCall(model="m-1", call=call))
    ran = ToolResult(
        call_id="c1",
        started=later,
        ended=last,
        outcome="completed",
        approved_by="urn:trails:principal:Ann%20B",
        tool="read file",
        server="files",
        version="1.2",
    )
    refused = ToolResult(call_id="c2", is_error=True, outcome="refused", refused_by="urn:trails:agent:guard")
    tools = Facts(tool_results=(ran, refused))
    taken = Facts(derived_from=Derivation(session_id="f", index=7, digest="ef" * 32))
    state, empty = (
        PayloadReference(name=name, media_type=kind, digest=hashlib.sha256(data).hexdigest(), size=len(data))
        for name, kind, data in (("state", "application/json", b"{}"), (None, "application/octet-stream", b""))
    )
    payloads = Facts(payloads=(state, empty))
    made = [digests.facts_digest(facts, salt) for facts in (called, answered, summary, told, tools, taken, payloads)]
    assert made == [case["digest"] for case in _of("facts")]


@pytest.mark.parametrize("case", _of("prompt"))
def test_a_system_prompt_has_the_published_digest(case: dict[str, Any]) -> None:
    version, first, said = case["fields"].values()
    assert digest_rules.version_digest(version, first, said) == case["digest"]
    made = digests.prompt_digest(**case["of"], version=int(version), effective_from=int(first))
    assert made == case["digest"]


def test_a_score_has_the_published_digest_in_whatever_order_it_is_said() -> None:
    [case] = _of("score")
    fields = list(case["fields"].values())
    said = [(fields[3], fields[4], fields[5]), (fields[0], fields[1], fields[2])]
    assert digests.score_digest(said) == case["digest"]


def test_a_turn_as_it_stands_has_the_published_digest() -> None:
    [case] = _of("standing")
    assert digests.standing_digest(*case["fields"].values()) == case["digest"]


def test_the_published_chains_are_linked_and_a_fork_shares_what_lies_below_it() -> None:
    before = {case["digest"]: case["fields"]["previous"] for case in _of("turn")}
    chain, fork = _PUBLISHED["chain"], _PUBLISHED["fork"]
    for each in (chain, fork["chain"]):
        assert [before[digest] for digest in each] == [_PUBLISHED["genesis"], *each[:-1]]
    assert fork["chain"][: fork["at"]] == chain[: fork["at"]]
    assert fork["head_of_parent"] == chain[fork["at"] - 1]
