"""LangGraph's checkpointer on a store of sessions, sync and async."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from random import random
from threading import Lock
from time import sleep
from typing import Any, Final, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import trails
from trails.adapters.langgraph import rewriting
from trails.adapters.langgraph.additions import Addition, append_writes
from trails.adapters.langgraph.messages import is_messages
from trails.adapters.langgraph.records import (
    LONGEST_CHANNEL,
    LONGEST_WRITE,
    Blob,
    Entry,
    Value,
    Write,
    about_checkpoint,
    blob,
    keep_writes,
    write_name,
)
from trails.adapters.langgraph.threads import THREAD, THREADS, Lane, Moment, Thread, session_records
from trails.errors import HeadConflict, InvalidInput, SessionExists, SessionNotFound
from trails.session.repository import Repository

KIND: Final = "langgraph"
"""The kind of the sessions that hold threads."""
_THREADS: Final = 256
"""How many threads are held in memory."""
_TRIES: Final = 200
"""How often something is written anew, at most, after another writer was quicker."""
_Answer = TypeVar("_Answer")
_Writes = list[Write]


class TrailsSaver(BaseCheckpointSaver[str]):
    """A checkpointer that keeps threads as sessions: each message a turn, each invocation from an older checkpoint a fork.

    >>> import trails
    >>> from langgraph.checkpoint.base import empty_checkpoint
    >>> with trails.open(":memory:") as store:
    ...     saver = TrailsSaver(store)
    ...     stored = saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {"step": 0}, {})
    ...     saver.get_tuple({"configurable": {"thread_id": "t"}}).metadata["step"], store.list()[0].id
    (0, 't')
    """

    def __init__(
        self,
        store: Repository | str | os.PathLike[str],
        *,
        serde: SerializerProtocol | None = None,
        principal: str | None = None,
        agent: str | None = None,
        native: bool | None = None,
    ) -> None:
        """Keep threads in an open store, or in the one at a location, which is made if it is not there.

        `principal` and `agent` are those of new sessions. `native` says whether messages can be read as turns: by default with
        LangGraph's own serializer alone, as any other one may encrypt. With `native=False`, their text is only in the bytes
        that `serde` writes. A store that was opened here is closed by `close`, or by a `with` block.
        """
        super().__init__(serde=serde)
        self._owns_store = not isinstance(store, Repository)
        self.store = store if isinstance(store, Repository) else trails.open(store, create=True)
        """The store, for what LangGraph has no call for: `search`, `diff`, `cost`, `query`."""
        self._native = native
        self._options = {"principal": principal, "agent": agent, "kind": KIND}
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._lock = Lock()

    @classmethod
    @contextmanager
    def from_path(cls, location: str | os.PathLike[str], **options: Any) -> Iterator[TrailsSaver]:
        """Give a checkpointer for the block on the store at a location, which is made if it is not there, and close it.

        `options` are those of the class.
        """
        with cls(location, **options) as saver:
            yield saver

    @classmethod
    @asynccontextmanager
    async def afrom_path(cls, location: str | os.PathLike[str], **options: Any) -> AsyncIterator[TrailsSaver]:
        """Do as `from_path`, for an event loop."""
        saver = await asyncio.to_thread(cls, location, **options)
        try:
            yield saver
        finally:
            await asyncio.to_thread(saver.close)

    def close(self) -> None:
        """Close the store if it was opened here."""
        if self._owns_store:
            self.store.close()

    def __enter__(self) -> TrailsSaver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> TrailsSaver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def _is_native(self) -> bool:
        return type(self.serde) is JsonPlusSerializer if self._native is None else self._native

    # --- threads

    def _moment(self) -> Moment:
        """Return what stands for all that is committed now."""
        self.store.refresh()
        return Moment.of(self.store)

    def _thread(self, thread_id: str) -> Thread:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = self._threads[thread_id] = Thread(self.store, thread_id, self._options)
                if len(self._threads) > _THREADS:
                    self._threads.popitem(last=False)
            self._threads.move_to_end(thread_id)
            return thread

    def _read(self, thread_id: str, work: Callable[[Thread], _Answer]) -> _Answer:
        """Return what is read of a thread, as it is stored now."""
        thread = self._thread(thread_id)
        with thread.lock:
            thread.sync(self._moment())
            return work(thread)

    def _write(self, thread_id: str, work: Callable[[Thread], _Answer]) -> _Answer:
        """Do something to a thread, and again after others' commits were brought in while another writer was quicker."""
        thread = self._thread(thread_id)
        with thread.lock:
            for attempt in range(_TRIES):
                thread.sync(self._moment())
                try:
                    return work(thread)
                except (HeadConflict, SessionExists, SessionNotFound):
                    thread.forget()
                    sleep(random() * 0.002 * min(attempt, 20))  # noqa: S311 - so that writers do not meet again
            thread.sync(self._moment())
            return work(thread)

    # --- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with what was written on top of it: the newest one without a `checkpoint_id`; None for none."""
        thread_id, namespace = _place(config)

        def read(thread: Thread) -> CheckpointTuple | None:
            entry = thread.find(namespace, get_checkpoint_id(config))
            return None if entry is None else self._tuple(thread, entry)

        return self._read(thread_id, read)

    def _tuple(self, thread: Thread, entry: Entry) -> CheckpointTuple:
        lane, serde = thread.lanes[entry.lane], self.serde
        values: dict[str, Any] = {}
        for name, value in lane.values(entry).items():
            with suppress(LookupError):  # redacted
                values[name] = _loaded(lane, value, serde)
        checkpoint = {**lane.about(entry, "header", serde), "id": entry.id, "channel_values": values}
        return CheckpointTuple(
            config=_config(thread.thread_id, entry.namespace, entry.id),
            checkpoint=checkpoint,  # type: ignore[arg-type] # as `put` was given it
            metadata=lane.about(entry, "metadata", serde),
            parent_config=_config(thread.thread_id, entry.namespace, entry.parent) if entry.parent else None,
            pending_writes=_pending_writes(thread, entry, serde),
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the protocol's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first, of one thread or of all: those whose metadata has what `filter` says.

        `before` names a checkpoint that all of them are older than, `limit` is how many there are at most.
        """
        about = config.get("configurable", {}) if config else {}
        wanted = get_checkpoint_id(config) if about and config else None
        end = get_checkpoint_id(before) if before else None
        places: list[tuple[str, str, str]] = []
        for thread_id in [str(about["thread_id"])] if "thread_id" in about else self.thread_ids():
            places += self._read(thread_id, lambda thread: _places(thread, about.get("checkpoint_ns"), wanted, end))
        places.sort(reverse=True)
        left = len(places) if limit is None else limit
        for place in places:
            if left <= 0:
                return
            found = self._matching(place, filter or {})
            if found is not None:
                left -= 1
                yield found

    def _matching(self, place: tuple[str, str, str], wanted: Mapping[str, Any]) -> CheckpointTuple | None:
        checkpoint_id, thread_id, namespace = place

        def read(thread: Thread) -> CheckpointTuple | None:
            entry = thread.find(namespace, checkpoint_id)
            if entry is None:
                return None
            metadata = thread.lanes[entry.lane].about(entry, "metadata", self.serde) if wanted else {}
            is_wanted = all(_said(metadata, name) == value for name, value in wanted.items())
            return self._tuple(thread, entry) if is_wanted else None

        return self._read(thread_id, read)

    def thread_ids(self) -> list[str]:  # type: ignore[valid-type] # `list` is the method in here
        """Return the ids of all threads that are stored."""
        return sorted({str(record.meta[THREAD]) for record in session_records(self.store, THREADS)})

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what each channel got on the way to a checkpoint: the writes since its nearest stored value, and that."""
        thread_id, namespace = _place(config)

        def read(thread: Thread) -> Mapping[str, DeltaChannelHistory]:
            return self._history(thread, thread.find(namespace, get_checkpoint_id(config)), channels)

        return self._read(thread_id, read) if channels else {}

    def _history(
        self, thread: Thread, target: Entry | None, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        serde = self.serde
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        open_channels, seen = set(channels), set[str]()
        entry = _parent(thread, target)
        while entry is not None and open_channels and entry.id not in seen:
            seen.add(entry.id)
            lane = thread.lanes[entry.lane]
            for write in reversed(_pending_writes(thread, entry, serde)):
                if write[1] in open_channels:
                    found[write[1]]["writes"].append(write)
            values = lane.values(entry)
            for name in sorted(open_channels & values.keys()):
                found[name]["seed"] = _loaded(lane, values[name], serde)
                open_channels.discard(name)
            entry = _parent(thread, entry)
        for history in found.values():
            history["writes"].reverse()
        return found

    # --- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint behind the one that `config` names, in one commit, and return its own config.

        If that one is not the last of its session, the checkpoint begins a fork.
        """
        thread_id, namespace = _place(config)
        parent = get_checkpoint_id(config)
        about = about_checkpoint(checkpoint, get_checkpoint_metadata(config, metadata), parent, self.serde)

        def write(thread: Thread) -> None:
            lane = thread.lane_after(namespace, parent)
            with _whole(thread, lane):
                loose = thread.loose_writes(lane, checkpoint["id"])
                addition = Addition(lane, self.serde, is_native=self._is_native)
                entry = addition.finish(about, self._values(addition, checkpoint, new_versions), loose)
                self._commit(thread, lane)
            thread.arrive(lane)
            thread.add(lane, entry)

        self._write(thread_id, write)
        return _config(thread_id, namespace, checkpoint["id"])

    def _commit(self, thread: Thread, lane: Lane) -> None:
        lane.session.persist()
        thread.note_commit(Moment.of(self.store))

    def _values(self, addition: Addition, checkpoint: Checkpoint, new_versions: ChannelVersions) -> dict[str, Value]:
        """Return what the channels hold: what did not change since the checkpoint before is taken from there."""
        versions = checkpoint["channel_versions"]
        base = addition.base
        before = {} if base is None else addition.lane.about(base, "header", self.serde)["channel_versions"]
        values: dict[str, Value] = {}
        for name, given in checkpoint["channel_values"].items():
            version = versions.get(name)
            if (
                version is not None
                and name not in new_versions
                and name in addition.before
                and before.get(name) == version
            ):
                values[name] = addition.before[name]
            elif is_messages(given):
                values[name] = addition.messages(name, given)
            else:
                values[name] = blob(name, given, self.serde, LONGEST_CHANNEL if self._is_native else 0)
        return values

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote on top of a checkpoint, in one commit; what it wrote there before stays as it is.

        Errors, interrupts and their kind are replaced.
        """
        thread_id, namespace = _place(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id is None:
            raise InvalidInput(f"config names the checkpoint that a task wrote on by checkpoint_id, not {config!r:.80}")
        given: _Writes = []
        for at, (channel, value) in enumerate(writes):
            position = WRITES_IDX_MAP.get(channel, at)
            held = blob(write_name(position, channel), value, self.serde, LONGEST_WRITE if self._is_native else 0)
            given.append(Write(task_id, position, channel, task_path, held))

        def write(thread: Thread) -> None:
            new = keep_writes(thread.writes_on(namespace, checkpoint_id), given)
            if not new:
                return
            lane = thread.lane_of(namespace, checkpoint_id)
            with _whole(thread, lane):
                placed = append_writes(lane, checkpoint_id, new)
                self._commit(thread, lane)
            thread.arrive(lane)
            thread.add_writes(namespace, checkpoint_id, placed)

        self._write(thread_id, write)

    # --- removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete all sessions of a thread: its messages, checkpoints and writes. `vacuum` then takes them out of the files."""
        thread = self._thread(str(thread_id))
        with thread.lock:
            rewriting.delete_sessions(self.store, thread)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs, what was written on them, and the messages that no other checkpoint has.

        The sessions of their threads are written anew without these, and the old ones deleted.
        """
        wanted = set(run_ids)
        for thread_id in self.thread_ids() if wanted else []:
            self._rewrite(
                thread_id,
                lambda thread: [
                    each
                    for each in thread.in_order()
                    if thread.lanes[each.lane].about(each, "metadata", self.serde).get("run_id") not in wanted
                ],
            )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of some threads: all, or with "keep_latest" all but the newest one of each namespace.

        Of a thread with delta channels, the checkpoints that the newest ones are worked out from stay as well.
        Raises `InvalidInput` for another strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f'strategy is "keep_latest" or "delete", not {strategy!r:.80}')
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._rewrite(str(thread_id), lambda thread: rewriting.latest(thread, self.serde))

    def _rewrite(self, thread_id: str, choose: Callable[[Thread], Sequence[Entry]]) -> None:
        def write(thread: Thread) -> None:
            kept = choose(thread)
            if len(kept) < len(thread.in_order()):
                rewriting.rewrite(self.store, thread, kept)

        self._write(thread_id, write)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread, and what was written on them, to another thread, in one commit."""
        target = Thread(self.store, str(target_thread_id), self._options)
        self._read(str(source_thread_id), lambda thread: rewriting.copy(self.store, thread, target))

    # --- for an event loop

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do as `get_tuple`, on another thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the protocol's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do as `list`, on another thread."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do as `put`, on another thread."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do as `put_writes`, on another thread."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Do as `delete_thread`, on another thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do as `delete_for_runs`, on another thread."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do as `copy_thread`, on another thread."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do as `prune`, on another thread."""
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do as `get_delta_channel_history`, on another thread."""
        return await asyncio.to_thread(lambda: self.get_delta_channel_history(config=config, channels=channels))

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """Return a channel's next version, which is greater than the `current` one also as a text."""
        number = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random():016}"  # noqa: S311 - two writers' versions are to differ


@contextmanager
def _whole(thread: Thread, lane: Lane) -> Iterator[None]:
    """Forget what is pending of a session, and what is held of its thread, if something raises before all of it is stored."""
    try:
        yield
    except BaseException:
        lane.session.discard_pending()
        thread.forget()
        raise


def _place(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the namespace that a config names; raise `InvalidInput` if it names no thread."""
    about: Any = config.get("configurable") if config else None
    if not isinstance(about, Mapping) or about.get("thread_id") is None:
        raise InvalidInput(f'config names a thread: {{"configurable": {{"thread_id": ...}}}}, not {config!r:.80}')
    return str(about["thread_id"]), str(about.get("checkpoint_ns") or "")


def _said(metadata: Any, name: str) -> Any:
    """Return what metadata says under a key, or under a path of keys with dots between; None for nothing."""
    if not isinstance(metadata, dict) or name in metadata or "." not in name:
        return metadata.get(name) if isinstance(metadata, dict) else None
    first, _, rest = name.partition(".")
    return _said(metadata.get(first), rest)


def _parent(thread: Thread, entry: Entry | None) -> Entry | None:
    return thread.find(entry.namespace, entry.parent) if entry is not None and entry.parent else None


def _loaded(lane: Lane, value: Value, serde: SerializerProtocol) -> Any:
    if isinstance(value, Blob):
        return lane.load(value, serde)
    return [lane.message(index).fresh(serde) for index in value.indices]


def _pending_writes(thread: Thread, entry: Entry, serde: SerializerProtocol) -> list[tuple[str, str, Any]]:
    loaded = []
    for write in entry.ordered_writes:
        with suppress(LookupError):  # redacted
            loaded.append((write.task_id, write.channel, thread.lanes[write.lane].load(write.value, serde)))
    return loaded


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    about = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": about}


def _places(thread: Thread, namespace: str | None, wanted: str | None, end: str | None) -> list[tuple[str, str, str]]:
    thread.read_all()
    return [
        (entry.id, thread.thread_id, entry.namespace)
        for entries in (
            [thread.checkpoints.get(namespace, {})] if namespace is not None else thread.checkpoints.values()
        )
        for entry in entries.values()
        if (wanted is None or entry.id == wanted) and (end is None or entry.id < end)
    ]
