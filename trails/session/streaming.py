"""A turn that is written as it comes: kept on disk meanwhile, so that a killed process loses none of it.

While it lasts, its text stands in a file of its own in the store's folder, one line a chunk, and nowhere in the graph: no
query, verification or export sees it. Where it ends, the turn is stored in one commit and the file goes. Opening a store
makes what a killed process left a turn, before anything else can be asked of it, so redaction and deletion reach it there.
A store in memory has no such file.
"""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pyoxigraph import Literal

from trails import replies, roles, validate, vocab
from trails.errors import InvalidInput, StoreFailed, TrailsError
from trails.handles import Handle
from trails.integrity import digests
from trails.model import CUT, ToolCall, Turn
from trails.plumbing import draft, screening
from trails.plumbing.workspace import Workspace
from trails.plumbing.worktree import Worktree

if TYPE_CHECKING:
    from trails.plumbing.screening import Screening
    from trails.replies import Dumped

FOLDER: Final = "streams"
"""Where in a store's folder the texts stand that are not turns yet."""


class Streaming(Handle):
    """A turn in the making: get one from `Session.streaming`, and use it with `with`."""

    def __init__(self, tree: Worktree, role: str, options: Mapping[str, Any], scan: Screening | None = None) -> None:
        """Not for callers: `Session.streaming` makes it."""
        self._tree, self._role, self._options = tree, validate.role(roles.checked(role)), dict(options)
        tree.workspace.check_open(tree.id)
        draft.make(role, "checked", **self._options)  # what cannot be kept is refused before a model is asked
        self._scan = screening.checked(scan) or tree.workspace.scan
        self._final: replies.Given | None = None
        self._chunks: list[str] = []
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
        """What was written so far."""
        return "".join(self._chunks)

    def __repr__(self) -> str:
        return f"<Streaming to {self._tree.id!r}: {len(self.text)} characters>"

    def write(self, chunk: str | None) -> None:
        """Add a piece of text, as a stream gives it; None and an empty one add nothing. A few microseconds, without a commit.

        Raises `InvalidInput` for what is no text, and once the block has ended.
        """
        if chunk is None or chunk == "":
            return
        if not isinstance(chunk, str):
            raise InvalidInput(
                f"a stream is written as text, not {type(chunk).__name__}: give the text of the chunk, such as "
                "chunk.choices[0].delta.content"
            )
        if self.turn is not None:
            raise InvalidInput(f"the turn of session {self._tree.id!r} is complete, and takes no more text")
        validate.text(chunk, "a chunk")
        self._chunks.append(chunk)
        if self._file is not None:
            os.write(self._file, _line(chunk))

    def finish(self, reply: object) -> None:
        """Take the whole reply, as an SDK gives it where its stream ends, in the place of the text that was written.

        `reply` is what `append_message` takes. Raises `InvalidInput` for anything else: the text stays then.
        """
        given = replies.read(reply)
        if given.role != self._role:
            raise InvalidInput(f"the reply is one of role {given.role!r}, not {self._role!r}")
        self._final = given

    def __enter__(self) -> Self:
        tree = self._tree
        tree.persist()  # what it answers is stored before it is
        if tree.workspace.store.folder is not None and self._scan in (None, "off"):  # a secret would stand in the file
            self._path = _place(tree.workspace) / f"{secrets.token_hex(8)}.jsonl"
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(self._file, _line(self._header(tree)))
        return self

    def _header(self, tree: Worktree) -> dict[str, Any]:
        kept = {name: self._options.get(name) for name in ("author", "model", "meta")}
        place = {"session": tree.id, "index": len(tree.turns), "head": tree.head, "role": self._role}
        return {**place, "salt": self._salt, "time": self._time.isoformat(), "options": kept}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Store the turn: whole, or as one that broke off where the block raises; its error goes on."""
        gone = True
        try:
            if error is None:
                self._complete()
            elif self.text:
                self._keep(_broken(self._role, self.text, self._options, type(error).__name__))
        except StoreFailed as failure:
            gone = False  # the next to open the store finds it
            self._tell(error, failure)
        except Exception as failure:  # noqa: BLE001 - the block's own error is the one that its caller waits for
            self._tell(error, failure)
        finally:
            self._drop(gone=gone)

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
            if self.text:
                self._keep(_broken(self._role, self.text, self._options, "InvalidInput"))
            raise
        self._keep(made)

    def _whole(self, named: dict[str, Any]) -> draft.Draft:
        _, later = replies.taken(self._role, self.text, named | {"tool_call_id": None})
        given, said = self._final, replies.merged(self._options, later)
        if given is None:
            return draft.checked(self._tree.id, self._role, self.text, said)
        return draft.checked(self._tree.id, self._role, given.content, replies.merged(given.options, said))

    def _keep(self, made: draft.Draft) -> None:
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
    return Path(workspace.store.location) / FOLDER


def _broken(role: str, text: str, options: Mapping[str, Any], why: str) -> draft.Draft:
    """Return what came of a turn until it broke off; why stands in its metadata, under `failed`."""
    kept: dict[str, Any] = {name: options.get(name) for name in ("author", "model", "time")}
    meta = {**(options.get("meta") or {}), "failed": why}
    return draft.make(role, text, stop_reason=CUT, meta=meta, **kept)


# --- what a killed process left


def recover(workspace: Workspace) -> None:
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
    header, *chunks = _lines(path.read_bytes()) or [None]
    text = "".join(chunk for chunk in chunks if isinstance(chunk, str))
    if not isinstance(header, dict) or not text:
        return
    session_id, salt = str(header["session"]), str(header["salt"])
    if session_id not in workspace.reader.records([session_id]):  # deleted: so is what was said to it
        return
    if workspace.store.quads((None, vocab.SALT, Literal(salt), None)):  # it was completed, and killed right then
        return
    own, ancestors = workspace.reader.ancestry(session_id)
    turns = workspace.reader.transcript(own, ancestors)
    tree = Worktree(workspace, own, ancestors=ancestors, turns=turns, stored=True)
    index = min(int(header["index"]), len(tree.turns))
    if index != len(tree.turns) or tree.head != header["head"]:  # others went on meanwhile
        tree = tree.child(index, turns=tree.turns[:index])
    options = {**header["options"], "time": datetime.fromisoformat(header["time"])}
    tree.append(_broken(header["role"], text, options, "the process ended")._replace(salt=salt))
    tree.persist()


def _lines(data: bytes) -> list[Any]:
    """Return the values of whole lines: a kill may have cut the last one."""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]
