"""A handle on an open store is never copied: a copy that goes would close the store for the one that is left."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import trails
from trails import Repository, TrailsError
from trails.handles import Handle

COPIES: tuple[Callable[[object], object], ...] = (copy.copy, copy.deepcopy, pickle.dumps)


def handles(store: Repository) -> list[object]:
    """Everything that is made of an open store and works on it."""
    session = store.create(id="plan")
    session.append("user", "Plan a trip")
    session.persist()
    tree, router = trails.Tree(store), trails.Router(store)
    router.session("main")
    view = router.view("main")
    parts: list[object] = [store, store.store, store.tags, store.notes, store.maintenance, store.proofs]
    return [*parts, session, trails.Ledger(store), tree, tree.main("planner", "chat"), router, trails.Runs(store), view]


@pytest.mark.parametrize("copied", COPIES)
def test_a_store_and_all_that_works_on_it_refuse_to_be_copied(
    store: Repository, copied: Callable[[object], object]
) -> None:
    for handle in handles(store):
        assert isinstance(handle, Handle), handle
        with pytest.raises(TrailsError, match=r"cannot be copied or pickled: .* ask the store for another one"):
            copied(handle)


def test_a_store_takes_turns_after_somebody_tried_to_copy_it(store: Repository) -> None:
    session = store.create(id="plan")
    session.append("user", "Plan a trip")
    for copied in COPIES:
        for handle in (store, session):
            with pytest.raises(TrailsError):
                copied(handle)
    assert session.persist() == 1
