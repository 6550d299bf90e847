"""Search finds turns by text and by tool, newest first, each copy once, in pages that do not shift."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.commands import invoke, ok
from trails import InvalidInput, Repository, SessionNotFound
from trails.history import turn_builder
from trails.history.lookup.search import Hit
from trails.history.lookup.summaries import Page
from trails.rdf import vocab


def day(number: int) -> datetime:
    return datetime(2026, 3, number, 12, tzinfo=UTC)


def fill(store: Repository) -> None:
    """plan owns 0 to 3, its fork at 2 owns 2 and 3; `old` is a turn without a time."""
    plan = store.create(id="plan", principal="alice", agent="planner")
    plan.append("user", "Plan a trip to the ALPS", time=day(1))
    plan.append(
        "assistant",
        "I look.",
        time=day(2),
        tool_calls=[{"id": "c1", "name": "weather", "arguments": {"place": "Zermatt", "say": 'a "quoted" word'}}],
    )
    plan.append("tool", "Snow in the Alps", tool_call_id="c1", time=day(3))
    plan.append("user", "Thanks", time=day(8))
    plan.persist()
    fork = plan.fork(at=2, id="fork", principal="bob", agent="second")
    parts = [
        {"type": "text", "text": 'No "Alps" today,\nthen'},
        {"type": "tool_use", "id": "c2", "name": "trains", "input": {"to": "Zermatt"}},
        {"type": "tool_use", "id": "c3", "name": "weather", "input": {"place": "Rome"}},
    ]
    fork.append("assistant", parts, time=day(5))
    fork.append("user", "alps, please", time=day(6))
    fork.persist()
    old = store.create(id="old")
    old.worktree.append(turn_builder.make_draft("user", "The alps of old", timed=False))
    old.persist()


def places(found: Page[Hit]) -> list[tuple[str, int]]:
    return [(hit.session_id, hit.index) for hit in found]


# --- by project, model and time


@pytest.fixture
def projects(memory: Repository) -> Repository:
    """Two sessions in projects of one name, one without a project; answers of two models on three days."""
    for number, (session_id, project) in enumerate((("a", "/src/parser"), ("b", "/lib/parser"), ("c", None)), 1):
        session = memory.create(id=session_id, meta={"project": project} if project else {})
        session.append("user", "Where is the alias?", time=day(number))
        session.append("assistant", f"The alias is in {session_id}.", model=f"m-{number % 2}", time=day(number))
        session.persist()
    untimed = memory.create(id="old", meta={"project": "/src/parser"})
    untimed.worktree.append(turn_builder.make_draft("user", "An alias of old", timed=False))
    untimed.persist()
    return memory


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"project": "parser"}, [("b", 1), ("b", 0), ("a", 1), ("a", 0), ("old", 0)]),
        ({"project": "/src/parser"}, [("a", 1), ("a", 0), ("old", 0)]),
        ({"model": "m-1"}, [("c", 1), ("a", 1)]),
        ({"since": day(2)}, [("c", 1), ("c", 0), ("b", 1), ("b", 0)]),
        ({"since": "2026-03-03"}, [("c", 1), ("c", 0)]),
        ({"project": "parser", "model": "m-0", "since": day(1)}, [("b", 1)]),
        ({"session": "a", "model": "m-1"}, [("a", 1)]),
        ({"session": "a", "since": day(2)}, []),
        ({"project": "nothing"}, []),
    ],
)
def test_a_search_is_limited_to_a_project_a_model_and_a_time(
    projects: Repository, asked: dict[str, Any], found: list[tuple[str, int]]
) -> None:
    assert places(projects.search("alias", **asked)) == found
    first = projects.search("alias", **asked, limit=1)
    assert places(first) == found[:1]
    if first.cursor is not None:
        assert places(projects.search("alias", **asked, cursor=first.cursor)) == found[1:]


def test_a_search_finds_all_that_a_model_generated_but_needs_more_than_a_project_or_a_time(
    projects: Repository,
) -> None:
    assert places(projects.search(model="m-0")) == [("b", 1)]
    alone: tuple[dict[str, Any], ...] = ({"project": "parser"}, {"since": "7d"})
    for asked in alone:
        with pytest.raises(InvalidInput, match="a search needs a text, a tool, a role, an author or a model"):
            projects.search(**asked)
    with pytest.raises(InvalidInput, match="since: 'soon' is no time"):
        projects.search("alias", since="soon")


def test_the_command_searches_a_project_by_model_and_time(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with trails.open(place, create=True) as store:
        for session_id, project in (("a", "/src/parser"), ("b", "/src/lexer")):
            session = store.create(id=session_id, meta={"project": project})
            session.append("assistant", "The alias", model="m-1", time=day(2))
            session.persist()
    found = ["search", "alias", "--model", "m-1", "--since", "2026-03-02", "--store", str(place), "--json"]
    turns = json.loads(ok(invoke(*found, "--project", "parser")))["turns"]
    assert [turn["session"] for turn in turns] == ["a"]
    assert invoke(*found, "--project", "parser", "--since", "2026-03-03").exit_code == 1


# --- by text


def test_text_is_found_upper_and_lower_case_alike_newest_first_and_timeless_last(store: Repository) -> None:
    fill(store)
    assert places(store.search("alps")) == [("fork", 3), ("fork", 2), ("plan", 2), ("plan", 0), ("old", 0)]
    assert places(store.search("ALPS OF")) == [("old", 0)]
    assert places(store.search("glacier")) == []


def test_a_hit_says_who_when_and_what_stands_around_the_text(store: Repository) -> None:
    fill(store)
    [hit] = store.search("please")
    turn = store.load("fork").turns[3]
    assert (hit.role, hit.author, hit.time, hit.digest, hit.iri) == ("user", "bob", day(6), turn.digest, turn.iri)
    assert (hit.snippet, hit.tools) == ("alps, please", ())
    assert store.search("of old")[0].time is None


def test_structured_content_is_found_as_people_read_it(store: Repository) -> None:
    fill(store)
    assert places(store.search('no "alps" today,\nthen')) == [("fork", 2)]
    assert places(store.search("quoted")) == [("plan", 1)]  # in the arguments of a call
    assert store.search("rome")[0].tools == ("trains", "weather")


def test_a_snippet_is_one_line_around_the_text(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "x" * 200 + "\nneedle\n" + "y" * 200)
    session.persist()
    [hit] = store.search("NEEDLE")
    assert hit.snippet == f"…{'x' * 59} needle {'y' * 59}…"


@pytest.mark.parametrize("text", ['" } } #', "%", ".*", "\\", "?", "ß", "日本"])
def test_text_is_taken_as_it_is(store: Repository, text: str) -> None:
    session = store.create(id="s")
    session.append("user", f"before{text}after")
    session.append("user", [{"type": "text", "text": f"before{text}after"}])
    session.append("user", "beforeafter")
    session.persist()
    assert places(store.search(text)) == [("s", 1), ("s", 0)]


def test_redacted_text_is_not_found_nor_are_the_digests_in_its_place(store: Repository) -> None:
    fill(store)
    store.redact("plan", 1)
    assert places(store.search("look")) == []
    assert places(store.search("quoted")) == []
    quads = store.store.quads((None, vocab.ARGUMENTS, None, None))
    [withheld] = (quad.object.value for quad in quads if "Redacted" in str(quad.object))  # type: ignore[union-attr] # literals
    assert places(store.search(withheld)) == []
    assert places(store.search(tool="weather")) == [("fork", 2), ("plan", 1)]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Die STRASSE nach Zermatt", "straße"),
        ("die Straße nach Zermatt", "STRASSE"),
        ("ΟΔΟΣ", "οδοσ"),
        ("οδος", "ΟΔΟΣ"),
        ("İSTANBUL", "İstanbul"),
        ("😀 regex: a.c* [x] (y) \\d", "A.C* [X] (Y) \\D"),
        ('say "no" \n', '"NO" \n'),
    ],
)
@pytest.mark.parametrize("structured", [False, True])
def test_upper_and_lower_case_are_alike_also_where_one_has_more_letters(
    memory: Repository, said: str, asked: str, structured: bool
) -> None:
    session = memory.create(id="one")
    session.append("user", [{"type": "text", "text": said}] if structured else said)
    session.append("user", "a different one")
    session.persist()
    assert places(memory.search(asked)) == [("one", 0)]


def test_a_snippet_stands_around_the_text_also_after_letters_that_grow(memory: Repository) -> None:
    session = memory.create(id="one")
    session.append("user", "İ" * 300 + " needle " + "ß" * 300)
    session.persist()
    assert " needle " in memory.search("NEEDLE")[0].snippet


@pytest.mark.parametrize("asked", ["text", "tool_use", '"name":', "\\n", "true"])
def test_how_structured_content_is_written_is_no_text(memory: Repository, asked: str) -> None:
    session = memory.create(id="one")
    parts = [
        {"type": "text", "text": "two\nlines", "kept": True},
        {"type": "tool_use", "id": "c1", "name": "trains", "input": {"to": "Bern"}},
    ]
    for _ in range(3):
        session.append("assistant", parts)
    session.append("assistant", f"I say {asked}")
    session.persist()
    assert places(memory.search(asked, limit=1)) == [("one", 3)]
    assert memory.search(asked, limit=1).cursor is None


def test_arguments_are_found_however_a_model_escaped_them(memory: Repository) -> None:
    session = memory.create(id="one")
    call = {"id": "c1", "name": "trains", "arguments": '{"to": "Z\\u00fcrich", "seats": 42}'}
    session.append("assistant", "I look.", tool_calls=[call])
    session.persist()
    assert [hit.snippet for hit in memory.search("Zürich")] == ['trains {"to": "Z\\u00fcrich", "seats": 42}']
    assert [places(memory.search(asked)) for asked in ("seats", "42", "43")] == [[("one", 0)], [("one", 0)], []]


# --- by tool, role, author, session


def test_a_tool_is_found_by_its_exact_name_and_the_text_in_its_arguments(store: Repository) -> None:
    fill(store)
    assert places(store.search(tool="weather")) == [("fork", 2), ("plan", 1)]
    assert places(store.search(tool="Weather")) == []
    assert places(store.search("zermatt", tool="weather")) == [("fork", 2), ("plan", 1)]  # in content, as it is JSON
    assert places(store.search("look", tool="weather")) == [("plan", 1)]
    assert places(store.search("zermatt", tool="trains")) == [("fork", 2)]
    assert store.search(tool="trains")[0].snippet == 'trains {"to":"Zermatt"}'


def test_role_and_author_narrow_a_search_or_make_one(store: Repository) -> None:
    fill(store)
    assert places(store.search("alps", role="tool")) == [("plan", 2)]
    assert places(store.search("alps", author="alice")) == [("plan", 0)]
    assert places(store.search(role="assistant")) == [("fork", 2), ("plan", 1)]
    assert places(store.search(author="planner")) == [("plan", 1)]
    assert places(store.search(author="agent:planner")) == [("plan", 1)]
    assert places(store.search(author="weather")) == [("plan", 2)]  # a tool's answer is the tool's
    assert places(store.search(author="urn:trails:tool:weather")) == [("plan", 2)]
    assert places(store.search(author="urn:trails:principal:planner")) == []


def test_a_session_s_transcript_is_searched_with_what_it_inherits_and_no_further(store: Repository) -> None:
    fill(store)
    assert places(store.search("alps", session="fork")) == [("fork", 3), ("fork", 2), ("plan", 0)]
    assert places(store.search("alps", session="plan")) == [("plan", 2), ("plan", 0)]
    assert places(store.search(tool="weather", session="fork")) == [("fork", 2), ("plan", 1)]
    with pytest.raises(SessionNotFound):
        store.search("alps", session="nobody")


# --- copies


def test_a_turn_that_was_copied_is_found_once_and_is_the_original(store: Repository) -> None:
    fill(store)
    expected = places(store.search("alps"))
    store.flatten("fork", id="a-copy")
    store.flatten("a-copy", id="b-copy")
    store.detach("fork")
    assert places(store.search("alps")) == expected
    assert places(store.search("alps", session="b-copy")) == [("b-copy", 3), ("b-copy", 2), ("b-copy", 0)]
    assert places(store.search("alps", session="fork")) == [("fork", 3), ("fork", 2), ("fork", 0)]


def test_of_copies_whose_original_is_gone_one_is_found(store: Repository) -> None:
    fill(store)
    store.flatten("fork", id="b-copy")
    store.flatten("b-copy", id="a-copy")
    store.delete("plan", children="cascade")
    assert places(store.search("trip")) == [("b-copy", 0)]  # that of the oldest session
    assert places(store.search("alps")) == [("b-copy", 3), ("b-copy", 2), ("b-copy", 0), ("old", 0)]


# --- pages


def pages(store: Repository, limit: int, **criteria: Any) -> list[list[tuple[str, int]]]:
    found, cursor = [], None
    while True:
        page = store.search(limit=limit, cursor=cursor, **criteria)
        found.append(places(page))
        if page.cursor is None:
            return found
        cursor = page.cursor


def test_pages_follow_each_other_and_do_not_shift_when_turns_are_added(store: Repository) -> None:
    fill(store)
    first = store.search("alps", limit=2)
    assert places(first) == [("fork", 3), ("fork", 2)]
    plan = store.load("plan")
    plan.append("user", "Newer alps")
    plan.persist()
    second = store.search("alps", limit=2, cursor=first.cursor)
    assert places(second) == [("plan", 2), ("plan", 0)]
    third = store.search("alps", limit=2, cursor=second.cursor)
    assert (places(third), third.cursor) == ([("old", 0)], None)


def test_the_last_page_is_the_last_also_when_it_is_full(store: Repository) -> None:
    fill(store)
    assert store.search("alps", limit=5).cursor is None
    assert pages(store, 4, text="alps") == [[("fork", 3), ("fork", 2), ("plan", 2), ("plan", 0)], [("old", 0)]]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 3)), st.booleans()), max_size=14),
    st.integers(1, 4),
)
def test_pages_hold_every_match_once_in_order(turns: list[tuple[str, int | None, bool]], limit: int) -> None:
    """Sessions a, b and c with turns at few times, so that many are equal, and a copy of each session."""
    expected: list[tuple[float, str, int]] = []
    with trails.open(":memory:") as store:
        sessions = {name: store.create(id=name) for name in "abc"}
        for name, hour, matching in turns:
            time = None if hour is None else day(1) + timedelta(hours=hour)
            made = turn_builder.make_draft("user", "a needle" if matching else "hay", time=time, timed=False)
            index = sessions[name].worktree.append(made).index
            if matching:
                expected.append((0.0 if time is None else -time.timestamp(), name, -index))
        for name, session in sessions.items():
            session.persist()
            store.flatten(name, id=f"{name}-copy")
        wanted = [(name, -index) for _, name, index in sorted(expected)]
        found = pages(store, limit, text="needle")
        assert [place for page in found for place in page] == wanted
        assert all(len(page) == limit for page in found[:-1])


@pytest.mark.parametrize(
    "criteria",
    [{}, {"text": ""}, {"text": "x", "limit": 0}, {"text": "x", "limit": 1001}, {"text": "x", "cursor": "y"}]
    + [
        {"text": "x", "cursor": f"2026-01-01T00:00:00+00:00 {rest}"}
        for rest in ("plan 3", "urn:trails:session:a x", "")
    ]
    + [{"tool": ""}, {"role": "two words"}, {"text": "\ud800"}],
)
def test_what_cannot_be_looked_for_is_refused(store: Repository, criteria: dict[str, Any]) -> None:
    fill(store)
    with pytest.raises(InvalidInput):
        store.search(**criteria)


# --- the command line


def test_the_command_prints_a_line_a_turn_and_how_to_go_on(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        fill(store)

    def run(*arguments: str) -> tuple[str, str]:
        result = invoke(*arguments, "--store", place)
        return ok(result), result.stderr

    out, err = run("search", "alps", "--limit", "2", "--author", "bob")
    assert [line.split()[:2] for line in out.splitlines()[::2]] == [["fork", "3"]]
    assert err == ""
    out, err = run("search", "alps", "--limit", "2")
    command = shlex.split(err.partition("there is more: trails ")[2])
    assert [line.split()[:2] for line in run(*command)[0].splitlines()[::2]] == [["plan", "2"], ["plan", "0"]]
    found = json.loads(run("search", "--tool", "weather", "--session", "plan", "--json")[0])
    assert [(turn["session"], turn["index"], turn["tools"]) for turn in found["turns"]] == [("plan", 1, ["weather"])]
    assert found["cursor"] is None
    none = invoke("search", "glacier", "--store", place)
    assert (none.exit_code, none.stdout, none.stderr) == (1, "", "nothing found\n")
    assert invoke("search", "--store", place).exit_code == 2
