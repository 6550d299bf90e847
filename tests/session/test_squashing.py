"""A ref that is taken back and goes on for ever: its chain of forks stays short, and few turns are copied."""

from __future__ import annotations

import io
from math import log2
from pathlib import Path

import pytest

from trails import Repository
from trails.exchange.file_import import export_session
from trails.exchange.rdf_files import import_rdf
from trails.history.squash import first_merged
from trails.integrity.verifier import program
from trails.model.values import MAX_FORK_DEPTH
from trails.session.checkout import Checkout

pytestmark = pytest.mark.any_store


def _stepped(main: Checkout, number: int) -> list[str]:
    """Take the last turn back, append a call of a tool and its answer, and store that; return what the two say."""
    main.pop()
    called = [{"id": f"c{number}", "name": "look", "arguments": {"at": number}}]
    main.append("assistant", f"look {number}", tool_calls=called)
    main.append("tool", f"seen {number}", tool_call_id=f"c{number}")
    main.persist()
    return [f"look {number}", f"seen {number}"]


def _begun(store: Repository, turns: int) -> tuple[Checkout, list[str]]:
    main = store.checkout("main", create=True, system="Be brief.", meta={"topic": "salt"})
    for number in range(turns):
        main.append("user", f"turn {number}")
    main.persist()
    return main, [f"turn {number}" for number in range(turns)]


@pytest.mark.slow
def test_a_chain_of_forks_never_passes_its_greatest_depth(store: Repository) -> None:
    main, texts = _begun(store, 40)
    deepest = 0
    for number in range(100):
        texts[-1:] = _stepped(main, number)
        deepest = max(deepest, main.session.worktree.depth)
        assert [turn.content for turn in main] == texts
    assert deepest == MAX_FORK_DEPTH
    loaded = store.load("main")
    assert [turn.content for turn in loaded] == texts
    assert (loaded.system, loaded.meta) == ("Be brief.", {"topic": "salt"})
    report = store.verify()
    assert (report.ok, report.findings) == (True, ())


def test_few_turns_are_copied_and_a_long_beginning_is_not(store: Repository) -> None:
    main, _ = _begun(store, 200)
    steps = 150
    for number in range(steps):
        _stepped(main, number)
    copies = store.select("SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn prov:alternateOf ?original } }").to_dicts()[0][
        "n"
    ]
    begun = store.select(
        "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?turn prov:alternateOf ?original ; trails:index ?i FILTER (?i < 199) } }"
    ).to_dicts()[0]["n"]
    assert 0 < copies <= 2 * steps * log2(2 * steps)
    assert begun == 0


def test_copies_are_those_of_a_detach(store: Repository) -> None:
    main, _ = _begun(store, 3)
    for number in range(MAX_FORK_DEPTH):
        _stepped(main, number)
    before = list(main)
    _stepped(main, 99)
    after = list(main)[: len(before) - 1]
    assert [turn.digest for turn in after] == [turn.digest for turn in before[:-1]]
    moved = [(old, new) for old, new in zip(before, after, strict=False) if old.iri != new.iri]
    assert moved
    assert {new.session_id for _, new in moved} == {main.session_id}
    query = "SELECT ?original { GRAPH ?g { ?turn prov:alternateOf ?original } }"
    assert {row["original"].value for row in store.select(query)} == {old.iri for old, _ in moved}
    acts = store.select("SELECT ?action { ?act a trails:Copying ; trails:action ?action }").to_dicts()
    assert acts == [{"action": "squash"}]


def test_the_answer_to_a_call_that_was_copied_names_the_copy(store: Repository) -> None:
    main, _ = _begun(store, 3)
    for number in range(MAX_FORK_DEPTH):
        main.pop()
        main.append("assistant", "look", tool_calls=[{"id": f"c{number}", "name": "look", "arguments": {}}])
        main.append("user", "wait")
        main.persist()
    main.pop()
    main.append("tool", "seen", tool_call_id=f"c{MAX_FORK_DEPTH - 1}")
    main.persist()
    report = store.verify()
    assert (report.ok, report.findings) == (True, ())
    call = f"{main.turns[-2].iri}"
    assert main.turns[-2].session_id == main.session_id
    answered = store.select("SELECT ?call { GRAPH ?g { ?result trails:answersCopy ?call } }").to_dicts()
    assert [row["call"].startswith(call) for row in answered] == [True]


def test_a_prompt_that_a_copied_run_set_goes_with_it(store: Repository) -> None:
    main, _ = _begun(store, 3)
    for number in range(MAX_FORK_DEPTH):
        if number == 5:
            main.pop()
            main.append("user", "once more")
            main.session.set_system("Be long.")
            main.append("user", "now")
            main.persist()
        else:
            _stepped(main, number)
    _stepped(main, 99)
    _stepped(main, 100)
    assert store.load("main").system == "Be long."
    assert store.load("main").context().system == "Be long."
    report = store.verify()
    assert (report.ok, report.findings) == (True, ())


def test_an_export_of_a_squashed_fork_verifies_and_comes_back(
    store: Repository, memory: Repository, tmp_path: Path
) -> None:
    main, texts = _begun(store, 3)
    for number in range(MAX_FORK_DEPTH + 3):
        texts[-1:] = _stepped(main, number)
    out = io.BytesIO()
    export_session(store, main.session_id, "nquads", out)
    assert import_rdf(memory, out.getvalue(), "nquads").problems == []
    assert [turn.content for turn in memory.load(main.session_id)] == texts
    assert memory.verify().ok
    file = tmp_path / "main.nq"
    file.write_bytes(out.getvalue())
    assert program.main([str(file)]) == 0


def test_a_copied_text_is_redacted_with_its_original(store: Repository) -> None:
    main, _ = _begun(store, 3)
    for number in range(MAX_FORK_DEPTH + 1):
        _stepped(main, number)
    store.redact_matching("look 20")
    assert "look 20" not in [turn.content for turn in store.load("main")]
    assert store.verify().ok


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ([5000, *[1] * 32], 1),
        ([5000, 40, *[1] * 31], 2),
        ([10, 64, 32, 16, 8, 1, 1], 5),
        ([1] * 33, 1),
        ([2**k for k in range(33, 0, -1)], 17),
    ],
)
def test_the_runs_that_are_merged_are_those_no_longer_than_all_after_them(sizes: list[int], first: int) -> None:
    assert first_merged(sizes) == first
