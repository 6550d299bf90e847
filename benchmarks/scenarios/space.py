"""What a turn takes: bytes on disk once the store is closed, and bytes of memory while it is appended and while it is held."""

from __future__ import annotations

from pathlib import Path

from benchmarks import peers
from benchmarks.data import KINDS, TEXT_BYTES
from benchmarks.harness import Result, Setting, Target, bytes_in
from benchmarks.peers import weighed
from benchmarks.scenarios.append import affordable

_TITLES = {
    "disk": "bytes on disk of a {kind} turn of {length} bytes: {count:,} were appended one by one, then read by another process",
    "appending": "bytes by which a process grows with each of {count:,} {kind} turns that it appends one by one",
    "loading": "bytes by which a process grows with each of {count:,} {kind} turns that it loads and holds",
}
_PARTS = {
    "log and rows": "trails.db",
    "engine": "index/*.snapshot",
}


def run(setting: Setting) -> list[Result]:
    """Measure every contestant once, each in processes of its own; memory only where the system tells (Linux)."""
    return [result for kind in KINDS for result in _measured(setting, kind)]


def _measured(setting: Setting, kind: str) -> list[Result]:
    folder, count = setting.folder / kind, setting.size.turns
    texts = KINDS[kind](count, setting.seed, TEXT_BYTES)
    found, missing = peers.installed(folder)
    counts = {peers.OURS: count} | {name: len(affordable(peer, texts)) for name, peer in found.items()}
    for peer in found.values():
        peer.close()
    sizes: dict[str, dict[str, float]] = {what: {} for what in _TITLES}
    for name, own in counts.items():
        grown = weighed.weigh(name, folder, kind, own, setting.seed)
        for what, size in {**grown, "disk": bytes_in(peers.place(name, folder))}.items():
            sizes[what][name] = max(1, size) / own
    fewer = {f"turns of {name}, which writes all again each time": own for name, own in counts.items() if own < count}
    parts = _parts(peers.place(peers.OURS, folder) / "store", count)
    return [
        Result(
            name=f"space {what} {kind}",
            title=title.format(kind=kind, length=TEXT_BYTES, count=count),
            baseline=peers.SQLITE_SESSION if peers.SQLITE_SESSION in counts else peers.JSON_LINES,
            medians=sizes[what],
            unit="bytes",
            missing=missing,
            counts=fewer | (parts if what == "disk" else {}),
            targets=[Target("a turn on disk", sizes["disk"][peers.OURS], 3_000, "bytes")] if what == "disk" else [],
        )
        for what, title in _TITLES.items()
    ]


def _parts(store: Path, turns: int) -> dict[str, int]:
    """Return the bytes of a turn in each part of Trails' store."""
    found = {
        part: sum(bytes_in(path) if path.is_dir() else path.stat().st_size for path in store.glob(pattern))
        for part, pattern in _PARTS.items()
    }
    return {f"trails, {part}": size // turns for part, size in found.items()}
