"""Write a turn as it comes, and keep it on disk meanwhile, so that a killed process loses none of it.

Until the turn ends, its chunks stand in a file in the store's folder, one line each, and nowhere in the graph: no
query, verification or export sees them. When it ends, the turn is stored in one commit and the file is deleted. Opening
a store makes a turn of what a killed process left, before anything else can be asked, so that redaction and deletion
reach it. A store in memory has no such file.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pyoxigraph import Literal

from trails.errors import InvalidInput, PendingTurnsWarning, StoreFailed, TrailsError
from trails.handles import Handle
from trails.history import turn_builder
from trails.history.pending_session import Worktree
from trails.history.workspace import Workspace
from trails.integrity import digests
from trails.model import sdk_messages, validation
from trails.model.values import CUT, Call, ToolCall, ToolResult, Turn
from trails.rdf import vocab
from trails.session import reply_chunks
from trails.suggestions import calling_line

if TYPE_CHECKING:
    from trails.history.turn_builder import Screening
    from trails.model.sdk_messages import Dumped

STREAM_FOLDER: Final = "streams"
"""Where in a store's folder the texts stand that are not turns yet."""


class Streaming(Handle):
    """A turn in the making: get one from `Session.streaming`, and use it with `with`."""

    def __init__(self, tree: Worktree, role: str, options: Mapping[str, Any], scan: Screening | None = None) -> None:
        """Not for callers: `Session.streaming` makes it."""
        self._tree, self._role, self._options = tree, validation.role(validation.check_role(role)), dict(options)
        tree.workspace.check_open(tree.id)
        if tree.record.encryption is not None:
            raise InvalidInput(
                f"session {tree.id!r} is encrypted, and what is streamed stands in a file in plain until it is a turn: append "
                "the whole answer when it is there"
            )
        turn_builder.make_draft(
            role, "checked", **self._options
        )  # what cannot be kept is refused before a model is asked
        self._scan = turn_builder.check_screening(scan) or tree.workspace.scan
        self._final: object = None
        self._said: dict[str, Any] = {}
        self._chunks = reply_chunks.ReplyChunks()
        self._begun = self._in_block = self._ended = False
        self._made_at = calling_line()
        self._file: int | None = None
        self._path: Path | None = None
        self._salt = digests.new_salt()
        self._time = datetime.now(UTC)
        self.usage: Mapping[str, Any] | Dumped | None = None
        """The tokens that it took, as `append` takes them: assign it before the block ends."""
        self.model: str | None = None
        """The model that answers, where it is known only later."""
        self.stop_reason: str | None = None
        """Why the model stopped."""
        self.tool_calls: Iterable[ToolCall | Mapping[str, Any] | Dumped] = ()
        """The calls that the model makes."""
        self.turn: Turn | None = None
        """The turn, once it is stored."""

    @property
    def text(self) -> str:
        """The text that was written so far."""
        return self._chunks.text

    def __repr__(self) -> str:
        return f"<Streaming to {self._tree.id!r}: {len(self.text)} characters>"

    def write(self, chunk: object) -> None:
        """Add what a stream gave: a piece of text, or a chunk of a model's SDK. None and an empty text add nothing.

        Chunks are those of OpenAI's chat completions and responses, of Anthropic's messages, LangChain's message chunks and
        Vercel's text streams, as objects or as plain data: of them the turn gets text, tool calls, usage, model and stop reason
        as `append_message` would of the whole reply. A few microseconds for a text, some tens for a chunk, without a commit.

        Raises `InvalidInput` for anything else, for chunks of two kinds, and once the turn has ended.
        """
        given = reply_chunks.plain_chunk(chunk)
        if given is None:
            return
        if self._ended:
            raise InvalidInput(f"the turn of session {self._tree.id!r} is complete, and takes no more text")
        validation.text(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False), "a chunk")
        self._begin()
        self._chunks.add(given)
        if self._file is not None:
            os.write(self._file, _line(given))

    def finish(
        self,
        reply: object = None,
        *,
        author: str | None = None,
        time: datetime | None = None,
        model: str | None = None,
        usage: Mapping[str, Any] | Dumped | None = None,
        stop_reason: str | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any] | Dumped] | None = (),
        tool_call_id: str | None = None,
        is_error: bool = False,
        tool_results: Iterable[ToolResult | Mapping[str, Any]] = (),
        call: Call | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Turn | None:
        """Say how the turn ends: its whole reply, and what `append` takes. Without a `with` block, store it and return it.

        `reply` is what `append_message` takes, or a text or a list of parts; it stands in the place of what was written. None
        keeps that. In a `with` block the turn is stored where the block ends, and None is returned.

        Raises `InvalidInput` for anything else: what was written stays then.
        """
        if self._ended:
            raise InvalidInput(f"the turn of session {self._tree.id!r} is complete; begin another one with streaming()")
        said: dict[str, Any] = {
            "author": author,
            "time": time,
            "model": model,
            "usage": usage,
            "stop_reason": stop_reason,
        }
        said |= {"tool_calls": tool_calls, "tool_call_id": tool_call_id, "is_error": is_error or None}
        said |= {"tool_results": tool_results, "call": call, "meta": meta}
        if reply is not None and not isinstance(reply, str | list):
            reply = sdk_messages.read(reply)
            if reply.role != self._role:
                raise InvalidInput(f"the reply is one of role {reply.role!r}, not {self._role!r}")
        self._final, self._said = reply, {name: value for name, value in said.items() if value not in (None, ())}
        if self._in_block:
            return None
        self._begin()
        self._end(None)
        return self.turn

    def __enter__(self) -> Self:
        self._begin()
        self._in_block = True
        return self

    def _begin(self) -> None:
        if self._begun:
            return
        tree = self._tree
        tree.persist()  # what it answers is stored before it is
        if tree.workspace.store.folder is not None and self._scan in (None, "off"):  # a secret would stand in the file
            self._path = _place(tree.workspace) / f"{secrets.token_hex(8)}.jsonl"
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(self._file, _line(self._header(tree)))
        self._begun = True
        tree.workspace.holders.add(self)

    def _header(self, tree: Worktree) -> dict[str, Any]:
        kept = {name: self._options.get(name) for name in ("author", "model", "meta")}
        place = {"session": tree.id, "index": len(tree.turns), "head": tree.head, "role": self._role}
        return {**place, "salt": self._salt, "time": self._time.isoformat(), "options": kept}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Store the turn: whole, or as one that broke off where the block raises; its error goes on."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        gone, self._ended = True, True
        try:
            if error is None:
                self._complete()
            elif self._chunks.has_any:
                self._keep(_broken(self._role, self._chunks, self._options, type(error).__name__))
        except StoreFailed as failure:
            gone = False  # the next to open the store finds it
            self._tell(error, failure)
        except Exception as failure:  # noqa: BLE001 - the block's own error is the one that its caller waits for
            self._tell(error, failure)
        finally:
            self._drop(gone=gone)

    def warn_if_pending(self) -> None:
        """Warn of a turn that was begun and never ended, once."""
        if not self._begun or self._ended or self._tree.workspace.is_forked:
            return
        self._ended = True
        kept = self._file is not None and self._chunks.has_any
        self._drop(gone=not kept)
        what = "whoever opens the store next finds it as one that broke off" if kept else "it is not stored"
        warnings.warn_explicit(
            f"a turn of {len(self.text)} characters that was streamed to session {self._tree.id!r} was never ended: {what}; "
            "use `with session.streaming(...)`, or call finish()",
            PendingTurnsWarning,
            *self._made_at,
        )

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Warn of a turn that nobody can end any more."""
        if getattr(self, "_begun", False) and not self._ended and not is_finalizing():
            self.warn_if_pending()

    def _complete(self) -> None:
        named = {
            "usage": self.usage,
            "model": self.model,
            "stop_reason": self.stop_reason,
            "tool_calls": self.tool_calls,
        }
        try:
            made = self._whole(named)
        except TrailsError:  # what was said of it cannot be kept, its text can
            if self._chunks.has_any:
                self._keep(_broken(self._role, self._chunks, self._options, "InvalidInput"))
            raise
        self._keep(made)

    def _whole(self, named: dict[str, Any]) -> turn_builder.Draft:
        said = sdk_messages.merged(sdk_messages.merged(self._options, named), self._said)
        given = self._final if isinstance(self._final, sdk_messages.Given) else self._chunks.whole()
        content: Any = (
            self._final if isinstance(self._final, str | list) else self.text if given is None else given.content
        )
        options = {"usage": None, "tool_calls": (), "tool_call_id": None, **said}
        content, options = sdk_messages.taken(self._role, content, options)
        return turn_builder.check_fields(
            self._tree.id,
            self._role,
            content,
            options if given is None else sdk_messages.merged(given.options, options),
        )

    def _keep(self, made: turn_builder.Draft) -> None:
        self.turn = self._tree.append(made._replace(salt=self._salt), self._scan)
        self._tree.store_news()

    def _tell(self, error: BaseException | None, failure: Exception) -> None:
        if error is None:
            raise failure
        self._tree.note_unstored(error, failure)

    def _drop(self, *, gone: bool) -> None:
        if self._file is not None and self._path is not None:
            os.close(self._file)
            self._file = None
            if gone:
                self._path.unlink(missing_ok=True)


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _place(workspace: Workspace) -> Path:
    return Path(workspace.store.location) / STREAM_FOLDER


def _broken(role: str, came: reply_chunks.ReplyChunks, options: Mapping[str, Any], why: str) -> turn_builder.Draft:
    """Return what came of a turn until it broke off; why stands in its metadata, under `failed`."""
    kept: dict[str, Any] = {name: options.get(name) for name in ("author", "model", "time", "meta")}
    cut = came.cut() or sdk_messages.Given(role, came.text, {})
    said = sdk_messages.merged(cut.options, kept)
    said |= {"stop_reason": CUT, "meta": {**(said.get("meta") or {}), "failed": why}}
    try:
        return turn_builder.make_draft(role, cut.content, **said)
    except TrailsError:  # what was said of it cannot be kept, its text can
        return turn_builder.make_draft(
            role, came.text, **kept | {"stop_reason": CUT, "meta": {**(kept["meta"] or {}), "failed": why}}
        )


# --- what a killed process left


def recover_streams(workspace: Workspace) -> None:
    """Store what killed processes have left of turns in the making, and remove their files; warn of what cannot be."""
    folder = _place(workspace)
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
        try:
            _recover(workspace, path)
        except (TrailsError, OSError) as error:
            warnings.warn(f"what was streamed to {path} is not stored yet: {error}", RuntimeWarning, stacklevel=2)
        else:
            path.unlink()


def _recover(workspace: Workspace, path: Path) -> None:
    header, *written = _lines(path.read_bytes()) or [None]
    came = reply_chunks.ReplyChunks()
    for chunk in written:
        came.add(chunk)
    if not isinstance(header, dict) or not came.has_any:
        return
    session_id, salt = str(header["session"]), str(header["salt"])
    if session_id not in workspace.reader.records([session_id]):  # deleted: so is what was said to it
        return
    if workspace.store.quads((None, vocab.SALT, Literal(salt), None)):  # it was completed, and killed right then
        return
    chain = workspace.reader.lineage(session_id)
    turns = workspace.reader.transcript(chain)
    tree = Worktree(workspace, chain[0], ancestors=chain[1:], turns=turns, stored=True)
    index = min(int(header["index"]), len(tree.turns))
    if index != len(tree.turns) or tree.head != header["head"]:  # others went on meanwhile
        tree = tree.child(index, turns=tree.turns.below(index))
    options = {**header["options"], "time": datetime.fromisoformat(header["time"])}
    tree.append(_broken(header["role"], came, options, "the process ended")._replace(salt=salt))
    tree.persist()


def _lines(data: bytes) -> list[Any]:
    """Return the values of whole lines: a kill may have cut the last one."""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]
