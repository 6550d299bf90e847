"""The conformance suite for stores: subclass `StoreConformance` in a test module and give it an `open_store` fixture.

Every store that ships with Trails passes it; a store of your own should too. A store that cannot do something declares
it in `cannot`, and the test then checks that it refuses rather than does it wrongly.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda: MyStore(tmp_path / "store")

A store whose commits outlast the process that wrote them subclasses `LogConformance`, which asks for more: that processes
write beside each other or in turn, that one of them is killed, and that the end of the log is lost. There `open_store` goes
to other processes, so it is a `functools.partial` of something that stands at the top of a module. A second fixture does the
damage, in as many ways as it has `params`:

    class TestMyLog(LogConformance):
        @pytest.fixture
        def open_store(self, tmp_path):
            return partial(MyStore, tmp_path / "store")

        @pytest.fixture(params=["its last record", "the half of its last record", "a record in its middle"])
        def cut_log(self, request, tmp_path):
            return partial(lose, request.param, tmp_path / "store")
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, cast

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from trails.errors import InvalidInput, StoreFailed, StoreLocked
from trails.integrity import leaves
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.rdf import vocab
from trails.store import tsv
from trails.store.contract import Change, PreconditionFailed, QuadStore, Solutions
from trails.store.embedded import drop_graph
from trails.store.pattern import Pattern

_P = NamedNode("https://example.org/p")
_Q = NamedNode("https://example.org/q")
_G = NamedNode("https://example.org/graph")
_WRITERS: Final = 8
_ROUNDS: Final = 5
_RECORDS: Final = 10
"""Commits of a log whose end is then lost."""
_PATIENCE: Final = 120.0
"""Seconds for which a process waits for its turn."""
_HOSTILE_TEXTS = (
    "",
    "plain",
    'quote " and \\ backslash',
    "line\nbreaks\r\nof\rall kinds\u2028\u2029",
    "NUL \0 and tab \t",
    "e\u0301 is not \u00e9",
    "\u202eright to left",
    "emoji \U0001f9ed",
    "} ; DROP ALL ; INSERT DATA {",
    "x" * 100_000,
)


def _node(number: int) -> NamedNode:
    return NamedNode(f"https://example.org/s{number}")


def _quad(number: int, text: str = "v", graph: NamedNode | DefaultGraph = _G) -> Quad:
    return Quad(_node(number), _P, Literal(text), graph)


class StoreConformance:
    """What every store must do, as tests; `open_store` returns the same store again after it was closed, if it can."""

    cannot: ClassVar[frozenset[str]] = frozenset()
    """Any of "reopen", "threads": what a store declares that it does not do."""

    @pytest.fixture
    def store(self, open_store: Callable[[], QuadStore]) -> Iterator[QuadStore]:
        """Open the store for a test, and close it afterwards."""
        store = open_store()
        yield store
        store.close()

    def test_what_was_committed_is_found_by_query_and_by_pattern(self, store: QuadStore) -> None:
        assert store.commit(Change(add=[_quad(1), _quad(2), _quad(3, graph=DefaultGraph())])).written
        assert len(store) == 3
        assert store.quads((_node(1), None, None, None)) == [_quad(1)]
        rows = store.query("SELECT ?s { GRAPH <https://example.org/graph> { ?s ?p ?o } } ORDER BY ?s")
        assert isinstance(rows, Solutions)
        assert [row["s"] for row in rows] == [_node(1), _node(2)]
        assert store.query("ASK { <https://example.org/s3> ?p ?o }") is True

    def test_a_pattern_with_a_number_matches_that_number_and_no_other(self, store: QuadStore) -> None:
        """Engines look numbers up in ranges of bytes: the ends of a range are where that goes wrong."""
        graph, other = NamedNode("urn:numbers"), NamedNode("urn:others")
        add = [Quad(NamedNode(f"urn:s{n}"), vocab.INDEX, Literal(n), graph) for n in (0, 254, 255, 256, 510, 511, 512)]
        store.commit(Change(add=[*add, Quad(NamedNode("urn:s"), vocab.INDEX, Literal(256), other)]))
        for number in (0, 254, 255, 256, 511):
            for pattern in ((None, vocab.INDEX, Literal(number), graph), (None, None, Literal(number), None)):
                assert {str(quad.object) for quad in store.quads(pattern)} == {str(Literal(number))}
        assert store.quads((None, vocab.INDEX, Literal(255), other)) == []
        forbid = [(None, vocab.INDEX, Literal(255), other)]
        assert store.commit(
            Change(add=[Quad(NamedNode("urn:s"), vocab.INDEX, Literal(255), other)], forbid=forbid)
        ).written

    def test_the_default_graph_is_its_own_unless_a_union_is_asked_for(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(1), _quad(2, graph=DefaultGraph())]))
        text = "SELECT ?s { ?s ?p ?o }"
        alone, together = store.query(text), store.query(text, union=True)
        assert isinstance(alone, Solutions)
        assert isinstance(together, Solutions)
        assert (len(alone), len(together)) == (1, 2)

    def test_a_query_of_one_graph_sees_that_one_alone(self, store: QuadStore) -> None:
        other = NamedNode("https://example.org/other")
        store.commit(Change(add=[_quad(1), _quad(2, graph=DefaultGraph()), _quad(3, graph=other)]))
        confined = "SELECT ?s FROM <https://example.org/other> FROM NAMED <https://example.org/other> { ?s ?p ?o }"
        for text in ("SELECT ?s { ?s ?p ?o }", confined):
            assert [row["s"] for row in cast(Solutions, store.query(text, graph=_G))] == [_node(1)]
            assert [row["s"] for row in cast(Solutions, store.query(text, graph=DefaultGraph()))] == [_node(2)]
        assert store.query("ASK { GRAPH ?g { ?s ?p ?o } }", graph=_G) is False
        assert store.query("ASK { GRAPH <https://example.org/other> { ?s ?p ?o } }", graph=_G) is False

    def test_a_table_gives_every_text_byte_for_byte_and_an_unbound_variable_as_nothing(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(n, text) for n, text in enumerate(_HOSTILE_TEXTS)]))
        rows = store.table("SELECT ?o ?none { GRAPH <https://example.org/graph> { ?s ?p ?o } }")
        assert sorted(tsv.string(text) for text, _ in rows) == sorted(_HOSTILE_TEXTS)
        assert {unbound for _, unbound in rows} == {""}

    def test_every_text_comes_back_byte_for_byte(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(n, text) for n, text in enumerate(_HOSTILE_TEXTS)]))
        store.commit(Change(add=[_quad(99, _HOSTILE_TEXTS[3])], remove=[_quad(0, "")]))
        for number, text in list(enumerate(_HOSTILE_TEXTS))[1:]:
            found = store.quads((_node(number), _P, None, _G))
            assert [quad.object.value for quad in found] == [text]  # type: ignore[union-attr] # a literal
        assert not store.quads((_node(0), None, None, None))

    def test_adding_and_removing_happen_together_or_not_at_all(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(1)]))
        with pytest.raises(PreconditionFailed) as failed:
            store.commit(Change(add=[_quad(2)], remove=[_quad(1)], require=[_quad(3)]))
        assert failed.value.missing == _quad(3)
        assert store.quads((None, None, None, None)) == [_quad(1)]
        assert store.commit(Change(add=[_quad(2)], remove=[_quad(1)], require=[_quad(1)])).written
        assert store.quads((None, None, None, None)) == [_quad(2)]

    def test_a_forbidden_pattern_that_matches_stops_the_commit_and_says_what_matched(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(1), _quad(3), _quad(4, "w")]))
        with pytest.raises(PreconditionFailed) as failed:
            store.commit(Change(add=[_quad(2)], forbid=[(None, _P, Literal("v"), _G)]))
        assert set(failed.value.matched) == {_quad(1), _quad(3)}
        assert failed.value.present in failed.value.matched
        assert store.commit(Change(add=[_quad(2)], forbid=[(None, _Q, None, _G)])).written

    def test_repeating_a_commit_that_happened_is_a_success_that_writes_nothing(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(1)]))
        change = Change(add=[_quad(2)], remove=[_quad(1)], require=[_quad(1)], forbid=[(_node(2), None, None, None)])
        done, again = store.commit(change), store.commit(change)
        assert (done.written, again.written) == (True, False)
        assert (again.number, again.link) == (done.number, done.link)
        assert store.quads((None, None, None, None)) == [_quad(2)]

    def test_a_commit_says_where_the_log_is_and_each_later_one_stands_further_on(self, store: QuadStore) -> None:
        numbers = [store.commit(Change(add=[_quad(number)])).number for number in range(3)]
        assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
        assert store.number == numbers[-1]

    def test_what_was_seen_under_a_token_is_looked_up_again_once_anything_was_removed(self, store: QuadStore) -> None:
        store.commit(Change(add=[_quad(1), _quad(2)]))
        token = store.token
        store.commit(Change(add=[_quad(3)], require=[_quad(1)], seen=token))
        assert store.token == token
        store.commit(Change(remove=[_quad(1)]))
        assert store.token != token
        with pytest.raises(PreconditionFailed):
            store.commit(Change(add=[_quad(4)], require=[_quad(1)], seen=token))

    def test_a_change_made_from_what_is_not_so_any_more_is_refused_and_nothing_is_written(
        self, store: QuadStore
    ) -> None:
        store.commit(Change(add=[_quad(1)]))
        patterns: list[Pattern] = [(_node(1), None, None, None), (_node(7), None, None, None)]
        number, read = store.number, {pattern: store.quads(pattern) for pattern in patterns}
        store.commit(Change(add=[_quad(2)]))
        assert store.commit(Change(add=[_quad(3)], read=read, as_of=number)).written, "that is as it was"
        for change in (Change(add=[_quad(1, "w")]), Change(remove=[_quad(1)]), Change(add=[_quad(1), _quad(7)])):
            store.commit(change)
            with pytest.raises(PreconditionFailed) as failed:
                store.commit(Change(add=[_quad(4)], read=read, as_of=number))
            assert failed.value.is_outdated
        with pytest.raises(PreconditionFailed):
            store.commit(Change(add=[_quad(4)], read=None, as_of=store.number - 1))
        assert not store.quads((_node(4), None, None, None))
        assert store.commit(Change(add=[_quad(4)], read=None, as_of=store.number)).written

    def test_a_repeat_is_told_without_what_is_made_anew_each_time(self, store: QuadStore) -> None:
        for salt, written in (("first", True), ("second", False)):
            change = Change(add=[_quad(1)], forbid=[(_node(1), None, None, None)], also_add=[_quad(2, salt)])
            assert store.commit(change).written == written
        assert set(store.quads((None, None, None, None))) == {_quad(1), _quad(2, "first")}

    def test_of_many_writers_to_one_place_exactly_one_wins_each_round(self, store: QuadStore) -> None:
        if "threads" in self.cannot:
            pytest.skip("this store declares that it has no compare-and-swap")
        rounds, writers = 25, 8
        other = NamedNode("https://example.org/other")
        wins: list[tuple[int, int]] = []
        places: list[int] = []
        barrier = threading.Barrier(writers)

        def write(writer: int) -> None:
            for number in range(rounds):
                barrier.wait()
                places.append(store.commit(Change(add=[_quad(number, f"{writer}", other)])).number)
                try:
                    store.commit(
                        Change(add=[_quad(number, f"writer {writer}")], forbid=[(_node(number), _P, None, _G)])
                    )
                except PreconditionFailed:
                    continue
                wins.append((number, writer))

        threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(number for number, _ in wins) == list(range(rounds))
        assert len(set(places)) == rounds * writers, (
            "each commit has a number of its own, also among those that were written together"
        )
        for number, writer in wins:
            assert store.quads((_node(number), _P, None, _G)) == [_quad(number, f"writer {writer}")]

    def test_a_dropped_graph_is_gone_and_others_stay(self, store: QuadStore) -> None:
        other = NamedNode("https://example.org/other")
        store.commit(Change(add=[_quad(n) for n in range(1200)]))
        store.commit(Change(add=[_quad(1, graph=other)]))
        assert drop_graph(store, _G) == 1200
        assert store.quads((None, None, None, None)) == [_quad(1, graph=other)]
        assert drop_graph(store, _G) == 0
        store.commit(Change(add=[_quad(2), _quad(2, graph=other)]))
        assert store.commit(Change(add=[_quad(3, graph=other)], drop=[_G])).written
        assert set(store.quads((None, None, None, None))) == {_quad(number, graph=other) for number in (1, 2, 3)}

    def test_what_is_no_sparql_is_refused(self, store: QuadStore) -> None:
        with pytest.raises(InvalidInput, match="not valid SPARQL"):
            store.query("SELECT ?s WHERE { ?s")

    def test_a_closed_store_refuses_everything_and_closes_twice(self, open_store: Callable[[], QuadStore]) -> None:
        store = open_store()
        store.close()
        store.close()
        for use in (lambda: store.query("ASK {}"), lambda: store.commit(Change(add=[_quad(1)])), lambda: len(store)):
            with pytest.raises(StoreFailed, match="closed"):
                use()

    def test_what_was_committed_is_there_after_closing_and_opening_again(
        self, open_store: Callable[[], QuadStore]
    ) -> None:
        if "reopen" in self.cannot:
            pytest.skip("this store declares that it keeps nothing")
        store = open_store()
        store.commit(Change(add=[_quad(1), _quad(2)]))
        store.commit(Change(remove=[_quad(1)]))
        store.close()
        again = open_store()
        assert again.quads((None, None, None, None)) == [_quad(2)]
        again.close()


class LogConformance(StoreConformance):
    """What a store must do besides whose log outlasts its processes; `open_store` can be sent to another process.

    `cut_log` does damage to the log of a store that nobody has open, which then has ten records, and returns whether that has
    to be noticed by whoever opens and reads the store: True if what is lost was acknowledged, and something that is left shows
    it.
    """

    cannot: ClassVar[frozenset[str]] = frozenset()
    """Also "share": only one process at a time can have the store open, and others are refused with `StoreLocked`."""

    def test_of_eight_processes_exactly_one_wins_each_round(self, open_store: Callable[[], QuadStore]) -> None:
        open_store().close()
        wins = sorted(_in_processes(_play, open_store, _WRITERS))
        assert [number for number, _, _ in wins] == list(range(_ROUNDS))
        assert sorted(place for _, _, place in wins) == list(range(1, _ROUNDS + 1)), (
            "each record has a number of its own"
        )
        store = open_store()
        assert store.number == _ROUNDS
        found = {quad.subject: quad.object for quad in store.quads((None, _P, None, _G))}
        assert found == {_node(number): Literal(f"writer {writer}") for number, writer, _ in wins}
        counts = [leaves.parse_leaf(line)[0].count for line in store.log.lines()]
        assert counts == [number for number, _, _ in sorted(wins, key=lambda win: win[2])], (
            "its leaves are in its order"
        )
        store.close()

    def test_a_store_is_shared_by_processes_or_says_who_has_it(self, open_store: Callable[[], QuadStore]) -> None:
        store = open_store()
        (said,) = _in_processes(_try_to_open, open_store, 1)
        assert said == ("StoreLocked" if "share" in self.cannot else "opened")
        store.close()

    def test_what_a_killed_process_was_not_told_is_written_once_when_it_is_repeated(
        self, open_store: Callable[[], QuadStore]
    ) -> None:
        open_store().close()
        _killed(_commit_and_die, open_store)
        store = open_store()
        done = store.commit(_change(0))
        assert (done.written, done.number, store.number) == (False, 1, 1)
        assert set(store.quads((None, None, None, None))) == _after(1)
        assert len(store.log.lines()) == 1
        assert store.commit(_change(1)).number == 2
        store.close()

    def test_a_log_that_lost_its_end_is_refused_or_is_what_it_was_before(
        self, open_store: Callable[[], QuadStore], cut_log: Callable[[], bool]
    ) -> None:
        open_store().close()
        _killed(_commit_all_and_die, open_store)
        must_be_noticed = cut_log()
        try:
            store = open_store()
            store.quads((None, None, None, None))
        except StoreFailed:
            return
        assert not must_be_noticed
        left = store.number
        assert left <= _RECORDS
        assert set(store.quads((None, None, None, None))) == _after(left), (
            "nothing is there that was not at that moment"
        )
        assert len(store.log.lines()) in (left, _RECORDS), "its leaves are those of then, or still tell of what is lost"
        assert store.commit(_change(_RECORDS)).number == left + 1
        store.close()
        again = open_store()
        assert again.number == left + 1
        assert _quad(_RECORDS) in again.quads((None, None, None, None))
        again.close()


def _change(number: int) -> Change:
    """Return a commit that writes a quad, and removes the one that the commit before the last wrote."""
    add = [_quad(number)]
    return Change(add=add, remove=[_quad(number - 2)], forbid=[(_node(number), None, None, None)], leaves=_leaf(number))


def _after(records: int) -> set[Quad]:
    """Return what there is after the first commits."""
    return {_quad(number) for number in (records - 2, records - 1) if number >= 0}


def _leaf(number: int) -> list[Leaf]:
    return [Leaf("turns", iris.session("conformance"), number, "00" * 32)]


# --- what other processes do


def _opened(open_store: Callable[[], QuadStore]) -> QuadStore:
    """Open a store, once whoever has it lets go of it."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return open_store()
        except StoreLocked:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def _play(open_store: Callable[[], QuadStore], writer: int, said: Any) -> None:
    """Try to be the first to write in each round."""
    for number in range(_ROUNDS):
        store = _opened(open_store)
        add, taken = [_quad(number, f"writer {writer}")], (_node(number), _P, None, _G)
        try:
            said.put((number, writer, store.commit(Change(add=add, forbid=[taken], leaves=_leaf(number))).number))
        except PreconditionFailed:
            pass
        finally:
            store.close()


def _try_to_open(open_store: Callable[[], QuadStore], _: int, said: Any) -> None:
    try:
        open_store().close()
    except StoreLocked:
        said.put("StoreLocked")
    else:
        said.put("opened")


def _commit_and_die(open_store: Callable[[], QuadStore]) -> None:
    open_store().commit(_change(0))
    os.kill(os.getpid(), signal.SIGKILL)


def _commit_all_and_die(open_store: Callable[[], QuadStore]) -> None:
    store = open_store()
    for number in range(_RECORDS):
        store.commit(_change(number))
    os.kill(os.getpid(), signal.SIGKILL)


def _in_processes(work: Callable[..., None], open_store: Callable[[], QuadStore], processes: int) -> list[Any]:
    """Return what so many processes say that work beside each other."""
    context = multiprocessing.get_context("spawn")
    said = context.SimpleQueue()
    running = [context.Process(target=work, args=(open_store, number, said)) for number in range(processes)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert [each.exitcode for each in running] == [0] * processes
    found = []
    while not said.empty():
        found.append(said.get())
    return found


def _killed(work: Callable[..., None], open_store: Callable[[], QuadStore]) -> None:
    process = multiprocessing.get_context("spawn").Process(target=work, args=(open_store,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
