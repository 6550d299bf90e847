"""Define versions of the files that agents work on, as turns carry them.

A version is a payload of a turn: its name is the file's path, its bytes are the content, and its media type says the mode, and
who wrote it as far as that is known. So whatever holds for payloads holds for files: digests cover them, equal bytes are kept
once, forks inherit them, and redaction takes them out.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field, StrictBool, StrictBytes, StrictInt, StrictStr

from trails.errors import InvalidInput
from trails.model import iris
from trails.model.values import Payload, PayloadReference, Turn, Value

FILE_TYPE: Final = "application/vnd.trails.file"
"""The media type of a file's version, before its parameters."""
Mode = Literal["file", "executable", "symlink", "deleted"]
"""What a file is. A symlink's content is the path that it names."""
MODES: Final[Mapping[str, Mode]] = {
    "100644": "file", "100755": "executable", "120000": "symlink", "000000": "deleted",
}  # fmt: skip
"""The modes by their numbers, which are git's."""
MODE_NUMBERS: Final[Mapping[Mode, str]] = {mode: number for number, mode in MODES.items()}
_TYPE: Final = re.compile(
    rf"{re.escape(FILE_TYPE)}; mode=(?P<mode>[0-9]{{6}})(?:; turns=(?P<turns>[1-9][0-9]{{0,8}}))?"
    r"(?P<outside>; by=unknown)?(?P<left_out>; left-out)?"
)
MAX_PATH: Final = 4096
"""Bytes of a path in UTF-8, as Linux has it; a name in it has at most 255."""
_MAX_PART: Final = 255
_MAX_DEPTH: Final = 200
"""Folders that a path goes down through at most: what walks a tree goes as deep into itself."""


def path_fault(path: str) -> str | None:
    r"""Return what is wrong with the path of a file below a root; None where nothing is.

    >>> path_fault("src/a.py"), path_fault("../a"), path_fault("a\\b")
    (None, "has a '..' in it", 'has a backslash in it')
    """
    parts = path.split("/")
    faults = {
        "is empty": not path,
        "is not relative to the root": path.startswith("/"),
        "has a backslash in it": "\\" in path,
        "has a '..' in it": ".." in parts,
        "has a '.' in it": "." in parts,
        "has an empty name in it": "" in parts,
        "has a control character in it, or bytes that are no UTF-8": any(map(_is_control, path)),
    }
    if fault := next((fault for fault, is_there in faults.items() if is_there), None):
        return fault
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > _MAX_PART for part in parts):
        return f"is longer than {MAX_PATH:,} bytes, or a name in it than {_MAX_PART}"
    if len(parts) > _MAX_DEPTH:
        return f"has more than {_MAX_DEPTH} names in it"
    return None


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def check_path(path: object) -> str:
    """Return a path below a root in POSIX form; raise `InvalidInput` for any other."""
    if not isinstance(path, str):
        raise InvalidInput(f"the path of a file is a text, not {type(path).__name__}")
    if fault := path_fault(path):
        raise InvalidInput(f"the path {path!r:.120} {fault}; give it relative to the root, as in src/a.py")
    return path


class FileVersion(Value):
    """What a turn made of a file: its content and mode from then on.

    `path` is relative to the root of the work, in POSIX form. A symlink's `data` is the path that it names, of a file that was
    deleted there are none. `outside` says that no turn is known to have done it: somebody else did, or it was so before
    recording began. `turns` says how many turns up to this one may have done it.

    >>> import trails
    >>> trails.FileVersion(path="src/a.py", data=b"x = 1").payload.media_type
    'application/vnd.trails.file; mode=100644'
    """

    path: StrictStr
    data: StrictBytes = Field(default=b"", repr=False)
    mode: Mode = "file"
    outside: StrictBool = False
    turns: StrictInt = Field(default=1, ge=1, le=999_999_999)
    left_out: StrictStr | None = None
    """Why the content is not kept; `data` then says its SHA-256 and size, in JSON."""

    @property
    def payload(self) -> Payload:
        """The version as a turn carries it."""
        kind = f"{FILE_TYPE}; mode={MODE_NUMBERS[self.mode]}" + (f"; turns={self.turns}" if self.turns > 1 else "")
        kind += ("; by=unknown" if self.outside else "") + ("; left-out" if self.left_out is not None else "")
        return Payload(data=self.data, media_type=kind, name=check_path(self.path))


FileContents = Mapping[str, bytes | None] | Iterable[FileVersion]
"""What a turn made of files, as `Session.append` takes it: versions, or contents by path, None for a deleted file."""


def file_payloads(files: object) -> list[Payload]:
    """Return what a turn carries of files; raise `InvalidInput` for what names none, or names one twice."""
    if isinstance(files, Mapping):
        files = [
            FileVersion(path=check_path(path), mode="deleted")
            if data is None
            else FileVersion(path=check_path(path), data=data)
            for path, data in files.items()
        ]
    if isinstance(files, str | bytes) or not isinstance(files, Iterable):
        raise InvalidInput(f"files are contents by path, or trails.FileVersion, not {type(files).__name__}")
    versions = list(files)
    if wrong := next((each for each in versions if not isinstance(each, FileVersion)), None):
        raise InvalidInput(f"a file is given as a trails.FileVersion, not {type(wrong).__name__}")
    payloads = [each.payload for each in versions]
    paths = [each.path for each in versions]
    if len({*paths}) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise InvalidInput(f"the file {twice!r:.120} is given twice for one turn; give what it was after the turn")
    return payloads


class FileChange(Value):
    """What became of a file at one turn of a transcript."""

    path: str
    index: int
    """The turn from which on the file was so."""
    session_id: str
    """The session that owns the turn."""
    mode: Mode
    before: str | None = None
    """The SHA-256 of the content before, in 64 hex digits; None where there was no file, or it is not known."""
    after: str | None = None
    """The same of the content since; None where it was deleted, or the content was redacted."""
    size: int | None = None
    """Bytes of the content since."""
    outside: bool = False
    """Whether no turn is known to have done it."""
    turns: int = 1
    """How many turns, up to this one, may have done it."""
    left_out: bool = False
    """Whether the content is not kept: it was too large."""
    redacted: bool = False
    """Whether the content was redacted."""
    payload: PayloadReference = Field(repr=False)
    """What the turn carries of it."""

    @property
    def is_kept(self) -> bool:
        """Whether the content can be read."""
        return self.mode != "deleted" and not self.left_out and not self.redacted

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"session_id", "payload"})
        return {"session": self.session_id} | plain


Read = Callable[[PayloadReference], bytes]


def is_file(payload: Payload | PayloadReference) -> bool:
    """Tell whether a payload is the version of a file."""
    return payload.name is not None and _TYPE.fullmatch(payload.media_type) is not None


def file_line(payload: PayloadReference) -> str | None:
    """Return in a few words what a payload says of a file; None for one that is no file's.

    >>> file_line(PayloadReference(name="a.py", media_type="application/vnd.trails.file; mode=000000", digest=None, size=0))
    'deleted a.py'
    """
    kind = _TYPE.fullmatch(payload.media_type)
    if kind is None or payload.name is None:
        return None
    is_gone = MODES.get(kind["mode"]) == "deleted"
    if kind["outside"]:
        return f"{payload.name} was {'gone' if is_gone else 'there'}"
    return f"{'deleted' if is_gone else 'wrote'} {payload.name}"


def file_changes(turns: Iterable[Turn], read: Read, *, encrypted: bool = False) -> Iterator[FileChange]:
    """Yield what became of files at each of some turns of a transcript, given from its first.

    A payload is read where its digest is not that of the file: what was left out, and (`encrypted`) all of them. A file whose
    path was redacted is not among them.
    """
    before: dict[str, FileChange] = {}
    for turn in turns:
        for payload in turn.payloads:
            kind = _TYPE.fullmatch(payload.media_type)
            if kind is None or payload.name is None or payload.name == iris.UNNAMED or path_fault(payload.name):
                continue
            change = _change(turn, payload, kind, read, encrypted)
            if (earlier := before.get(payload.name)) is not None:
                change = change.model_copy(update={"before": earlier.after})
            before[payload.name] = change
            yield change


def _change(turn: Turn, payload: PayloadReference, kind: re.Match[str], read: Read, encrypted: bool) -> FileChange:
    mode = MODES.get(kind["mode"], "file")
    digest: str | None = payload.digest
    size: int | None = payload.size
    if mode == "deleted" or payload.digest is None:
        digest = size = None
    elif kind["left_out"]:
        said = json.loads(read(payload))
        digest, size = said["sha256"], said["size"]
    elif encrypted:
        bare = Payload(data=read(payload))
        digest, size = bare.digest, len(bare.data)
    return FileChange(
        path=payload.name or "",
        index=turn.index,
        session_id=turn.session_id,
        mode=mode,
        after=digest,
        size=size,
        outside=kind["outside"] is not None,
        turns=int(kind["turns"] or 1),
        left_out=kind["left_out"] is not None,
        redacted=payload.digest is None and mode != "deleted",
        payload=payload,
    )


def files_after(changes: Iterable[FileChange]) -> list[FileChange]:
    """Return the last change of each file that is there after some changes, by path.

    >>> files_after([])
    []
    """
    last = {change.path: change for change in changes}
    return [last[path] for path in sorted(last) if last[path].mode != "deleted"]


def tree_faults(files: Sequence[FileChange]) -> Iterator[str]:
    """Yield why files cannot stand together in one folder anywhere: one of them would have to be a folder, too."""
    paths = {change.path for change in files}
    for path in sorted(paths):
        parts = path.split("/")
        above = ("/".join(parts[:number]) for number in range(1, len(parts)))
        if file := next((each for each in above if each in paths), None):
            yield f"{path!r} lies in {file!r}, which is a file"
