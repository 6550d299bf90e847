"""What a disk may hold after a power cut, told from nothing but the system calls that a process made.

`record` runs a process under strace. `Disk` replays its calls below a folder: files as their writes and syncs, names as
operations on folders. `Disk.cut` then gives the folder as a power cut at some moment may leave it:

- of a file, all that was written before its last fsync or fdatasync began; of what came later a random choice: nothing,
  everything, the first few writes, or page by page the old, the new, a torn mixture, or garbage where new differs from old
- of the names, all operations in their order up to the last one whose folder was synced, then a random number of further ones

A call takes effect somewhere between its two lines of the trace: a sync covers only calls that had ended when it began,
and only once it has ended itself; a write may be on disk from its beginning on. A file that is synced has no name yet.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.places import ROOT

PAGE: Final = 4096
_NEVER: Final = 1 << 60
_CALLS: Final = (
    "open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,pwritev2,ftruncate,"
    "truncate,fallocate,fsync,fdatasync,sync,syncfs,sync_file_range,rename,renameat,renameat2,link,linkat,symlink,"
    "symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,copy_file_range,sendfile,splice,mmap,msync,io_uring_setup,io_submit"
)
_LINE: Final = re.compile(r"(\d+) +(.*)")
_RESUMED: Final = re.compile(r"<\.\.\. \w+ resumed>")
_DONE: Final = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?|0x[0-9a-f]+)(.*)", re.DOTALL)
_FD: Final = re.compile(r"(-?\d+|AT_FDCWD)(?:<((?:\\x[0-9a-f]{2})*)>)?")


@dataclass(frozen=True, slots=True)
class Call:
    """A system call: its arguments as strace wrote them, and between which lines of the trace it was at work."""

    name: str
    arguments: tuple[str, ...]
    result: int
    begun: int
    ended: int

    def text(self, number: int) -> bytes:
        """Return an argument that is a text: a path, or data."""
        found = self.arguments[number]
        assert found[0] == found[-1] == '"', (self.name, found[:200])
        return _bytes(found[1:-1])

    def number(self, number: int) -> int:
        """Return an argument that is a number."""
        return int(self.arguments[number], 0)

    def descriptor(self, number: int) -> tuple[int, str]:
        """Return an argument that is a descriptor, and the path that it stood for ("" where it has none)."""
        found = _FD.match(self.arguments[number])
        assert found is not None, (self.name, self.arguments[number][:200])
        return -100 if found[1] == "AT_FDCWD" else int(found[1]), _bytes(found[2] or "").decode("utf-8", "replace")

    def path(self, number: int, folder: int | None = None) -> str:
        """Return an argument that is a path, relative to the descriptor of a folder if there is one."""
        found = self.text(number).decode("utf-8", "replace")
        base = "/nowhere" if folder is None else self.descriptor(folder)[1]
        return os.path.normpath(os.path.join(base, found))  # noqa: PTH118 - a text


def record(command: Sequence[str], trace: Path, given: str) -> list[Call]:
    """Run a command under strace to its end, with `given` as its input; return its calls. `trace` is for the time being."""
    under = ["strace", "-f", "-y", "-xx", "-qq", "--seccomp-bpf", "-s", str(1 << 28), "-e", "signal=none"]
    under += ["-o", str(trace), "-e", f"trace={_CALLS}", "--", *command]
    done = subprocess.run(under, input=given, capture_output=True, text=True, check=False, timeout=900, cwd=ROOT)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout[-2000:]}"
    with trace.open(encoding="ascii") as lines:
        calls = list(parse(lines))
    trace.unlink()
    return calls


def parse(lines: Iterator[str] | Sequence[str]) -> Iterator[Call]:
    """Give the calls of a trace in the order in which they began; a call stands over one line, or two."""
    open_calls: dict[str, tuple[int, str]] = {}
    found: list[Call] = []
    for number, line in enumerate(lines):
        split = _LINE.match(line)
        assert split is not None, line[:200]
        thread, rest = split[1], line[split.start(2) :].rstrip("\n")
        begun = number
        if rest.startswith(("+++", "---")):
            continue
        if rest.endswith("<unfinished ...>"):
            open_calls[thread] = number, rest.removesuffix("<unfinished ...>")
            continue
        resumed = _RESUMED.match(rest)
        if resumed is not None:
            begun, start = open_calls.pop(thread)
            rest = start.rstrip() + rest[resumed.end() :]
        found.append(_call(rest, begun, number))
    for begun, rest in open_calls.values():  # the process ended within them
        found.append(_call(f"{rest.rstrip().rstrip(',')}) = ?", begun, _NEVER))
    found.sort(key=lambda call: call.begun)
    yield from found


def _call(text: str, begun: int, ended: int) -> Call:
    whole = _DONE.match(text)
    assert whole is not None, text[:300]
    result = -1 if whole[3] == "?" else int(whole[3], 0)
    return Call(whole[1], tuple(whole[2].split(", ")), result, begun, ended)


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


# --- files and folders


@dataclass(frozen=True, slots=True)
class _Write:
    """Data that came to a place of a file, or (`data` None) a new size."""

    begun: int
    ended: int
    position: int
    data: bytes | None


@dataclass(eq=False, slots=True)
class File:
    """A file: what it held at first, what was done to it, and which syncs it had."""

    first: bytes = b""
    done: list[_Write] = field(default_factory=list)
    syncs: list[tuple[int, int]] = field(default_factory=list)
    """(when it had ended, how many of `done` it covers)."""
    now: bytearray = field(default_factory=bytearray)

    def write(self, write: _Write) -> None:
        self.done.append(write)
        _apply(self.now, write)

    def sync(self, begun: int, ended: int) -> None:
        covered = 0
        while covered < len(self.done) and self.done[covered].ended < begun:
            covered += 1
        self.syncs.append((ended, covered))

    def at(self, moment: int) -> tuple[bytearray, list[_Write]]:
        """Return what is surely on disk at a moment, and what may have come after it."""
        covered = max((count for ended, count in self.syncs if ended < moment), default=0)
        held = bytearray(self.first)
        for write in self.done[:covered]:
            _apply(held, write)
        return held, [write for write in self.done[covered:] if write.begun < moment]


@dataclass(eq=False, slots=True)
class Folder:
    """A folder: the names in it, as the process sees them."""

    names: dict[str, File | Folder] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Naming:
    """An operation on names: those that go, and those that come."""

    begun: int
    ended: int
    gone: tuple[tuple[Folder, str], ...]
    come: tuple[tuple[Folder, str, File | Folder], ...]

    def folders(self) -> set[Folder]:
        return {folder for folder, _ in self.gone} | {folder for folder, _, _ in self.come}


def _apply(held: bytearray, write: _Write) -> None:
    size = write.position if write.data is None else max(len(held), write.position + len(write.data))
    if size > len(held):
        held += bytes(size - len(held))
    if write.data is None:
        del held[size:]
    else:
        held[write.position : write.position + len(write.data)] = write.data


@dataclass(slots=True)
class _Opened:
    node: File | Folder
    position: int = 0
    append: bool = False
    sync: bool = False


class Disk:
    """The files below a folder, from how they are on the real disk, which is taken to be synced, through a process's calls."""

    def __init__(self, place: Path) -> None:
        """Read the folder, before the process starts."""
        self._place = str(place)
        self._top = Folder()
        self._opened: dict[int, _Opened] = {}
        self._namings: list[_Naming] = []
        self._folder_syncs: list[tuple[int, int, Folder]] = []
        self._known: dict[tuple[int, int], File] = {}
        self._read(place, self._top)
        self._first = _shape(self._top)
        self.moments: dict[int, str] = {}
        """When something was done here, and what kind of thing: the moments worth a cut."""

    def _read(self, place: Path, into: Folder) -> None:
        for entry in sorted(place.iterdir()):
            if entry.is_dir():
                into.names[entry.name] = made = Folder()
                self._read(entry, made)
                continue
            status = entry.stat()
            data = entry.read_bytes()
            file = self._known.setdefault((status.st_dev, status.st_ino), File(data, now=bytearray(data)))
            into.names[entry.name] = file

    # --- replaying

    def replay(self, calls: Sequence[Call]) -> None:
        """Take in what a process did; calls that concern other folders are left out."""
        for call in sorted(calls, key=_takes_effect):
            work = getattr(self, f"_do_{call.name}", None)
            if work is None:
                raise AssertionError(f"the model of a disk knows no {call.name}")
            if call.result >= 0 or (call.ended == _NEVER and call.name in _MAY_HAVE_HAPPENED):
                work(call)

    def _note(self, moment: int, kind: str) -> None:
        self.moments[moment] = kind

    def _below(self, path: str) -> bool:
        return path == self._place or path.startswith(self._place + "/")

    def _find(self, path: str) -> File | Folder | None:
        node: File | Folder | None = self._top
        for name in self._parts(path):
            node = node.names.get(name) if isinstance(node, Folder) else None
        return node

    def _parts(self, path: str) -> list[str]:
        return [part for part in path[len(self._place) :].split("/") if part]

    def _parent(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.rpartition("/")
        folder = self._find(parent)
        assert isinstance(folder, Folder), path
        return folder, name

    def _name(self, call: Call, *gone: str, come: Sequence[tuple[str, File | Folder]] = ()) -> None:
        """Let names go and others come, in one step."""
        self._note(call.begun, call.name)
        left = tuple(self._parent(path) for path in gone if self._below(path))
        made = tuple((*self._parent(path), node) for path, node in come if self._below(path))
        if left or made:
            self._namings.append(_Naming(call.begun, call.ended, left, made))
        for folder, name in left:
            del folder.names[name]
        for folder, name, node in made:
            folder.names[name] = node

    def _at(self, call: Call, number: int = 0) -> _Opened | None:
        """Return what a descriptor stands for, None where that is elsewhere."""
        descriptor, path = call.descriptor(number)
        found = self._opened.get(descriptor)
        assert found is not None or not self._below(path), f"{call.name} of the unknown descriptor {descriptor} {path}"
        return found

    def _write(
        self, call: Call, opened: _Opened | None, data: bytes, position: int | None, *, sync: bool = False
    ) -> None:
        if opened is None:
            return
        assert isinstance(opened.node, File)
        place = position
        if place is None:
            place = len(opened.node.now) if opened.append else opened.position
            opened.position = place + len(data)
        self._note(call.begun, f"{_place(call)} {'on' if place else 'start'} {len(data).bit_length() // 4}")
        opened.node.write(_Write(call.begun, call.ended, place, data))
        if (sync or opened.sync) and call.ended != _NEVER:
            opened.node.sync(call.ended + 1, call.ended)

    # --- the calls

    def _open(self, call: Call, path: str, flags: str) -> None:
        if not self._below(path):
            self._opened.pop(call.result, None)
            return
        if "O_TMPFILE" in flags:  # a file without a name: nothing of it is there after a cut
            self._opened[call.result] = _Opened(File())
            return
        node = self._find(path)
        if node is None:
            assert "O_CREAT" in flags, path
            node = File()
            self._name(call, come=[(path, node)])
        elif "O_TRUNC" in flags and isinstance(node, File) and node.now:
            self._note(call.begun, call.name)
            node.write(_Write(call.begun, call.ended, 0, None))
        self._opened[call.result] = _Opened(node, append="O_APPEND" in flags, sync="SYNC" in flags)

    def _do_openat(self, call: Call) -> None:
        self._open(call, call.path(1, folder=0), call.arguments[2])

    def _do_open(self, call: Call) -> None:
        self._open(call, call.path(0), call.arguments[1])

    def _do_creat(self, call: Call) -> None:
        self._open(call, call.path(0), "O_CREAT|O_TRUNC")

    def _do_close(self, call: Call) -> None:
        self._opened.pop(call.descriptor(0)[0], None)

    def _do_dup(self, call: Call) -> None:
        opened = self._at(call)
        self._opened.pop(call.result, None)
        if opened is not None:
            self._opened[call.result] = opened

    _do_dup2 = _do_dup3 = _do_dup

    def _do_fcntl(self, call: Call) -> None:
        if call.arguments[1].startswith("F_DUPFD"):
            self._do_dup(call)

    def _do_lseek(self, call: Call) -> None:
        opened = self._at(call)
        if opened is not None:
            opened.position = call.result

    def _do_write(self, call: Call) -> None:
        if (opened := self._at(call)) is not None:
            self._write(call, opened, _kept(call, call.text(1)), None)

    def _do_pwrite64(self, call: Call) -> None:
        if (opened := self._at(call)) is not None:
            self._write(call, opened, _kept(call, call.text(1)), call.number(-1))

    def _do_writev(self, call: Call) -> None:
        if (opened := self._at(call)) is not None:
            self._write(call, opened, _kept(call, _vector(call)), None)

    def _do_pwritev(self, call: Call) -> None:
        if (opened := self._at(call)) is not None:
            self._write(call, opened, _kept(call, _vector(call)), call.number(-1))

    def _do_pwritev2(self, call: Call) -> None:
        if (opened := self._at(call)) is not None:
            position = call.number(-2)
            data = _kept(call, _vector(call))
            self._write(call, opened, data, None if position < 0 else position, sync="SYNC" in call.arguments[-1])

    def _do_sendfile(self, call: Call) -> None:
        to, source = self._at(call, 0), self._at(call, 1)
        if to is None:
            return
        assert source is not None, "data that came from outside the folder"
        assert isinstance(source.node, File)
        start = _offset(call.arguments[2])
        position = source.position if start is None else start
        if start is None:
            source.position += call.result
        self._write(call, to, bytes(source.node.now[position : position + call.result]), None)

    def _do_copy_file_range(self, call: Call) -> None:
        to, source = self._at(call, 2), self._at(call, 0)
        if to is None:
            return
        assert source is not None, "data that came from outside the folder"
        assert isinstance(source.node, File)
        start = _offset(call.arguments[1])
        position = source.position if start is None else start
        if start is None:
            source.position += call.result
        data = bytes(source.node.now[position : position + call.result])
        self._write(call, to, data, _offset(call.arguments[3]))

    def _size(self, call: Call, node: File | Folder | None, size: int) -> None:
        if isinstance(node, File):
            self._note(call.begun, call.name)
            node.write(_Write(call.begun, call.ended, size, None))

    def _do_ftruncate(self, call: Call) -> None:
        if (opened := self._at(call)) is not None:
            self._size(call, opened.node, call.number(1))

    def _do_truncate(self, call: Call) -> None:
        if self._below(call.path(0)):
            self._size(call, self._find(call.path(0)), call.number(1))

    def _do_fallocate(self, call: Call) -> None:
        opened = self._at(call)
        if opened is None or "KEEP_SIZE" in call.arguments[1]:
            return
        assert call.arguments[1] == "0", call.arguments
        assert isinstance(opened.node, File)
        self._size(call, opened.node, max(len(opened.node.now), call.number(2) + call.number(3)))

    def _do_fsync(self, call: Call) -> None:
        opened = self._at(call)
        if opened is None or call.ended == _NEVER:
            return
        self._note(call.ended + 1, "synced")
        if isinstance(opened.node, File):
            opened.node.sync(call.begun, call.ended)
        else:
            self._folder_syncs.append((call.begun, call.ended, opened.node))

    _do_fdatasync = _do_fsync

    def _do_mmap(self, call: Call) -> None:
        if "MAP_SHARED" in call.arguments[3] and "PROT_WRITE" in call.arguments[2]:
            assert self._at(call, 4) is None, "a file is written through memory, which no trace shows"

    def _do_rename(self, call: Call) -> None:
        self._rename(call, call.path(0), call.path(1))

    def _do_renameat(self, call: Call) -> None:
        self._rename(call, call.path(1, folder=0), call.path(3, folder=2))

    def _do_renameat2(self, call: Call) -> None:
        flags = call.arguments[4]
        one, other = call.path(1, folder=0), call.path(3, folder=2)
        if "EXCHANGE" not in flags:
            self._rename(call, one, other)
        elif self._below(one) or self._below(other):
            nodes = self._find(one), self._find(other)
            assert nodes[0] is not None and nodes[1] is not None, f"{one} or {other} is outside the folder"  # noqa: PT018
            self._name(call, one, other, come=[(one, nodes[1]), (other, nodes[0])])

    def _rename(self, call: Call, old: str, new: str) -> None:
        if not self._below(old) and not self._below(new):
            return
        node = self._find(old) if self._below(old) else None
        assert node is not None, f"{old} came from outside the folder, or is unknown"
        self._name(call, old, come=[(new, node)])

    def _do_link(self, call: Call) -> None:
        self._link(call, call.path(0), call.path(1))

    def _do_linkat(self, call: Call) -> None:
        self._link(call, call.path(1, folder=0), call.path(3, folder=2))

    def _link(self, call: Call, old: str, new: str) -> None:
        if self._below(new):
            node = self._find(old) if self._below(old) else None
            assert node is not None, f"{old} is linked from outside the folder, or is unknown"
            self._name(call, come=[(new, node)])

    def _do_unlink(self, call: Call) -> None:
        self._remove(call, call.path(0))

    def _do_unlinkat(self, call: Call) -> None:
        self._remove(call, call.path(1, folder=0))

    _do_rmdir = _do_unlink

    def _remove(self, call: Call, path: str) -> None:
        if self._below(path):
            self._name(call, path)

    def _do_mkdir(self, call: Call) -> None:
        self._make(call, call.path(0))

    def _do_mkdirat(self, call: Call) -> None:
        self._make(call, call.path(1, folder=0))

    def _make(self, call: Call, path: str) -> None:
        if self._below(path):
            self._name(call, come=[(path, Folder())])

    def _nothing(self, call: Call) -> None:
        """It brings nothing to disk for sure."""

    _do_sync_file_range = _do_msync = _nothing

    # --- the cut

    def cut(self, moment: int, chance: random.Random, to: Path) -> str:
        """Write to a new folder what a power cut at a moment may leave; return how much was kept, in words."""
        way = chance.choice(("least", "most", "mixed", "mixed", "mixed", "mixed"))
        names, kept = self._names_at(moment, way, chance)
        done: dict[File, Path] = {}

        def write(folder: Folder, place: Path) -> None:
            place.mkdir()
            for name, node in sorted(names[folder].items()):
                if isinstance(node, Folder):
                    write(node, place / name)
                elif node in done:
                    (place / name).hardlink_to(done[node])
                else:
                    (place / name).write_bytes(_content(node, moment, way, chance))
                    done[node] = place / name

        write(self._top, to)
        return f"{way} of what came before the cut at {moment}, {kept}"

    def _names_at(
        self, moment: int, way: str, chance: random.Random
    ) -> tuple[dict[Folder, dict[str, File | Folder]], str]:
        begun = [naming for naming in self._namings if naming.begun < moment]
        least = 0
        for sync_begun, ended, folder in self._folder_syncs:
            if ended >= moment:
                continue
            for number in range(len(begun), least, -1):
                naming = begun[number - 1]
                if naming.ended < sync_begun and folder in naming.folders():
                    least = number
                    break
        count = {"least": least, "most": len(begun)}.get(way, chance.randint(least, len(begun)))
        held = {folder: dict(names) for folder, names in self._first.items()}
        for naming in begun[:count]:
            for folder, name in naming.gone:
                held[folder].pop(name, None)
            for folder, name, node in naming.come:
                held[folder][name] = node
                if isinstance(node, Folder):
                    held.setdefault(node, {})
        return held, f"{count} names of {least} to {len(begun)}"


def _takes_effect(call: Call) -> int:
    """Order calls so that none comes before one that had ended when it began; a closed descriptor is free at once."""
    return call.begun if call.name == "close" else call.ended


_MAY_HAVE_HAPPENED: Final = frozenset({"write", "pwrite64"})


def _shape(top: Folder) -> dict[Folder, dict[str, File | Folder]]:
    found = {top: dict(top.names)}
    for node in top.names.values():
        if isinstance(node, Folder):
            found |= _shape(node)
    return found


def _place(call: Call) -> str:
    """Return in which folder a call writes, by its name; copies of a store are all one."""
    folder = Path(call.descriptor(0)[1]).parent
    return folder.name if folder.name in ("quads", "commits", "store") else "other"


def _kept(call: Call, data: bytes) -> bytes:
    return data if call.ended == _NEVER else data[: call.result]


def _vector(call: Call) -> bytes:
    return b"".join(
        _bytes(found) for found in re.findall(r'iov_base="((?:\\x[0-9a-f]{2})*)"', ", ".join(call.arguments))
    )


def _offset(argument: str) -> int | None:
    found = re.match(r"\[(\d+)\]", argument)
    return int(found[1]) if found else None


def _content(file: File, moment: int, way: str, chance: random.Random) -> bytes:
    held, later = file.at(moment)
    if not later or way == "least":
        return bytes(held)
    how = "all" if way == "most" else chance.choice(("none", "all", "first", "pages", "pages", "pages"))
    if how == "none":
        return bytes(held)
    if how == "first":
        later = later[: chance.randint(1, len(later))]
        if later[-1].data:
            part = chance.randint(0, len(later[-1].data))
            later[-1] = _Write(0, 0, later[-1].position, later[-1].data[:part])
    new = bytearray(held)
    sizes = {len(held)}
    for write in later:
        _apply(new, write)
        sizes.add(len(new))
    return _mixture(held, new, chance.choice(sorted(sizes)), chance) if how == "pages" else bytes(new)


def _mixture(old: bytearray, new: bytearray, size: int, chance: random.Random) -> bytes:
    """Return, page by page, one of two contents, or something of both, or garbage where they differ; `size` bytes of it."""
    long = max(len(old), len(new), size)
    old, new = old + bytes(long - len(old)), new + bytes(long - len(new))
    made = bytearray()
    likely = chance.choice(((1, 1, 1, 1), (1, 8, 1, 0), (8, 1, 1, 0), (1, 1, 0, 0), (1, 1, 0, 4)))
    for start in range(0, long, PAGE):
        before, after = bytes(old[start : start + PAGE]), bytes(new[start : start + PAGE])
        if before == after:
            made += before
            continue
        made += chance.choices(_PAGES, likely)[0](before, after, chance)
    return bytes(made[:size])


def _torn(old: bytes, new: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(old))
    return new[:at] + old[at:] if chance.random() < 0.7 else old[:at] + new[at:]


def _garbage(old: bytes, new: bytes, chance: random.Random) -> bytes:
    noise = chance.randbytes(len(old))
    return bytes(n if o != w else o for o, w, n in zip(old, new, noise, strict=True))


_PAGES: Final[Sequence[Callable[[bytes, bytes, random.Random], bytes]]] = (
    lambda old, _new, _chance: old,
    lambda _old, new, _chance: new,
    _torn,
    _garbage,
)
