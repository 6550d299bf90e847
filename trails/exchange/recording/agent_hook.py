"""Record what an agent's hook tells of: it starts a process that reads the transcript, so that the agent never waits."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trails.exchange.recording.user_state import state_folder
from trails.files import private_folders

MOST: Final = 64 << 20
"""Bytes that are read of what a hook is given: a tool's answer may be large."""
_LOG_SIZE: Final = 1 << 20
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_PATIENCE: Final = 60.0
"""Seconds that a recording process tries to get its records into the store."""


def log_file() -> Path:
    """Return the file that says what went wrong in hooks."""
    return state_folder() / "hook.log"


def log(message: str) -> None:
    """Add a line to the hooks' log; what cannot be written is left out, since nobody could be told."""
    file = log_file()
    try:
        _make_folder()
        if file.exists() and file.stat().st_size > _LOG_SIZE:
            file.replace(file.with_suffix(".log.1"))
        with file.open("a", encoding="utf-8", errors="backslashreplace") as out:
            out.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(message.split())}\n")
    except OSError:
        pass


def _make_folder() -> None:
    if not state_folder().is_dir():
        with private_folders():
            state_folder().mkdir(mode=0o700, parents=True, exist_ok=True)


def transcripts_of(payload: str) -> list[Path]:
    """Return the transcripts that a hook's JSON names: Claude Code's, or that of a thread of Codex.

    Raises `ValueError` if it names none.

    >>> transcripts_of('{"session_id": "s", "transcript_path": "/tmp/s.jsonl", "hook_event_name": "Stop"}')
    [PosixPath('/tmp/s.jsonl')]
    """
    told = json.loads(payload)
    if not isinstance(told, dict):
        raise ValueError("what the hook was given is no JSON object")
    named = [told.get("transcript_path"), told.get("agent_transcript_path")]
    paths = [Path(path).expanduser() for path in named if isinstance(path, str) and path]
    if not paths and told.get("type") == "agent-turn-complete":
        paths = _rollouts(told)
    if not paths or not all(path.is_absolute() for path in paths):
        raise ValueError("what the hook was given names no transcript (transcript_path)")
    return paths


def _rollouts(told: dict[str, Any]) -> list[Path]:
    thread = told.get("thread-id")
    if not isinstance(thread, str) or not _UUID.fullmatch(thread):
        raise ValueError("the notice of Codex has no id of a thread (thread-id)")
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    found = sorted((home / "sessions").glob(f"*/*/*/rollout-*{thread}*.jsonl"))
    if not found:
        raise ValueError(f"there is no rollout of the thread {thread} in {home / 'sessions'}")
    return found


def start(program: Sequence[str], paths: Sequence[Path]) -> None:
    """Start a process of its own that records transcripts, and do not wait for it. It outlives the agent."""
    line = [*program, "hook", "--record", *map(str, paths)]
    subprocess.Popen(  # noqa: S603 - the program itself
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )


def own_program() -> list[str]:
    """Return the words that start this program, with paths that hold anywhere."""
    named = Path(sys.argv[0])
    if named.name in ("trails", "trails.exe") and named.is_file():
        return [str(named.absolute())]
    return [sys.executable, "-m", "trails"]


@contextmanager
def turn_of(name: str) -> Iterator[bool]:
    """Let one process after the other work on what has a name; False if another one is waiting already.

    That one begins to read after this call, so it sees all that was written before.
    """
    place = int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:7], "big") * 2
    _make_folder()
    with (state_folder() / "hook.lock").open("w") as locks:  # a lock on a byte that is not there takes no room
        try:
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except BlockingIOError:
            yield False
            return
        fcntl.lockf(locks, fcntl.LOCK_EX, 1, place + 1)
        fcntl.lockf(locks, fcntl.LOCK_UN, 1, place)
        yield True


def deadline() -> float:
    """Return when a recording process gives up (`time.monotonic`)."""
    return time.monotonic() + _PATIENCE
