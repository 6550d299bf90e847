"""Commands that record agents while they run: watch, and what their hooks call."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trails.cli import options as cli
from trails.display.terminal_text import count, one_line

if TYPE_CHECKING:
    from trails.exchange.recording.watcher import Watcher, WatchEvent


@cli.command("watch", by=True)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@cli.option("--once", "Bring in what is there, and end.")
@cli.option("--create", "Create the store if it is not there.")
@cli.option("--redact-secrets", "Put a mark in the place of each key, token and password.")
@cli.option("--files DIR", "Record with the turns what becomes of the files in this folder; may be repeated.", name="work",
            multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path))  # fmt: skip
@cli.option("--state FILE", "Where to keep what was read; default: a file for this store in ~/.local/state/trails.",
            type=cli.NEW_FILE)  # fmt: skip
def watch(
    *,
    paths: tuple[Path, ...],
    once: bool,
    create: bool,
    redact_secrets: bool,
    work: tuple[Path, ...],
    state: Path | None,
) -> None:
    """Follow the transcripts of running agents into the store.

    A PATH is a folder, such as ~/.claude, ~/.codex or ~/.gemini, with all below it, or a file. All formats that `trails
    import` detects are followed, also in files and folders that are new. A record is in the store within 2 seconds of its
    write. Nothing comes in twice, whenever this ends and begins again, and several may watch for one store. What cannot be
    read is reported on stderr, and the rest goes on. --files names a folder in which agents work: a change in it is a turn's
    if a tool ran while it was made, and of unknown origin otherwise. Ctrl-C and SIGTERM end it, with exit code 0. With
    --json, each event is a line of JSON on stdout.
    """
    from trails.exchange.recording.file_state import FileStates, state_file
    from trails.exchange.recording.watcher import Watcher

    for path in paths:
        if not path.exists():
            cli.note(f"{path} is not there{'' if once else ' yet'}")
    with cli.open_store(create=create) as store, _ending() as over:
        in_memory = state is None and store.store.location == ":memory:"
        states = FileStates(None if in_memory else state or state_file(store))
        try:
            watcher = Watcher(store, paths, states, redact_secrets=redact_secrets, files_in=work)
            _told(watcher, once=once, over=over)
        finally:
            states.close()


@contextmanager
def _ending() -> Iterator[threading.Event]:
    """Let SIGTERM and SIGINT set an event: what is under way is finished first."""
    over = threading.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield over
        return
    before = [signal.signal(each, lambda *_: over.set()) for each in signals]
    try:
        yield over
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


def _told(watcher: Watcher, *, once: bool, over: threading.Event) -> None:
    """Say what a watcher does, until it is over."""
    as_json = cli.as_json()
    line = _Line(watcher, shown=not as_json and sys.stderr.isatty())
    recorded, turns = set[str](), 0
    if as_json:
        _print(
            {"event": "watching", "store": watcher.repository.store.location, "paths": list(map(str, watcher.paths))}
        )
    else:
        cli.note(
            f"watching {', '.join(one_line(str(path)) for path in watcher.paths)}" + ("" if once else "; Ctrl-C ends")
        )
    for event in watcher.look(over.is_set) if once else watcher.follow(over.is_set, over.wait):
        turns += event.turns if event.kind == "recorded" else 0
        recorded.update(event.sessions if event.kind == "recorded" else ())
        if as_json:
            _print(event.to_dict())
        else:
            line.tell(event, turns)
    line.clear()
    if as_json:
        _print({"event": "stopped", "files": watcher.files, "sessions": len(recorded), "turns": turns})
        return
    cli.note(
        f"recorded {count(turns, 'turn')} in {count(len(recorded), 'session')} from {count(watcher.files, 'file')}"
    )


def _print(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=True))


class _Line:
    """What people see: a line for each session that grows on stdout, and on a terminal one of progress, written anew."""

    def __init__(self, watcher: Watcher, *, shown: bool) -> None:
        self._watcher = watcher
        self._is_shown = shown
        self._width = 0

    def tell(self, event: WatchEvent, turns: int) -> None:
        """Say what happened."""
        self.clear()
        file = one_line(event.file)
        if event.kind == "recorded":
            names = one_line(event.sessions[0]) if len(event.sessions) == 1 else count(len(event.sessions), "session")
            click.echo(f"{names}: {count(event.turns, 'turn')} from {file}")
        elif event.kind == "problem":
            place = f"{file}, line {event.line}" if event.line else file
            cli.note(f"problem: {place}: {one_line(event.reason)}")
        elif event.kind == "failed":
            cli.note(f"not stored yet, and tried again: {file}: {one_line(event.reason)}")
        if self._is_shown:
            text = f"{self._watcher.files:,} files, {count(turns, 'turn')} recorded"
            click.echo(f"{text}\r", nl=False, err=True)
            self._width = len(text)

    def clear(self) -> None:
        """Take the line of progress away."""
        if self._width:
            click.echo(f"{' ' * self._width}\r", nl=False, err=True)
            self._width = 0


@cli.command("hook", json=False, by=True)
@click.argument("given", metavar="[NOTICE]", nargs=-1)
@cli.option("--claude-code", "What calls it is a hook of Claude Code.", name="claude_code")
@cli.option("--record", "Record these transcripts now; it is how a hook does it.", hidden=True)
def hook(*, given: tuple[str, ...], claude_code: bool, record: bool) -> None:
    """Record the session that an agent's hook tells of.

    Claude Code's hooks give their JSON on stdin, Codex's `notify` gives it as NOTICE. The transcript that it names is read
    by a process of its own: this one returns at once, prints nothing, and its exit code is always 0. What goes wrong is
    written to ~/.local/state/trails/hook.log. `trails init --claude-code` puts it into Claude Code's settings.
    """
    from trails.exchange.recording import agent_hook

    del claude_code  # it is there to be recognised
    try:
        if record:
            _record_now([Path(path) for path in given])
            return
        payload = given[0] if given else sys.stdin.buffer.read(agent_hook.MOST).decode("utf-8", errors="replace")
        store = cli.store_location() or ""
        agent_hook.start([*agent_hook.own_program(), "--store", store], agent_hook.transcripts_of(payload))
    except Exception as error:  # noqa: BLE001 - the agent must go on, whatever it is
        agent_hook.log(f"{type(error).__name__}: {error}")


def _record_now(paths: list[Path]) -> None:
    from trails.exchange.recording import agent_hook
    from trails.exchange.recording.file_state import FileStates, state_file
    from trails.exchange.recording.watcher import Watcher

    with agent_hook.turn_of(f"{cli.store_location()}\0{paths[0]}") as is_ours:
        if not is_ours:
            return
        with cli.open_store() as store:
            states = FileStates(state_file(store))
            try:
                beside = [path.with_suffix("") / "subagents" for path in paths]
                for event in Watcher(store, [*paths, *beside], states).settle_down(agent_hook.deadline()):
                    if event.kind in ("failed", "problem"):
                        agent_hook.log(f"{event.kind}: {event.file}, line {event.line}: {event.reason}")
            finally:
                states.close()
