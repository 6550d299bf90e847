"""Importing transcripts of Claude Code into a new store, and the same ones again, beside peers that are given what they say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import trails
from benchmarks import peers
from benchmarks.data import USAGE, Message, agent_messages
from benchmarks.harness import Contestant, Result, Setting, Stopwatch, Target, medians, timed
from benchmarks.peers.ours import Ours
from trails.exchange.file_import import import_path

_EACH = 100
"""Turns of a file."""
_READING = "reading the lines as JSON"
_START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def run(setting: Setting) -> list[Result]:
    """Measure the seconds of one turn, files and all."""
    texts = agent_messages(setting.size.turns, setting.seed)
    files = setting.folder / "files"
    files.mkdir()
    for number, start in enumerate(range(0, len(texts), _EACH)):
        lines = _lines(f"session-{number}", texts[start : start + _EACH])
        (files / f"session-{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    found, missing = peers.installed(setting.folder / "asked")
    said = {peers.OURS: Ours.durability, **peers.durability(found)}
    for peer in found.values():
        peer.close()
    contestants = [
        Contestant(peers.OURS, lambda: _imported(files, setting.folder / "new", len(texts)) / len(texts)),
        Contestant("trails, the same again", lambda: _again(files, setting.folder / "there") / len(texts)),
        Contestant(_READING, lambda: timed(lambda: _read(files)) / len(texts)),
        *(
            Contestant(name, partial(_filled, name, setting.folder / "peers", texts))
            for name, peer in found.items()
            if not peer.rewrites
        ),
    ]
    seconds = medians(contestants, min(setting.size.rounds, 5))
    return [
        Result(
            name="imports",
            title=f"import {len(texts):,} turns in files of {_EACH} of Claude Code; seconds of one turn",
            baseline=peers.SQLITE_SESSION if peers.SQLITE_SESSION in seconds else _READING,
            medians=seconds,
            durability={name: how for name, how in said.items() if name in seconds},
            missing=missing,
            targets=[Target("a turn, where 3,000 are imported in a second", seconds[peers.OURS] * 1e6, 333, "us")],
        )
    ]


def _lines(session: str, texts: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a transcript that says these messages, each in one line."""
    parent = None
    for number, message in enumerate(texts):
        own = f"{session}-{number}"
        yield {
            "parentUuid": parent,
            "isSidechain": False,
            "cwd": "/home/ada/tidepool",
            "version": "2.1.40",
            "sessionId": session,
            "type": "assistant" if message.role == "assistant" else "user",
            "message": _message(own, message),
            "uuid": own,
            "timestamp": (_START + timedelta(seconds=number)).isoformat(timespec="milliseconds"),
        }
        parent = own


def _message(own: str, message: Message) -> dict[str, Any]:
    text = {"type": "text", "text": message.text}
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.call, "content": message.text}
        return {"role": "user", "content": [result]}
    if message.role == "user":
        return {"role": "user", "content": message.text}
    call = {"type": "tool_use", "id": message.call, "name": "weather", "input": json.loads(message.arguments)}
    content = [text] if message.call is None else [text, call]
    return {"id": own, "role": "assistant", "model": message.model, "content": content, "usage": USAGE}


def _imported(files: Path, place: Path, expected: int) -> float:
    watch = Stopwatch()
    with trails.open(place, create=True) as store:
        with watch.timed():
            import_path(store, files, final=True)
        assert store.info()["turns"] == expected
    shutil.rmtree(place)
    return watch.seconds


def _again(files: Path, place: Path) -> float:
    """Time the second import of the same files; the first is made by the first round."""
    if not place.exists():
        with trails.open(place, create=True) as store:
            import_path(store, files, final=True)
    watch = Stopwatch()
    with trails.open(place) as store:
        before = store.info()["turns"]
        with watch.timed():
            import_path(store, files, final=True)
        assert store.info()["turns"] == before
    return watch.seconds


def _read(files: Path) -> list[Any]:
    return [json.loads(line) for path in files.iterdir() for line in path.read_bytes().splitlines()]


def _filled(name: str, place: Path, texts: Sequence[Message]) -> float:
    """Time a peer that is given what the files say, in a commit a file: the reading of the files is not counted."""
    peer = peers.reopened(name, place)
    batches = [texts[start : start + _EACH] for start in range(0, len(texts), _EACH)]
    seconds = peers.seconds(peer, _all(peer.fill, batches))
    peer.close()
    shutil.rmtree(place)
    return seconds / len(texts)


def _all(fill: Callable[[Sequence[Message]], None], batches: Sequence[Sequence[Message]]) -> Callable[[], None]:
    def work() -> None:
        for batch in batches:
            fill(batch)

    return work
