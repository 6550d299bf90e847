"""Digests: written out here by hand from the documented encoding, and never a second use of the code under test."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trails import Repository
from trails.integrity import digests
from trails.model.values import Facts, ToolCall
from trails.rdf import vocab


def _fields(tag: str, *fields: str) -> str:
    whole = tag.encode()
    for field in fields:
        data = field.encode()
        whole += len(data).to_bytes(8, "big") + data
    return hashlib.sha256(whole).hexdigest()


def test_the_digest_of_a_plain_turn_is_the_documented_hash(store: Repository) -> None:
    session = store.create(id="s", principal="Ann B")
    turn = session.append("user", "h\u00e9", time=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
    session.persist()
    [quad] = store.store.quads((None, vocab.SALT, None, None))
    salt = quad.object.value  # type: ignore[union-attr] # a literal
    assert len(salt) == 32
    start = hashlib.sha256(b"trails/genesis/1").hexdigest()
    content = _fields("trails/salted/1", "text", salt, "h\u00e9")
    # 1767323045678901: `date -ud 2026-01-02T03:04:05 +%s` followed by the microseconds
    expected = _fields("trails/turn/1", start, "0", "main", "user", "principal:Ann B", "1767323045678901", content, "")
    assert turn.digest == expected
    assert store.load("s").head == expected


def test_the_digest_of_a_turn_with_facts_covers_every_one_of_them(memory: Repository) -> None:
    session = memory.create(id="s", agent="planner")
    turn = session.append(
        "assistant",
        "x",
        time=datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        model="m",
        usage={"input_tokens": 3},
        stop_reason="stop",
        tool_calls=[{"id": "c", "name": "ls", "arguments": {"b": 1, "a": 2}}],
        tool_call_id="before",
        is_error=True,
        meta={"k": "v"},
    )
    salt = session.worktree._drafts[0].salt
    facts = {
        "model": ["m", '{"input_tokens":3}', "stop"],
        "calls": [["c", "ls", _fields("trails/salted/1", "arguments", salt, '{"b":1,"a":2}')]],
        "results": [["before", True]],
        "meta": _fields("trails/salted/1", "meta", salt, '{"k":"v"}'),
    }
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = _fields(
        "trails/turn/1",
        hashlib.sha256(b"trails/genesis/1").hexdigest(),
        "0",
        "main",
        "assistant",
        "agent:planner",
        "-1000000",
        _fields("trails/salted/1", "text", salt, "x"),
        _fields("trails/facts/1", canonical),
    )
    assert turn.digest == expected
    session.discard_pending()


def test_the_start_of_every_chain_is_one_fixed_constant() -> None:
    # printf 'trails/genesis/1' | sha256sum
    assert digests.GENESIS == "f1c310338f02c2dcef2042590e07f699c0d4155d628a8476d51fe9fb1782cab4"


def test_two_texts_that_are_equal_have_different_digests_because_of_their_salts(memory: Repository) -> None:
    one, two = memory.create(), memory.create()
    when = datetime(2026, 1, 1, tzinfo=UTC)
    assert one.append("user", "same", time=when).digest != two.append("user", "same", time=when).digest
    one.discard_pending()
    two.discard_pending()


_fields_of_a_turn = st.fixed_dictionaries(
    {
        "previous": st.text(),
        "index": st.integers(0, 10**6),
        "branch": st.text(),
        "role": st.text(),
        "author": st.text(),
        "time": st.none()
        | st.integers(0, 10**9).map(lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)),
        "content": st.text(),
        "facts": st.text(),
    }
)


@given(one=_fields_of_a_turn, two=_fields_of_a_turn)
def test_turns_that_differ_in_any_field_have_different_digests(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert (digests.turn_digest(**one) == digests.turn_digest(**two)) == (one == two)
    for name in one:
        mixed = one | {name: two[name]}
        assert (digests.turn_digest(**mixed) == digests.turn_digest(**one)) == (mixed == one)


@given(text=st.text(min_size=1), at=st.integers(0, 100), other=st.text(min_size=1))
def test_text_cannot_be_moved_from_one_field_to_the_next(text: str, at: int, other: str) -> None:
    cut = at % len(text)
    whole = digests.salted_digest("text", text, other)
    assert digests.salted_digest("text", text[:cut], text[cut:] + other) != whole or text[:cut] == text


def test_a_redacted_argument_enters_with_its_digest_so_the_facts_digest_stays_the_same() -> None:
    plain = Facts(tool_calls=(ToolCall(id="c", name="n", arguments='{"secret":1}'),), meta_json='{"a":1}')
    redacted = Facts(
        tool_calls=(
            ToolCall(
                id="c", name="n", arguments=None, withheld=digests.salted_digest("arguments", "salt", '{"secret":1}')
            ),
        ),
        meta_withheld=digests.salted_digest("meta", "salt", '{"a":1}'),
    )
    assert digests.facts_digest(plain, "salt") == digests.facts_digest(redacted, "any other salt")


def test_a_forked_child_draws_none_of_the_salts_that_its_parent_draws() -> None:
    digests.new_salt()  # the parent holds others in reserve now
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's lines run in another process
        try:
            os.write(write, " ".join(digests.new_salt() for _ in range(1_000)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = pipe.read().split()
    os.waitpid(child, 0)
    ours = [digests.new_salt() for _ in range(1_000)]
    assert len({*theirs, *ours}) == 2_000
