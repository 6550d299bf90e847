"""The session of the OpenAI Agents SDK over a Trails store: the protocol. The codec is in `item_codec`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote
from weakref import WeakKeyDictionary

from agents.items import TResponseInputItem
from agents.memory.session import _CompactionSnapshot
from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
from agents.run_context import RunContextWrapper

from trails.adapters.openai_agents import item_codec
from trails.adapters.opened_store import OpenedStore
from trails.errors import InvalidInput, SessionNotFound
from trails.model import iris, validation
from trails.model.values import Turn
from trails.rdf.ref_records import Ref
from trails.session import Repository
from trails.session.checkout import Checkout

MAIN: Final = "main"
SESSION: Final = "openaiSession"
"""The metadata key of the id that the SDK's user gave."""
_LONGEST: Final = 80
"""Characters of an id that stands in a ref's name; for a longer one, its digest does."""
_Result = TypeVar("_Result")
_Items = list[TResponseInputItem]


class TrailsSession:
    """Keep the items of an agent's runs in a store: `Runner.run(agent, "Hi", session=TrailsSession("chat", store))`.

    Each item is a turn of the session that the ref `ref_name` stands for. `pop_item` and `clear_session` move the ref: the turns
    stay in the store. Several sessions with one id, in threads and processes, lose and double nothing.

    >>> import asyncio, trails
    >>> with trails.open(":memory:") as store:
    ...     chat = TrailsSession("chat", store)
    ...     asyncio.run(chat.add_items([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]))
    ...     asyncio.run(chat.pop_item()), asyncio.run(chat.get_items()), len(store.checkout(chat.ref_name))
    ({'role': 'assistant', 'content': 'Hello'}, [{'role': 'user', 'content': 'Hi'}], 1)
    """

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        store: Repository | str | os.PathLike[str],
        *,
        branch: str = MAIN,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        principal: str | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> None:
        """Use an open store, or open the one at a location, which is made if there is none; `close` closes that.

        The session is made by the first items that are added.
        `branch` names one of its branches. `session_settings` holds the default limit of `get_items`. `principal` and `agent` are
        whom the session runs for and what runs it. `model` is the model that the usage of runs is counted for.
        """
        self.session_id = validation.text(session_id, "the session's id")
        if not session_id:
            raise InvalidInput("the session's id is empty: give the conversation a name")
        self.session_settings = coerce_session_settings(
            SessionSettings() if session_settings is None else session_settings
        )
        self._opened_store = OpenedStore.of(store)
        self.store = self._opened_store.repository
        self._fields = {"principal": principal, "agent": agent, "meta": {SESSION: session_id}}
        self._model = model
        self._lock = threading.RLock()
        self._counted: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()
        """The usage of runs that turns have already, by the context of the run."""
        self._branch = validation.name(branch, "a branch's name")
        self._checkout: Checkout | None = None

    # --- where it is

    @property
    def branch(self) -> str:
        """The branch that is read and written."""
        return self._branch

    @property
    def ref_name(self) -> str:
        """The name of the branch's ref: `store.checkout` gives its turns, `store.load` also those taken back."""
        return self._ref_name(self._branch)

    def _ref_name(self, branch: str) -> str:
        name = quote(self.session_id, safe="@+=,!")
        short = len(name) <= _LONGEST
        main = f"openai:{name}" if short else f"openai-long:{hashlib.sha256(name.encode()).hexdigest()}"
        return main if branch == MAIN else f"{main}:{quote(branch, safe='@+=,!')}"

    def close(self) -> None:
        """Close the store if it was opened here."""
        self._opened_store.close()

    # --- the protocol

    async def get_items(self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None) -> _Items:
        """Return the items, the oldest first: all, or the last `limit` (0 for none, less for all)."""
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise InvalidInput(f"the limit is a whole number or None, not {limit!r:.80}")
        most = resolve_session_limit(limit, self.session_settings)
        return await self._run(lambda: self._items(most))

    async def add_items(self, items: _Items, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Add items behind those there are, in one commit; the last one of the model gets the usage of the run since."""
        given: object = items
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise InvalidInput(f"the items are a list of mappings, not {type(given).__name__}")
        items = list(items)
        if items:
            await self._run(lambda: self._add(items, wrapper))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Take the last item back and return it; None if there is none."""
        return await self._run(self._pop)

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Take all items back. The turns stay in the store; `delete_session` deletes them."""
        await self._run(self._clear)

    # --- branches

    async def create_branch(self, name: str, *, before: int | None = None) -> None:
        """Make a branch with the turns before one, by its index (default all), and go on there; no turn is copied.

        Raises `InvalidInput` for a name that is in use and an index past the end.
        """
        await self._run(lambda: self._create_branch(name, before))

    async def switch_to_branch(self, name: str) -> None:
        """Read and write another branch from now on; raise `InvalidInput` if there is none."""
        await self._run(lambda: self._switch(name))

    async def list_branches(self) -> list[str]:
        """Return the names of the branches that have had items, `main` first."""
        return await self._run(self._branches)

    async def delete_branch(self, name: str) -> None:
        """Take a branch's name away; its turns stay in the store. Raises `InvalidInput` for the one that is in use."""
        await self._run(lambda: self._delete_branch(name))

    async def delete_session(self) -> None:
        """Delete all that was ever added, in all branches, and all forks of it; go on in `main`, which is empty then."""
        await self._run(self._delete)

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        """Return what a function gives on a worker thread; a task that is cancelled ends when the function has ended."""

        def locked() -> _Result:
            with self._lock:
                return work()

        running = asyncio.ensure_future(asyncio.to_thread(locked))
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
        if cancelled is not None:
            running.exception()
            raise cancelled
        return running.result()

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """Return the last items and what replaces some of them at the end by a summary, in one commit.

        The SDK's compaction and its encryption ask for this by its name. None where a turn is not just one item.
        """
        turns, is_all = await self._run(lambda: self._window(limit))
        items = [_items_of(turn) for turn in turns]
        if any(len(each) != 1 for each in items):
            return None

        async def replace_suffix(start: int, output: _Items) -> bool:
            return await self._run(lambda: self._replace(turns[start:], output, prune_prefix))

        return _CompactionSnapshot([item for each in items for item in each], is_all, replace_suffix)

    # --- the same, on a worker thread

    def _opened(self) -> Checkout:
        if self._checkout is None:
            self._checkout = self.store.checkout(self.ref_name, create=True, **self._fields)  # type: ignore[arg-type]
        return self._checkout

    def _current(self) -> Checkout:
        return self._anew(_refreshed)

    def _update(self, change: Callable[[Checkout], _Result]) -> _Result:
        return self._anew(lambda checkout: checkout.update(change))

    def _anew(self, work: Callable[[Checkout], _Result]) -> _Result:
        """Do some work on the checkout; on a new one, without items, where another writer deleted the session meanwhile."""
        checkout = self._opened()
        try:
            return work(checkout)
        except (InvalidInput, SessionNotFound):
            if checkout.ref is None or self._branch_ref(self._branch) is not None:
                raise
        self._checkout = None
        return work(self._opened())

    def _items(self, most: int | None) -> _Items:
        checkout = self._current()
        if most is None or most < 0:
            return [item for turn in checkout.turns for item in _items_of(turn)]
        return _last_items(checkout, most)

    def _add(self, items: Sequence[TResponseInputItem], wrapper: RunContextWrapper[Any] | None) -> None:
        usage, counted = self._new_usage(wrapper)
        saying = [number for number, item in enumerate(items) if _is_models(item)]
        facts = {saying[-1]: {"usage": usage, "model": self._model}} if saying and usage else {}
        drafts = [item_codec.draft_of(item, **facts.get(number, {})) for number, item in enumerate(items)]

        def add(checkout: Checkout) -> None:
            for draft in drafts:
                checkout.session.worktree.append(draft)

        self._update(add)
        if facts:
            self._counted[wrapper] = counted

    def _new_usage(self, wrapper: RunContextWrapper[Any] | None) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the usage of a run that no turn has yet, and all of it; both empty where nothing is new."""
        if wrapper is None:
            return {}, {}
        usage = wrapper.usage
        counted = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.input_tokens_details.cached_tokens,
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens,
        }
        before = self._counted.get(wrapper, {})
        new = {name: count - before.get(name, 0) for name, count in counted.items()}
        if not (new["input_tokens"] or new["output_tokens"]) or min(new.values()) < 0:
            return {}, counted
        return {
            "input_tokens": new["input_tokens"],
            "input_tokens_details": {"cached_tokens": new["cached_tokens"]},
            "output_tokens": new["output_tokens"],
            "output_tokens_details": {"reasoning_tokens": new["reasoning_tokens"]},
            "total_tokens": new["input_tokens"] + new["output_tokens"],
        }, counted

    def _pop(self) -> TResponseInputItem | None:
        def pop(checkout: Checkout) -> TResponseInputItem | None:
            for index in range(len(checkout) - 1, -1, -1):
                if items := _items_of(checkout.turns[index]):
                    checkout.rewind(index)
                    last: TResponseInputItem = items[-1]
                    return last
            return None

        checkout = self._current()
        return None if checkout.ref is None else self._update(pop)

    def _window(self, limit: int) -> tuple[tuple[Turn, ...], bool]:
        checkout = self._current()
        turns = checkout.tail(limit)
        return turns, len(turns) == len(checkout)

    def _replace(
        self, old: Sequence[Turn], new: _Items, prune_prefix: Callable[[TResponseInputItem], bool] | None
    ) -> bool:
        """Put items in the place of the last turns, if those are still the last, and leave out the first ones to be pruned."""
        drafts = [item_codec.draft_of(item) for item in new]

        def replace(checkout: Checkout) -> bool:
            if not old or [turn.digest for turn in checkout.tail(len(old))] != [turn.digest for turn in old]:
                return False
            end = len(checkout) - len(old)
            kept = [] if prune_prefix is None else [item for turn in checkout.turns[:end] for item in _items_of(turn)]
            after = list(dropwhile(prune_prefix, kept)) if prune_prefix is not None else kept
            is_pruned = len(after) < len(kept)
            checkout.rewind(0 if is_pruned else end)
            for draft in [*(map(item_codec.draft_of, after) if is_pruned else ()), *drafts]:
                checkout.session.worktree.append(draft)
            return True

        return self._update(replace)

    def _clear(self) -> None:
        if self._current().ref is not None:
            self._update(Checkout.clear)

    # --- branches, on a worker thread

    def _create_branch(self, name: str, before: int | None) -> None:
        validation.name(name, "a branch's name")
        if self._branch_ref(name) is not None:
            raise InvalidInput(
                f"the session {self.session_id!r} has a branch {name!r} already: switch to it, or choose another name"
            )
        checkout = self._current()
        end = validation.fork_index(len(checkout) if before is None else before, len(checkout), self.session_id)
        if checkout.ref is None:
            raise InvalidInput(f"the session {self.session_id!r} has no items yet that a branch could share")
        self.store.refs.set(self._ref_name(name), iris.session(checkout.session_id), end, expected=None)
        self._go_to(name)

    def _branch_ref(self, name: str) -> Ref | None:
        return self.store.refs.find(self._ref_name(name))

    def _switch(self, name: str) -> None:
        validation.name(name, "a branch's name")
        if name != MAIN and self._branch_ref(name) is None:
            raise self._no_branch(name)
        self._go_to(name)

    def _no_branch(self, name: str) -> InvalidInput:
        return InvalidInput(
            f"the session {self.session_id!r} has no branch {name!r}; it has {', '.join(self._branches())}"
        )

    def _go_to(self, name: str) -> None:
        self._branch, self._checkout = name, None

    def _branches(self) -> list[str]:
        start = f"{self._ref_name(MAIN)}:"
        return [MAIN, *(unquote(ref.name.removeprefix(start)) for ref in self.store.refs if ref.name.startswith(start))]

    def _delete_branch(self, name: str) -> None:
        validation.name(name, "a branch's name")
        if name == self._branch:
            raise InvalidInput(f"the branch {name!r} is in use: switch to another one first")
        if self._branch_ref(name) is None:
            raise self._no_branch(name)
        self.store.refs.remove(self._ref_name(name))

    def _delete(self) -> None:
        names = [name for name in self._branches() if self._branch_ref(name) is not None]
        for name in names:
            self.store.refs.remove(self._ref_name(name))
        for record in list(self.store.list(meta={SESSION: self.session_id}, limit=1000)):
            self.store.delete(record.iri, children="cascade")
        self._go_to(MAIN)


def _refreshed(checkout: Checkout) -> Checkout:
    checkout.refresh()
    return checkout


def _items_of(turn: Turn) -> Any:
    return item_codec.items_of(turn)


def _last_items(checkout: Checkout, count: int) -> _Items:
    """Return the last items, reading no more turns than it takes."""
    window = count
    while True:
        turns = checkout.tail(window)
        items: _Items = [item for turn in turns for item in _items_of(turn)]
        if len(items) >= count or len(turns) == len(checkout):
            return items[len(items) - count :] if count < len(items) else items
        window *= 2


def _is_models(item: Any) -> bool:
    """Tell whether the model made an item."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not str(kind).endswith(("_output", "_response"))
