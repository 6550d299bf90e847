"""Windows: what stays, what goes and in which order, what is read and counted at all; and how tokens are estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.entries import Listening, answered, asked, entries, said, transcripts
from trails import InvalidInput, Repository, Session
from trails.context import TokenWindow, estimate
from trails.context.messages import ShownTurn
from trails.history.transcript import Transcript

pytestmark = pytest.mark.any_store

ONE = len


def indices(window: TokenWindow[Any]) -> list[int]:
    return [turn.index for turn in window]


def numbered(count: int) -> list[ShownTurn]:
    """Turns that take 10 tokens each: 4 for the message, and 6 characters."""
    return [said(index, "assistant" if index % 2 else "user", f"tur {index:02}") for index in range(count)]


# --- counting


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1, -0.5, None, "3", True])
def test_a_counter_that_does_not_count_is_refused_wherever_it_is_used(memory: Repository, wrong: Any) -> None:
    session = memory.create(id="s")
    for text in ("one", "two", "three"):
        session.append("user", text)
    session.persist()

    def counter(text: str) -> Any:
        return wrong

    for use in (
        lambda: session.context("q", max_tokens=50, counter=counter).tokens,
        lambda: memory.context("s", counter=counter).tokens,
        lambda: memory.load("s", max_tokens=50, counter=counter),
        lambda: session.compact(lambda asked: "so far", keep_turns=1, counter=counter),
    ):
        with pytest.raises(InvalidInput, match="a counter returns how many tokens"):
            use()
    assert (session.pending, len(memory.replay("s"))) == (0, 3)


def test_a_counter_of_fractions_counts_the_next_whole_number(store: Repository) -> None:
    session = store.create(id="s", max_tokens=100, counter=lambda text: len(text) / 4)
    for text in ("one", "three"):  # 0.75 and 1.25 tokens, and 4 for each message
        session.append("user", text)
    assert session.window is not None
    assert (session.window.tokens, session.context().tokens) == (11, 11)
    turn = session.compact(lambda asked: "so far", keep_turns=1)
    assert turn.compaction is not None
    assert turn.compaction.tokens_before == 11
    assert store.verify().ok


def test_a_counter_that_fails_appends_nothing_and_the_window_stays_true(memory: Repository) -> None:
    broken = False

    def counter(text: str) -> int:
        if broken:
            raise OSError("the tokenizer is gone")
        return 1

    session = memory.create(max_tokens=100, counter=counter)
    session.append("user", "one")
    broken = True
    with pytest.raises(OSError, match="tokenizer"):
        session.append("user", "two")
    broken = False
    assert (len(session), session.pending) == (1, 1)
    session.append("user", "three")
    assert session.window is not None
    assert [turn.text for turn in session.window] == ["one", "three"]
    session.principal = "bob"
    assert [turn.author for turn in session.window] == ["bob", "bob"]


def test_a_budget_below_the_pinned_turns_shows_them_and_says_why(store: Repository) -> None:
    session = store.create(id="s")
    for text in ("one", "two", "three"):
        session.append("user", text)
    session.persist()
    window = store.load("s", max_tokens=1, pinned_count=2).window
    assert window is not None
    assert ([turn.text for turn in window], window.fits) == (["one", "two", "three"], False)
    context = store.context("s", "q", max_tokens=1, pinned_count=2)
    assert [part.kind for part in context.parts] == ["pinned", "pinned", "query"]
    assert (list(context.dropped), context.within_budget) == ([2], False)
    assert "pinned turns 10" in (context.why or "")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("Plan a trip to the Alps", 6),  # 23 characters
        ("計画を立てる", 6),  # 18 bytes
        ("Привет", 4),  # 12 bytes
        ("🏔", 2),  # 4 bytes
        ("def f(x):\n    return x * 2\n", 7),  # 27 characters
        ("naïve", 2),  # 4 of ASCII and 2 others: 1 + 2/3
    ],
)
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@given(st.text(), st.text())
def test_an_estimate_never_falls_when_text_is_added(text: str, more: str) -> None:
    assert estimate(text) <= estimate(text + more) <= estimate(text) + estimate(more)


# --- what stays and what goes


def test_the_oldest_go_first_and_the_pinned_ones_stay() -> None:
    window: TokenWindow[ShownTurn] = TokenWindow(30, counter=ONE)
    gone = [[turn.index for turn in window.append(turn)] for turn in numbered(6)]
    assert gone == [[], [], [], [1], [2], [3]]
    assert indices(window) == [0, 4, 5]
    assert (window.tokens, window.seen, len(window), window.dropped) == (30, 6, 3, range(1, 4))
    assert [turn.index for turn in window.pinned] == [0]
    assert repr(window) == "<TokenWindow 30/30 tokens: 3 of 6 turns>"


def test_without_pinned_turns_the_window_slides_over_all() -> None:
    window: TokenWindow[ShownTurn] = TokenWindow(30, 0, counter=ONE)
    window.fill(numbered(6))
    assert indices(window) == [3, 4, 5]
    assert window.dropped == range(3)


def test_the_newest_turn_stays_also_where_it_is_too_long_and_the_window_says_so() -> None:
    window: TokenWindow[ShownTurn] = TokenWindow(20, counter=ONE)
    window.append(said(0, "user", "opening"))
    window.append(said(1, "user", "a question that is far too long"))
    assert indices(window) == [0, 1]
    assert not window.fits
    assert window.why == (
        "the 1 pinned turns (11 tokens) and the newest turn with what belongs to it (35) take 46 of 20 tokens"
    )
    assert [turn.index for turn in window.append(said(2, "user", "ok"))] == [1]
    assert window.why is None


def test_a_call_goes_together_with_its_answers() -> None:
    turns = [said(0, "user", "go"), asked(1, "a", "b"), said(2, "user", "wait"), answered(3, "a"), answered(4, "b")]
    turns += [said(5, "assistant", "so"), said(6, "user", "and?")]
    for room in range(1, 70):
        window: TokenWindow[ShownTurn] = TokenWindow(room, counter=ONE)
        for turn in turns:
            window.append(turn)
        kept = indices(window)
        assert (1 in kept) == (3 in kept) == (4 in kept), kept
        filled: TokenWindow[ShownTurn] = TokenWindow(room, counter=ONE)
        filled.fill(turns)
        assert indices(filled) == kept


def test_a_call_that_may_still_be_answered_is_not_let_go() -> None:
    window: TokenWindow[ShownTurn] = TokenWindow(20, 0, counter=ONE)
    window.append(asked(0, "a"))
    window.append(said(1, "user", "wait for it"))
    assert indices(window) == [0, 1]
    window.append(answered(2, "a"))
    assert indices(window) == [0, 1, 2]
    assert [turn.index for turn in window.append(said(3, "assistant", "so"))] == [0, 1, 2]


def test_the_answers_to_a_pinned_call_are_pinned_too() -> None:
    turns = [asked(0, "a"), answered(1, "a"), *numbered(9)[2:]]
    filled: TokenWindow[ShownTurn] = TokenWindow(40, 1, counter=ONE)
    filled.fill(turns)
    appended: TokenWindow[ShownTurn] = TokenWindow(40, 1, counter=ONE)
    for turn in turns:
        appended.append(turn)
    for window in (filled, appended):
        assert [turn.index for turn in window.pinned] == [0, 1]
        assert indices(window) == [0, 1, 7, 8]


@pytest.mark.parametrize(("tokens", "pinned"), [(0, 1), (-1, 1), (True, 1), (2.5, 1), (10, -1), (10, None)])
def test_a_window_is_made_of_whole_numbers(tokens: Any, pinned: Any) -> None:
    with pytest.raises(InvalidInput):
        TokenWindow(tokens, pinned)


@given(transcripts, st.integers(1, 200), st.integers(0, 3))
def test_a_window_keeps_the_pinned_and_the_newest_turns_and_fits_or_says_why(
    kinds: list[tuple[str, str, str]], room: int, pinned: int
) -> None:
    turns = entries(kinds)
    window: TokenWindow[ShownTurn] = TokenWindow(room, pinned)
    window.fill(turns)
    kept = indices(window)
    assert kept == [index for index in range(len(turns)) if index not in window.dropped]
    assert set(range(min(pinned, len(turns)))) <= set(kept)
    assert not turns or kept[-1] == len(turns) - 1
    assert window.tokens == sum(map(window.cost, window))
    assert window.fits == (window.why is None) == (window.tokens <= room)
    one_by_one: TokenWindow[ShownTurn] = TokenWindow(room, pinned)
    gone = [turn.index for turn in turns for turn in one_by_one.append(turn)]
    assert gone == sorted(gone)
    assert sorted([*gone, *indices(one_by_one)]) == list(range(len(turns)))
    assert not turns or indices(one_by_one)[-1] == len(turns) - 1


def test_filling_looks_only_at_what_it_keeps_and_at_one_turn_more() -> None:
    turns = Listening(numbered(99))
    window: TokenWindow[ShownTurn] = TokenWindow(40, counter=ONE)
    window.fill(turns)
    assert indices(window) == [0, 96, 97, 98]
    assert turns.looked_at == {0, 95, 96, 97, 98}


# --- sessions with a window


def filled(store: Repository, count: int) -> Session:
    session = store.create(id="s")
    for index in range(count):
        session.append("user", f"tur {index:03}")
    session.persist()
    return session


@pytest.mark.filterwarnings("ignore::trails.errors.PendingTurnsWarning")  # what is tried is not persisted
def test_a_session_is_created_with_a_window_that_its_turns_enter(store: Repository) -> None:
    session = store.create(max_tokens=24, counter=ONE)
    window = session.window
    assert window is not None
    for index in range(5):
        session.append("user", f"turn {index}")
    assert indices(window) == [0, 4]
    session.discard_pending()
    session.append("user", "again")
    assert session.window is window
    assert indices(window) == [0]
    assert store.create().window is None


def test_pending_turns_that_are_made_anew_are_the_ones_in_the_window(memory: Repository) -> None:
    session = memory.create(max_tokens=100)
    session.append("user", "Plan a trip")
    session.principal = "alice"
    assert session.window is not None
    assert [turn.author for turn in session.window] == ["alice"]
    session.discard_pending()


def test_a_fork_has_a_window_like_its_parents(memory: Repository) -> None:
    session = memory.create(max_tokens=33, pinned_count=2, counter=ONE)
    for index in range(6):
        session.append("user", f"tur {index:03}")
    fork = session.fork(at=4)
    assert fork.window is not None
    assert (fork.window.max_tokens, fork.window.pinned_count, indices(fork.window)) == (33, 2, [0, 1, 3])


def test_loading_with_a_window_reads_the_pinned_and_the_newest_turns_only(store: Repository) -> None:
    filled(store, 300)
    loaded = store.load("s", max_tokens=55, pinned_count=1, counter=ONE)
    assert loaded.window is not None
    assert indices(loaded.window) == [0, 296, 297, 298, 299]
    turns = loaded.worktree.turns
    assert isinstance(turns, Transcript)
    assert turns.stored.made < 100
    assert len(loaded) == 300
    loaded.append("user", "more")
    assert loaded.persist() == 1
    assert turns.stored.made < 100
    assert [turn.digest for turn in loaded.turns] == [turn.digest for turn in store.load("s").turns]
    assert turns.stored.made == 300
    assert store.verify().ok


def test_a_lazily_loaded_session_does_what_any_session_does(store: Repository) -> None:
    session = filled(store, 150)
    session.append("assistant", "", tool_calls=[{"id": "c", "name": "ls", "arguments": {}}])
    session.persist()
    fork = session.fork(at=140, id="f")
    fork.append("user", "on the fork")
    fork.persist()
    lazy = store.load("f", max_tokens=40)
    again = lazy.fork(id="g")
    again.append("user", "on the next")
    again.persist()
    assert [turn.content for turn in store.load("g").turns][-2:] == ["on the fork", "on the next"]
    early = lazy.fork(at=3, id="h")
    early.append("user", "early")
    early.persist()
    assert [turn.index for turn in store.load("h").turns] == [0, 1, 2, 3]
    other = store.load("s", max_tokens=40)
    other.append("tool", "a.txt", tool_call_id="c")
    other.persist()
    rows: Any = store.query("tool-calls", session="s")
    assert [row["answered"] is not None for row in rows] == [True]
    first, second = store.load("s", max_tokens=40), store.load("s")
    first.append("user", "one")
    second.append("user", "two")
    first.persist()
    with pytest.raises(trails.HeadConflict):
        second.persist()
    kept = second.keep_as_fork(id="k")
    assert len(kept) == 153
    assert store.verify().ok


def test_a_session_from_another_ones_turns_reads_across_the_fork(store: Repository) -> None:
    session = filled(store, 100)
    fork = session.fork(at=95, id="f")
    for text in ("x", "y"):
        fork.append("user", text)
    fork.persist()
    loaded = store.load("f", max_tokens=60, counter=ONE)
    assert loaded.window is not None
    assert [turn.session_id for turn in loaded.window] == ["s", "s", "s", "s", "f", "f"]
    assert [turn.content for turn in loaded.turns] == [turn.content for turn in store.load("f").turns]


def test_a_gap_among_the_turns_of_a_window_raises(store: Repository) -> None:
    import pyoxigraph as ox

    from trails.rdf import vocab
    from trails.store.contract import Change

    filled(store, 200)
    store.store.commit(Change(remove=store.store.quads((None, vocab.INDEX, ox.Literal(198), None))))
    with pytest.raises(trails.IndexGap):
        store.load("s", max_tokens=60)


@given(st.lists(st.sampled_from(["append", "drop", "read"]), max_size=12), st.integers(0, 40))
def test_lazy_turns_are_a_list_of_turns(steps: Sequence[str], length: int) -> None:
    with trails.open(":memory:") as store:
        plain = list(filled(store, length).turns)
        chain = store.reader.lineage("s")
        lazy = store.reader.part_of_transcript(chain, length)
        assert len(lazy) == length
        for position, step in enumerate(steps):
            if step == "append":
                made = store.create().append("user", "more")
                plain.append(made)
                lazy.append(made)
            elif step == "drop" and len(plain) > length:
                del plain[-1:]
                lazy.drop(1)
            elif plain:
                at = position * 7 % len(plain)
                assert lazy[at] == plain[at]
                assert list(lazy[:at]) == list(lazy.below(at)) == plain[:at]
                assert list(lazy[at:]) == plain[at:]
                assert lazy[-1] == plain[-1]
        assert list(lazy) == plain
        with pytest.raises(IndexError):
            lazy[len(plain)]
        for held in list(store.workspace.holders):
            held.discard_pending()
