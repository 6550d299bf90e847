"""What is told of a turn's model call, and of the tool calls that its results answer: recorded, kept with copies, guarded."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import Call, ContextUsed, InvalidInput, Repository, Session, ToolResult
from trails.exchange.file_import import export_session, import_path
from trails.exchange.rdf_files import import_rdf
from trails.history.records import subagent_runs
from trails.integrity.verifier import answers, export
from trails.provenance import Statement, ontology, validate
from trails.provenance.session_export import ExportScope, export_parts
from trails.rdf import vocab
from trails.rdf.subagent_records import Run, RunContent
from trails.store import Change

pytestmark = pytest.mark.any_store

START = datetime(2026, 5, 4, 10, tzinfo=UTC)
FILES_LS = "urn:trails:tool:ls/files/1.2"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


CALLS = [{"id": "k1", "name": "ls", "arguments": {}}, {"id": "k2", "name": "rm", "arguments": {}}]
SHOWN = Call(
    started=at(3), ended=at(4), provider="acme", prompt=1, context=ContextUsed(through=2, summary=1, left_out=(2,))
)
RAN = ToolResult(
    call_id="k1", started=at(5), ended=at(6), outcome="completed", approved_by="alice", server="files", version="1.2"
)


def told(store: Repository) -> Session:
    """A session of six turns: all that can be told of the model call of turn 3 and of the answers 4 and 5."""
    session = store.create(id="s", principal="alice", agent="planner", system="Be brief")
    session.append("user", "What is there?", time=at(0))
    session.append("summary", "Nothing was said", compaction=trails.Compaction(summarised_through=0), time=at(1))
    session.append("user", "Please", time=at(2))
    session.append("assistant", "I look.", model="m", call=SHOWN, tool_calls=CALLS)
    session.append("tool", "plan.md", tool_results=[RAN])
    refused = {"call_id": "k2", "is_error": True, "outcome": "refused", "refused_by": "agent:guard"}
    session.append("tool", "No", tool_results=[refused], time=at(7))
    session.persist()
    return session


def said_of(store: Repository, iri: str) -> set[tuple[str, str]]:
    """What a store says of a node, by hand-made short names."""
    found = store.store.quads((NamedNode(iri), None, None, None))
    return {(str(quad.predicate.value).rpartition("#")[2], str(getattr(quad.object, "value", ""))) for quad in found}


def test_all_that_is_told_of_calls_comes_back(store: Repository) -> None:
    session = told(store)
    loaded = store.load("s")
    assert loaded.turns == session.turns
    assert tuple(store.reader.turns_at("s", range(6))) == session.turns
    assert loaded.turns[3].call == SHOWN
    [ran], [refused] = (turn.tool_results for turn in loaded.turns[4:])
    assert ran == RAN.model_copy(update={"approved_by": "urn:trails:principal:alice", "tool": "ls"})
    assert refused.refused_by == "urn:trails:agent:guard"
    assert (refused.outcome, refused.is_error, refused.started, refused.tool) == ("refused", True, None, None)
    assert store.verify().findings == ()


def test_it_stands_in_the_graph_in_the_terms_of_prov_and_of_trails(store: Repository) -> None:
    turns = told(store).turns
    assert said_of(store, f"{turns[3].iri}/model") == {
        ("type", "https://w3id.org/trails#ModelCall"),
        ("wasAssociatedWith", "urn:trails:agent:planner"),
        ("model", "m"),
        ("startedAtTime", "2026-05-04T10:00:03Z"),
        ("endedAtTime", "2026-05-04T10:00:04Z"),
        ("provider", "acme"),
        ("usedPrompt", "urn:trails:session:s/system/1"),
        ("contextThrough", "2"),
        ("contextSummary", turns[1].iri),
        ("leftOut", "2"),
    }
    assert said_of(store, f"{turns[4].iri}/result/0") == {
        ("type", "https://w3id.org/trails#ToolResult"),
        ("callId", "k1"),
        ("isError", "false"),
        ("answers", f"{turns[3].iri}/call/0"),
        ("toolStartedAt", "2026-05-04T10:00:05Z"),
        ("toolEndedAt", "2026-05-04T10:00:06Z"),
        ("toolOutcome", "completed"),
        ("approvedBy", "urn:trails:principal:alice"),
        ("tool", FILES_LS),
    }
    assert {("toolOutcome", "refused"), ("refusedBy", "urn:trails:agent:guard")} < said_of(
        store, f"{turns[5].iri}/result/0"
    )
    assert said_of(store, FILES_LS) == {
        ("type", "https://w3id.org/trails#Tool"),
        ("toolName", "ls"),
        ("toolServer", "files"),
        ("toolVersion", "1.2"),
    }
    assert said_of(store, "urn:trails:tool:rm") == {("type", "https://w3id.org/trails#Tool"), ("toolName", "rm")}


def test_a_plain_turn_has_ten_quads_and_a_call_of_which_nothing_is_told_adds_none(store: Repository) -> None:
    session = store.create(id="plain")
    session.append("user", "Hello")
    session.append("assistant", "Hi", model="m", call=Call())
    session.persist()
    first, second = session.turns
    assert len(store.store.quads((NamedNode(first.iri), None, None, None))) == 10
    assert said_of(store, f"{second.iri}/model") == {
        ("type", "https://w3id.org/trails#ModelCall"),
        ("wasAssociatedWith", "urn:trails:agent:agent"),
        ("model", "m"),
    }
    assert second.call is None


def test_json_says_what_is_told_and_nothing_of_what_is_not(memory: Repository) -> None:
    turns = told(memory).turns
    assert turns[3].to_dict()["call"] == {
        "started": "2026-05-04T10:00:03+00:00",
        "ended": "2026-05-04T10:00:04+00:00",
        "provider": "acme",
        "prompt": 1,
        "context": {"through": 2, "summary": 1, "left_out": (2,)},
    }
    assert turns[4].to_dict()["tool_results"] == [
        {
            "call_id": "k1",
            "is_error": False,
            "started": "2026-05-04T10:00:05+00:00",
            "ended": "2026-05-04T10:00:06+00:00",
            "outcome": "completed",
            "approved_by": "alice",
            "server": "files",
            "version": "1.2",
            "tool": "ls",
        }
    ]
    plain = asked(memory).append("tool", "x", tool_call_id="k1")
    assert plain.to_dict()["tool_results"] == [{"call_id": "k1", "is_error": False}]


# --- whose answer it is


def asked(store: Repository) -> Session:
    session = store.create(id="t", principal="alice", agent="planner")
    session.append("assistant", "I look.", tool_calls=[*CALLS, {"id": "k3", "name": "ls", "arguments": {"all": True}}])
    return session


@pytest.mark.parametrize("role", ["tool", "toolResult"])
def test_an_answer_is_attributed_to_its_tool(memory: Repository, role: str) -> None:
    session = asked(memory)
    answer = session.append(role, "plan.md", tool_call_id="k1")
    assert (answer.author_iri, answer.author) == ("urn:trails:tool:ls", "ls")
    session.persist()
    assert memory.load("t").turns == session.turns


def test_answers_of_one_tool_are_its_and_those_of_several_the_agents(memory: Repository) -> None:
    session = asked(memory)
    both = session.append("tool", "a b", tool_results=[{"call_id": "k1"}, {"call_id": "k3"}])
    mixed = session.append("tool", "a b", tool_results=[{"call_id": "k1"}, {"call_id": "k2"}])
    servers = session.append("tool", "a b", tool_results=[{"call_id": "k1", "server": "x"}, {"call_id": "k3"}])
    unknown = session.append("tool", "a", tool_call_id="nobody's")
    nothing = session.append("tool", "a")
    assert both.author_iri == "urn:trails:tool:ls"
    assert {each.author_iri for each in (mixed, servers, unknown, nothing)} == {"urn:trails:agent:planner"}


def test_a_stated_author_stays_and_so_does_the_author_of_other_roles(memory: Repository) -> None:
    session = asked(memory)
    stated = session.append("tool", "a", tool_call_id="k1", author="agent:runner")
    by_iri = session.append("tool", "a", tool_call_id="k1", author="urn:trails:tool:ls//2")
    part = {"type": "tool_result", "tool_use_id": "k1", "content": "plan.md"}
    user = session.append("user", [part])
    assert [each.author_iri for each in (stated, by_iri, user)] == [
        "urn:trails:agent:runner",
        "urn:trails:tool:ls//2",
        "urn:trails:principal:alice",
    ]


def test_the_newest_call_with_an_id_says_which_tool_it_was_in_a_fork_too(store: Repository) -> None:
    session = asked(store)
    session.append("assistant", "Again.", tool_calls=[{"id": "k1", "name": "find", "arguments": {}}])
    session.persist()
    forks = [session.fork(index) for index in (1, 2)]
    assert [fork.append("tool", "a", tool_call_id="k1").author for fork in forks] == ["ls", "find"]
    assert [fork.persist() for fork in forks] == [1, 1]


def test_what_is_told_of_an_answer_joins_the_one_in_the_content(memory: Repository) -> None:
    session = asked(memory)
    content = [
        {"type": "tool_result", "tool_use_id": "k1", "content": "a", "is_error": True},
        {"type": "tool_result", "tool_use_id": "k3", "content": "b"},
    ]
    turn = session.append("tool", content, tool_results=[{"call_id": "k3", "outcome": "completed"}, {"call_id": "k1"}])
    assert [(each.call_id, each.is_error, each.outcome) for each in turn.tool_results] == [
        ("k1", True, None),
        ("k3", False, "completed"),
    ]


def test_a_turn_is_from_when_its_call_or_its_tools_ended(memory: Repository) -> None:
    session = asked(memory)
    before = datetime.now(UTC)
    answer = session.append("assistant", "x", call=Call(ended=at(1)))
    tools = session.append(
        "tool", "a b", tool_results=[{"call_id": "k1", "ended": at(3)}, {"call_id": "k3", "ended": at(2)}]
    )
    half = session.append("tool", "a b", tool_results=[{"call_id": "k1", "ended": at(3)}, {"call_id": "k3"}])
    stated = session.append("tool", "a", time=at(9), tool_results=[{"call_id": "k1", "ended": at(3)}])
    assert (answer.time, tools.time, stated.time) == (at(1), at(3), at(9))
    assert half.time is not None
    assert half.time >= before


# --- what is refused


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"call": Call(started=at(2), ended=at(1))}, "ended at .* before it started"),
        ({"call": Call(started=at(2)), "time": at(1)}, "the turn is from .* started at"),
        ({"call": Call(ended=at(2)), "time": at(3)}, "the turn is from .* ended at"),
        ({"call": Call(started=datetime(2026, 1, 1))}, "has no time zone"),  # noqa: DTZ001 - the case
        ({"call": Call(provider="")}, "provider"),
        ({"call": Call(prompt=0)}, "counted from 1"),
        ({"call": Call(prompt=2)}, "no version 2 .* its newest is 1"),
        ({"call": {"provider": "acme"}}, "must be a trails.Call"),
        ({"call": Call(context=ContextUsed(through=2))}, "through 2, and only 2 turns"),
        ({"call": Call(context=ContextUsed(through=-1))}, "0 or more"),
        ({"call": Call(context=ContextUsed(summary=0))}, "turn 0 is no summary"),
        ({"call": Call(context=ContextUsed(through=0, summary=1))}, "summary 1"),
        ({"call": Call(context=ContextUsed(summary=1, left_out=(0,)))}, "left out 0"),
        ({"call": Call(context=ContextUsed(summary=1, left_out=(1,)))}, "left out 1"),
        ({"call": Call(context=ContextUsed(through=0, left_out=(1,)))}, "left out 1"),
        ({"tool_results": [{"call_id": "k", "started": at(2), "ended": at(1)}]}, "ended at .* before it started"),
        ({"tool_results": [{"call_id": "k", "outcome": "fine"}]}, "outcome"),
        ({"tool_results": [{"call_id": "k", "answer": 1}]}, "has no 'answer'"),
        ({"tool_results": [{"call_id": ""}]}, "call_id"),
        ({"tool_results": [{"call_id": "k"}, {"call_id": "k"}]}, "twice"),
        ({"tool_results": {"call_id": "k"}}, "several mappings"),
        ({"tool_results": ["k"]}, "must be a mapping or a ToolResult"),
        ({"tool_results": [{"call_id": "k", "approved_by": ""}]}, "approved_by"),
        ({"tool_results": [{"call_id": "k", "approved_by": "urn:trails:tool:ls"}]}, "approved_by"),
        ({"tool_results": [{"call_id": "k", "server": "files"}]}, "no turn before it called"),
        ({"author": "urn:trails:tool:a/b/c/d"}, "author"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_appended(memory: Repository, given: Any, error: str) -> None:
    session = memory.create(id="r", system="Be brief")
    session.append("user", "Hello", time=at(0))
    session.append("summary", "Hello was said", compaction=trails.Compaction(summarised_through=0), time=at(0))
    with pytest.raises(InvalidInput, match=error):
        session.append("assistant", "x", **given)
    assert len(session) == 2
    session.persist()
    assert memory.verify().ok


def test_a_tool_is_nobody_who_does_things(memory: Repository) -> None:
    told(memory)
    with pytest.raises(InvalidInput, match="not the IRI of a principal or an agent"):
        memory.delete("s", by="urn:trails:tool:ls")


# --- copies


def test_copies_keep_what_is_told_and_are_no_activities(store: Repository) -> None:
    turns = told(store).turns
    fork = store.load("s").fork(6, id="f")
    fork.append("assistant", "y", call=Call(prompt=1, context=ContextUsed(summary=1)))
    fork.append("tool", "again", tool_results=[{"call_id": "k2", "outcome": "timed-out"}])
    fork.persist()
    before = store.load("f").turns
    store.detach("f")
    store.flatten("s", id="flat")
    for name in ("f", "flat"):
        copied = store.load(name).turns
        assert [turn.facts for turn in copied[:6]] == [turn.facts for turn in turns]
        assert [turn.digest for turn in copied[:6]] == [turn.digest for turn in turns]
        assert said_of(store, f"{copied[3].iri}/model") >= {
            ("type", "https://w3id.org/trails#ModelCallCopy"),
            ("keptStart", "2026-05-04T10:00:03Z"),
            ("keptEnd", "2026-05-04T10:00:04Z"),
            ("keptPrompt", f"urn:trails:session:{name}/system/1"),
            ("contextSummary", copied[1].iri),
            ("provider", "acme"),
        }
        assert not {"startedAtTime", "endedAtTime", "usedPrompt"} & {
            name for name, _ in said_of(store, f"{copied[3].iri}/model")
        }
    assert [turn.facts for turn in store.load("f").turns] == [turn.facts for turn in before]
    assert store.verify().findings == ()
    store.delete("s")
    assert store.verify().findings == ()


def test_a_picked_turn_keeps_times_and_provider_and_no_index_of_another_transcript(store: Repository) -> None:
    told(store)
    target = store.create(id="g")
    picked = target.cherry_pick("s", [3, 4, 5])
    target.persist()
    assert picked[0].call == Call(started=at(3), ended=at(4), provider="acme")
    assert [turn.tool_results for turn in picked] == [turn.tool_results for turn in store.load("s").turns[3:]]
    assert [turn.author_iri for turn in picked[1:]] == [FILES_LS, "urn:trails:tool:rm"]
    assert store.load("g").turns == picked
    assert store.verify().findings == ()


def test_an_export_brings_it_all_exactly_and_verifies_by_itself(store: Repository, memory: Repository) -> None:
    told(store)
    store.load("s").fork(4, id="f").persist()
    fork = store.load("f")
    fork.append("tool", "other", tool_results=[{"call_id": "k1", "server": "disk"}])
    fork.persist()
    out = io.BytesIO()
    export_session(store, "f", "nquads", out)
    assert answers.report(export.Export(io.BytesIO(out.getvalue())))["findings"] == []
    assert import_rdf(memory, out.getvalue(), "nquads").problems == []
    assert memory.verify().findings == ()
    again = io.BytesIO()
    export_session(memory, "f", "nquads", again)
    assert again.getvalue() == out.getvalue()
    fork.append("tool", "more", tool_results=[{"call_id": "k2", "server": "disk"}])
    fork.persist()
    grown = io.BytesIO()
    export_session(store, "f", "nquads", grown)
    assert import_rdf(memory, grown.getvalue(), "nquads").problems == []
    assert memory.load("f").turns == fork.turns
    assert memory.verify().findings == ()


# --- what is guarded


NEW = frozenset(
    {
        *(vocab.PROVIDER, vocab.USED_PROMPT, vocab.CONTEXT_THROUGH, vocab.SUMMARY_SHOWN, vocab.LEFT_OUT),
        *(vocab.KEPT_START, vocab.KEPT_END, vocab.KEPT_PROMPT, vocab.STARTED_AT, vocab.TOOL_STARTED_AT),
        *(vocab.TOOL_ENDED_AT, vocab.TOOL_OUTCOME, vocab.APPROVED_BY, vocab.REFUSED_BY, vocab.TOOL_USED),
        *(vocab.TOOL_SERVER, vocab.TOOL_VERSION),
    }
)
"""The predicates of what is told."""


@pytest.mark.slow
def test_no_quad_of_what_is_told_is_altered_removed_or_added_unnoticed(memory: Repository) -> None:
    told(memory)
    memory.flatten("s", id="flat")
    quads = memory.store.quads((None, None, None, None))
    guarded = [q for q in quads if q.predicate in NEW or "urn:trails:tool:" in f"{q.subject}{q.object}"]
    guarded += [q for q in quads if str(q.subject).endswith("/model>") and q.predicate == vocab.ENDED_AT]
    assert {quad.predicate for quad in guarded} >= NEW
    unnoticed = []
    for quad in sorted(guarded, key=str):
        other = Quad(quad.subject, quad.predicate, _another(quad), quad.graph_name)
        for change in (Change(remove=[quad]), Change(add=[other], remove=[quad]), Change(add=[other])):
            memory.store.commit(change)
            if memory.verify().ok:
                unnoticed.append(str(change))
            memory.store.commit(Change(add=change.remove, remove=change.add))
    assert unnoticed == []
    assert memory.verify().ok


def _another(quad: Quad) -> NamedNode | Literal:
    value = str(getattr(quad.object, "value", ""))
    if not isinstance(quad.object, Literal):
        return NamedNode(value[:-1] + ("8" if value[-1] == "7" else "7"))
    if quad.object.datatype == vocab.DATE_TIME:
        return Literal(value.replace("2026", "2025"), datatype=vocab.DATE_TIME)
    return Literal("7" if value.isdecimal() else f"{value}x", datatype=quad.object.datatype)


@pytest.mark.parametrize("word", ["acme", "files", "guard", "alice", "1.2", "rm"])
def test_a_word_goes_out_of_all_that_is_told_and_the_rest_still_verifies(store: Repository, word: str) -> None:
    told(store)
    store.flatten("s", id="flat")
    store.redact_matching(word, by="dave")
    left = "".join(str(quad.object) for quad in store.store.quads((None, None, None, None)))
    assert f'"{word}"' not in left
    assert store.verify().findings == ()
    out = io.BytesIO()
    export_session(store, "flat", "nquads", out)
    assert answers.report(export.Export(io.BytesIO(out.getvalue())))["findings"] == []


def test_the_last_mention_of_a_tool_takes_its_row_along(store: Repository) -> None:
    told(store)
    store.flatten("s", id="flat")
    store.delete("s")
    assert said_of(store, FILES_LS)
    store.delete("flat")
    assert said_of(store, FILES_LS) == said_of(store, "urn:trails:tool:rm") == set()
    assert store.verify().findings == ()


# --- what follows


def statements(store: Repository) -> set[tuple[str, tuple[str | None, ...], str]]:
    """What follows in PROV of a store, with the role, where there is one."""
    found: list[Statement] = [each for part in export_parts(store.workspace, ExportScope()) for each in part.statements]
    derived = [each for each in found if any(value.text == "derived" for _, value in each.attributes)]
    return {
        (each.kind, each.arguments, next((v.text for name, v in each.attributes if name == f"{vocab.PROV}role"), ""))
        for each in derived
        if each.kind not in ("actedOnBehalfOf", "wasInformedBy")
    }


def test_times_tools_and_leave_of_tool_calls_follow_from_their_answers(store: Repository) -> None:
    turns = told(store).turns
    ls, rm = f"{turns[3].iri}/call/0", f"{turns[3].iri}/call/1"
    assert statements(store) == {
        ("wasStartedBy", (ls, None, None, "2026-05-04T10:00:05Z"), ""),
        ("wasEndedBy", (ls, None, None, "2026-05-04T10:00:06Z"), ""),
        ("wasAssociatedWith", (ls, FILES_LS, None), "tool"),
        ("wasAssociatedWith", (ls, "urn:trails:principal:alice", None), "approver"),
        ("wasAssociatedWith", (rm, "urn:trails:agent:guard", None), "refuser"),
    }


def test_no_end_of_a_tool_call_follows_where_an_answer_is_from_later(memory: Repository) -> None:
    session = asked(memory)
    session.append("tool", "a", time=at(9), tool_results=[{"call_id": "k1", "started": at(1), "ended": at(3)}])
    late = {"call_id": "k3", "started": at(8), "ended": at(9)}
    session.append("tool", "a", time=at(7), tool_results=[late])
    session.persist()
    call = f"{session.turns[0].iri}/call"
    times = {each for each in statements(memory) if each[0] in ("wasStartedBy", "wasEndedBy")}
    assert times == {
        ("wasStartedBy", (f"{call}/0", None, None, "2026-05-04T10:00:01Z"), ""),
        ("wasEndedBy", (f"{call}/2", None, None, "2026-05-04T10:00:09Z"), ""),
    }


def test_a_call_that_was_answered_twice_began_with_the_first_and_ended_with_the_last(memory: Repository) -> None:
    session = asked(memory)
    for start in (1, 4):
        session.append("tool", "a", tool_results=[{"call_id": "k1", "started": at(start), "ended": at(start + 1)}])
    session.persist()
    call = f"{session.turns[0].iri}/call/0"
    times = {each[:2] for each in statements(memory) if each[0] in ("wasStartedBy", "wasEndedBy")}
    assert times == {
        ("wasStartedBy", (call, None, None, "2026-05-04T10:00:01Z")),
        ("wasEndedBy", (call, None, None, "2026-05-04T10:00:05Z")),
    }


def test_a_turn_written_while_a_run_goes_on_is_in_that_run(store: Repository) -> None:
    session = store.create(id="child")
    for second in (1, 5, 9):
        session.append("user", f"at {second}", time=at(second))
    session.persist()
    other = store.create(id="other")
    other.append("user", "elsewhere", time=at(5))
    other.persist()
    run: dict[str, Any] = {"said": RunContent.of("task"), "child_session": "child"}
    subagent_runs.register_run(Run(run_id="r1", started=at(4), ended=at(6), **run)).commit(store.store)
    subagent_runs.register_run(Run(run_id="r2", started=at(5), **run)).commit(store.store)
    subagent_runs.register_run(Run(run_id="r3", **run)).commit(store.store)
    _, middle, last = session.turns
    found = {each[1] for each in statements(store) if each[0] == "wasInfluencedBy"}
    assert {(turn, str(where).rpartition("/")[2]) for turn, where in found} == {
        (middle.iri, "r1"),
        (middle.iri, "r2"),
        (last.iri, "r2"),
    }


def test_the_context_that_a_call_used_ends_where_it_was_told_to(store: Repository) -> None:
    session = told(store)
    session.append("assistant", "y", model="m", call=Call(context=ContextUsed(through=4)))
    session.append("assistant", "z", model="m")
    session.persist()
    turns = session.turns
    made = store.query("prov-lineage", session="s")
    said = {(str(t.subject), str(t.predicate).rpartition("#")[2][:-1], str(t.object)) for t in made}  # type: ignore[union-attr] # a CONSTRUCT
    ends = {(subject, value) for subject, name, value in said if name == "contextEnd"}
    assert ends == {
        (f"<{turns[3].iri}/context>", f"<{turns[1].iri}>"),  # 2 was left out
        (f"<{turns[6].iri}/context>", f"<{turns[4].iri}>"),
        (f"<{turns[7].iri}/context>", f"<{turns[6].iri}>"),
    }
    members = {(s, v) for s, name, v in said if name == "hadMember" and s.endswith("/context>")}
    assert members == {(f"<{turns[3].iri}/context>", f"<{turns[1].iri}>")}
    for index in (3, 6, 7):
        assert (f"<{turns[index].iri}/model>", "used", f"<{turns[index].iri}/context>") in said


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # what is tried is not persisted
def test_it_is_valid_prov_and_keeps_to_the_shapes(store: Repository) -> None:
    told(store)
    store.flatten("s", id="flat")
    store.create(id="g").cherry_pick("s", [3, 4, 5])
    assert list(validate(store).findings) == []
    for format_ in ("provn", "json", "trig"):
        out = io.BytesIO()
        trails.provenance.export(store, out, format=format_)
        assert list(validate(out.getvalue(), format=format_).findings) == []
    assert ontology.violations(store.store.quads((None, None, None, None))) == ()


def test_a_difference_in_how_a_tool_call_came_out_is_a_difference(memory: Repository) -> None:
    session = asked(memory)
    session.persist()
    left, right = session.fork(1, id="left"), session.fork(1, id="right")
    left.append("tool", "a", tool_results=[{"call_id": "k1", "outcome": "completed"}])
    right.append("tool", "a", tool_results=[{"call_id": "k1", "outcome": "cancelled"}])
    for each in (left, right):
        each.persist()
    [entry] = memory.diff("left", "right").entries
    assert (entry.kind, entry.answers) == ("changed", (("k1",), ("k1 cancelled",)))


def test_a_file_of_pi_carries_what_is_told_but_for_versions_of_the_system_prompt(
    memory: Repository, tmp_path: Path
) -> None:
    turns = told(memory).turns
    with (tmp_path / "s.jsonl").open("wb") as file:
        export_session(memory, "s", "pi", file)
    with trails.open(":memory:") as other:
        import_path(other, tmp_path / "s.jsonl")
        [record] = other.list()
        again = other.load(record.id).turns
        assert [turn.tool_results for turn in again] == [turn.tool_results for turn in turns]
        assert [turn.author_iri for turn in again] == [turn.author_iri for turn in turns]
        assert again[3].call == SHOWN.model_copy(update={"prompt": None})
        assert other.verify().findings == ()


def test_a_version_of_the_system_prompt_is_that_of_the_session_which_owns_it(store: Repository) -> None:
    told(store)
    fork = store.load("s").fork(3, id="f")
    fork.set_system("Be long")
    for version in (1, 2):
        fork.append("assistant", f"sent {version}", call=Call(prompt=version))
    fork.persist()
    sent = [dict(said_of(store, f"{turn.iri}/model"))["usedPrompt"] for turn in fork.turns[3:]]
    assert sent == ["urn:trails:session:s/system/1", "urn:trails:session:f/system/2"]
    assert store.verify().findings == ()


def test_the_verifier_of_exports_misses_no_quad_of_what_is_told(memory: Repository) -> None:
    told(memory)
    memory.flatten("s", id="flat")
    unnoticed = []
    for name in ("s", "flat"):
        out = io.BytesIO()
        export_session(memory, name, "nquads", out)
        lines = out.getvalue().splitlines(keepends=True)
        quads = memory.store.quads((None, None, None, NamedNode(f"urn:trails:session:{name}")))
        guarded = [q for q in quads if q.predicate in NEW or (str(q.subject).endswith("/model>") and "nded" in str(q))]
        for quad in guarded:
            line = f"{quad} .\n".encode()
            assert line in lines
            other = f"{Quad(quad.subject, quad.predicate, _another(quad), quad.graph_name)} .\n".encode()
            altered = (b"".join(lines).replace(line, each) for each in (b"", other))
            unnoticed += [line for each in altered if holds(each)]
    assert unnoticed == []


def holds(data: bytes) -> bool:
    """Tell whether the verifier of exports finds nothing wrong."""
    return bool(answers.report(export.Export(io.BytesIO(data)))["ok"])
