"""Whatever is done to keys, in whatever order: nothing is lost, nothing is named twice, and the store verifies."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from trails import (
    HasChildren,
    Inbound,
    InvalidInput,
    Ledger,
    Repository,
    RequestRefused,
    Router,
    SessionNotFound,
    TrailsError,
)
from trails.rdf import conversation_records, vocab

PEERS = ("1", "2", "3")
KEYS = ("main", "agent:main:dm:1", "agent:main:telegram:dm:2", "agent:main:dm:alice", "boss", "telegram:group:9")
SCOPES = ("main", "per-peer", "per-channel-peer")

keys = st.sampled_from(KEYS)
steps = st.one_of(
    st.tuples(st.just("route"), st.sampled_from(PEERS)),
    st.tuples(st.just("route"), st.sampled_from(PEERS)),
    st.tuples(st.just("wait"), st.sampled_from((1, 20))),
    st.tuples(st.just("reset"), keys),
    st.tuples(st.just("label"), keys, st.sampled_from(("desk", "trip", None))),
    st.tuples(st.just("alias"), keys, keys),
    st.tuples(st.just("unalias"), keys),
    st.tuples(st.just("promote"), keys, keys),
    st.tuples(st.just("merge"), keys, keys),
    st.tuples(st.just("migrate"), st.sampled_from(SCOPES)),
    st.tuples(st.just("undo"), st.integers(0, 5)),
    st.tuples(st.just("delete"), keys),
)


class _World:
    """A store and what should be true of it."""

    def __init__(self, store: trails.Repository) -> None:
        self.store = store
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.router = Router(store, clock=lambda: self.now)
        self.said: dict[str, str] = {}
        """The session that each message went to."""
        self.gone: set[str] = set()
        self.operations: list[str] = []

    def do(self, step: tuple[object, ...]) -> None:
        name, *given_names = step
        self.now += timedelta(seconds=1)
        with contextlib.suppress(RequestRefused, InvalidInput):
            getattr(self, f"_{name}")(*given_names)

    def _route(self, peer: str) -> None:
        text = f"message {len(self.said)}"
        routed = self.router.route(Inbound(channel="telegram", peer=peer, content=text))
        self.said[text] = routed.session_id

    def _wait(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    def _reset(self, key: str) -> None:
        self.router.reset(key)

    def _label(self, key: str, label: str | None) -> None:
        self.router.patch(key, {"label": label})

    def _alias(self, alias: str, key: str) -> None:
        self.router.alias(alias, key)

    def _unalias(self, key: str) -> None:
        self.router.unalias(key)

    def _promote(self, key: str, new: str) -> None:
        self.operations.append(self.router.promote(key, new).operation)

    def _merge(self, key: str, into: str) -> None:
        self.operations.append(self.router.merge_into(key, into).operation)

    def _migrate(self, scope: str) -> None:
        done = self.router.migrate(scope)
        self.operations += [done.operation] if done.moved else []

    def _undo(self, number: int) -> None:
        if number < len(self.operations):
            self.operations.append(self.router.undo(self.operations[number]).operation)

    def _delete(self, key: str) -> None:
        held = self.router.resolve(key=key, include_global=True)
        self.gone |= set(self.router.delete(id=self.router.session(held).id, force=True))

    def check(self) -> None:
        """Hold the store against what was done."""
        assert self.store.verify().findings == ()
        for text, session_id in self.said.items():
            if session_id not in self.gone:
                assert text in [event.content for event in Ledger(self.store).inbox(session_id)]
        raw = self.store.store
        current = [str(quad.object) for quad in raw.quads((None, vocab.CURRENT_SESSION, None, vocab.CATALOG))]
        assert len(current) == len(set(current))
        labels = [str(quad.object) for quad in raw.quads((None, vocab.LABEL, None, None))]
        assert len(labels) == len(set(labels))
        for record in self.store.list(limit=1000):
            node = ox.NamedNode(record.iri)
            assert record.key is not None
            bound = set(conversation_records.belongs_quad(record.id, record.key))
            assert bound <= set(raw.quads((node, None, None, vocab.CATALOG)))
            assert len(raw.quads((node, vocab.SPECIALIZATION_OF, None, vocab.CATALOG))) == 1
        named = {held.key for held in self.router._keyring.every()}
        assert {alias.key for alias in self.router.aliases()} <= named
        assert not {alias.alias for alias in self.router.aliases()} & named


@examples(30)
@given(st.lists(steps, max_size=14))
def test_keys_stay_whole_whatever_is_done_to_them(done: list[tuple[object, ...]]) -> None:
    with warnings.catch_warnings(), trails.open(":memory:") as store:
        warnings.simplefilter("ignore", trails.SharedSessionWarning)
        world = _World(store)
        for step in done:
            world.do(step)
        world.check()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::trails.SharedSessionWarning")
def test_keys_stay_whole_when_many_writers_change_them_at_once(store: Repository) -> None:
    wrong: list[BaseException] = []

    def at_once(change: Callable[[Router, int], object]) -> Callable[[], None]:
        def run() -> None:
            router = Router(store, config={"session": {"dmScope": "per-peer"}})
            for number in range(15):
                try:
                    change(router, number)
                except (RequestRefused, InvalidInput, SessionNotFound, HasChildren):
                    continue  # another writer was there first, and says so
                except TrailsError as error:
                    wrong.append(error)

        return run

    def key(number: int) -> str:
        return f"dm:{number % 2}"

    changes: list[Callable[[Router, int], object]] = [
        lambda router, n: router.route(Inbound(channel="t", peer=str(n % 2), content=f"message {n}")),
        lambda router, n: router.patch(key(n), {"label": f"label {n % 3}"}),
        lambda router, n: (router.alias(f"a{n % 3}", key(n)), router.unalias(f"a{n % 3}")),
        lambda router, n: router.alias(f"b{n}", key(n)),
        lambda router, n: router.delete(id=router.session(key(n)).id, force=True),
        lambda router, n: router.undo(router.merge_into("dm:0", "dm:1").operation),
        lambda router, n: router.promote("dm:0", f"dm:x{n}"),
        lambda router, n: router.reset(key(n)),
        lambda router, n: router.count(key(n), {"input": 1}),
    ]
    threads = [threading.Thread(target=at_once(change)) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert store.verify().findings == ()
