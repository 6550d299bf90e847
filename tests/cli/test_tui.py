"""The terminal view: everything by the keyboard, nothing that is stored taken for markup, and errors that end nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, OptionList

import trails
from tests.support.commands import invoke
from tests.support.terminals import environment
from trails.cli import tui
from trails.cli.tui import TextPage, TrailsApp, TranscriptPage
from trails.errors import StoreLocked
from trails.opening import open_to_read

HOSTILE = "<u>as</u> [red]markup[/red] \x1b[2J [link=file:///etc]here[/] \u202e"
SHOWN = "<u>as</u> [red]markup[/red] ␛[2J [link=file:///etc]here[/] \\u202e"
"""What the screen has of it: each character that could steer a terminal as a symbol."""


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 250 short sessions, `long` of 150 turns, `hostile`, and `fork` of `long` at 149; newest last."""
    path = tmp_path_factory.mktemp("tui") / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        with store.commit():
            for number in range(250):
                each = store.create(id=f"s{number:03}", principal="alice", meta={"title": f"Trip {number:03}"})
                each.append("user", f"Plan trip {number}")
                each.persist()
        long = store.create(id="long", principal="alice", label="long")
        for number in range(75):
            long.append("user", f"Question {number}")
            thoughts = {"type": "thinking", "thinking": "Trains are better than buses."}
            text = {"type": "text", "text": f"Answer {number}: take the **train**."}
            long.append("assistant", [thoughts, text], model="m-1")
        long.persist()
        hostile = store.create(id="hostile", principal="alice", meta={"title": HOSTILE})
        hostile.append("user", HOSTILE)
        hostile.append("assistant", HOSTILE, model="[red]m[/red]")
        hostile.persist()
        fork = long.fork(at=149, id="fork", label="by-bus")
        fork.append("assistant", "Take the bus.", model="m-2")
        fork.persist()
    return path


@pytest.fixture
def view(place: Path) -> Iterator[Callable[..., None]]:
    """A function that shows the store at `place`, and does something with the keyboard."""
    with open_to_read(str(place)) as store:

        def fork(session: str, at: int, label: str | None) -> str:
            with trails.open(place) as opened:
                made = opened.load(session).fork(at, label=label)
                made.persist()
                return made.id

        def show(act: Callable[[TrailsApp, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
            async def run() -> None:
                app = TrailsApp(store, fork)
                async with app.run_test(size=size, notifications=True) as pilot:
                    await until(pilot, lambda: bool(app.rows))
                    await act(app, pilot)

            asyncio.run(run())

        yield show


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    """Wait until something is so, for ten seconds at most."""
    for _ in range(200):
        await pilot.pause(0.05)
        if is_so():
            return
    raise AssertionError(f"it never was so: {[each.message for each in pilot.app._notifications]} {pilot.app.screen}")


def seen(app: TrailsApp) -> str:
    """Return the text of the screen, a line each."""
    return "\n".join("".join(part.text for part in strip) for strip in app.screen._compositor.render_strips())


def told(app: TrailsApp) -> str:
    """Return what the notifications say."""
    return "\n".join(each.message for each in app._notifications)


def ids(app: TrailsApp) -> list[str]:
    return [row.id for row in app.rows]


def turns(app: TrailsApp) -> OptionList:
    return app.screen.query_one(OptionList)


async def choose(app: TrailsApp, pilot: Pilot[None], session: str) -> None:
    """Move to a session among the newest."""
    for _ in range(ids(app).index(session) - app.query_one(DataTable).cursor_row):
        await pilot.press("down")


def test_the_list_has_the_newest_sessions_with_their_turns_and_model(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "Filter" in seen(app).splitlines()[-1])
        lines = seen(app).splitlines()
        assert ids(app)[:3] == ["fork", "hostile", "long"]
        assert lines[1].split() == ["title", "turns", "model", "active"]
        assert lines[2].split()[:3] == ["by-bus", "150", "m-2"]
        assert "Trip 249" in lines[5]

    view(act)
    view(act, (80, 24))


def test_a_long_list_is_read_by_pages_as_its_end_comes_near(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        assert len(app.rows) == 100
        await pilot.press("ctrl+end")
        await until(pilot, lambda: len(app.rows) == 200)
        await pilot.press("ctrl+end")
        await until(pilot, lambda: len(app.rows) == 253)
        assert len(set(ids(app))) == 253

    view(act)


def test_typing_filters_and_escape_shows_all_again(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"trip 24")
        await until(pilot, lambda: len(app.rows) == 11)
        assert ids(app)[0] == "s249"
        await pilot.press("enter", "j")
        assert app.query_one(DataTable).cursor_row == 1
        await pilot.press("escape")
        await until(pilot, lambda: len(app.rows) == 100)
        assert app.query_one("#filter", Input).value == ""

    view(act)


def test_titles_take_the_room_that_a_terminal_has_when_it_grows(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "link=file" not in seen(app) and "[red]markup" in seen(app))
        await pilot.press("down", "down")
        await pilot.resize_terminal(140, 30)
        await until(pilot, lambda: SHOWN in seen(app))
        assert app.query_one(DataTable).cursor_row == 2
        assert len(app.rows) == 100

    view(act, (80, 24))


def test_a_transcript_opens_at_its_end_and_reads_those_above_when_they_are_reached(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await choose(app, pilot, "long")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count == 60)
        assert turns(app).highlighted == 59
        assert "149  assistant" in seen(app)
        assert "take the train." in seen(app)
        assert "**" not in seen(app)
        await pilot.press("g")
        await until(pilot, lambda: turns(app).option_count == 120)
        assert turns(app).highlighted == 60
        await pilot.press("g")
        await until(pilot, lambda: turns(app).option_count == 150)
        await pilot.press("g")
        await until(pilot, lambda: "Question 0" in seen(app))
        await pilot.press("escape")
        assert not isinstance(app.screen, TranscriptPage)

    view(act)


def test_thoughts_are_folded_until_a_turn_is_opened(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await choose(app, pilot, "long")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count == 60)
        assert "thoughts, 5 words: Trains are better than buses." in seen(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        assert "turn 149 of long" in seen(app)
        assert "thoughts," not in seen(app)
        assert "Trains are better than buses." in seen(app)

    view(act)


def test_new_turns_appear_while_a_transcript_is_open(view: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui, "_POLL", 0.05)

    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await choose(app, pilot, "long")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count == 60)
        with trails.open(place) as store:
            session = store.load("long")
            session.append("user", "Are you still there?")
            session.persist()
        await until(pilot, lambda: turns(app).option_count == 61)
        assert turns(app).highlighted == 60
        assert "Are you still there?" in seen(app)
        assert "151 turns, live" in seen(app)

    view(act)


def test_two_that_are_marked_are_shown_as_a_diff_and_as_a_comparison(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await pilot.press("d")
        await until(pilot, lambda: "mark two sessions first" in seen(app))
        await pilot.press("space")
        await choose(app, pilot, "long")
        await pilot.press("space", "d")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        assert "they share 149 turns by lineage" in seen(app)
        assert "Take the" in seen(app)
        await pilot.press("escape", "c")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        rows = [line.split()[:2] for line in seen(app).splitlines()]
        assert ["long", "long"] in rows
        assert ["fork", "by-bus"] in rows
        await pilot.press("escape")
        await pilot.press("up", "space")
        assert app.marked == ["long", "hostile"]

    view(act)


def test_a_fork_is_made_behind_the_turn_that_is_chosen(view: Any, place: Path) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await choose(app, pilot, "long")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count == 60)
        await pilot.press("up", "up", "f")
        await until(pilot, lambda: "Fork behind turn 147 of long" in seen(app))
        await pilot.press(*"third", "enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and "third  148 turns" in seen(app))

    view(act)
    with trails.open(place) as store:
        made = store.record("third")
        assert (made.parent_session_id, made.forked_at_index) == ("long", 148)


def test_escape_makes_no_fork(view: Any, place: Path) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count > 0)
        await pilot.press("f")
        await until(pilot, lambda: "Fork behind" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage))

    view(act)
    with trails.open(place) as store:
        assert len(store) == 253


def test_what_is_stored_is_shown_as_it_is_written(view: Any) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        assert SHOWN in seen(app)
        await choose(app, pilot, "hostile")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count == 2)
        assert seen(app).count("<u>as</u> [red]markup[/red] ␛[2J") == 3
        await pilot.press("up", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextPage))
        assert SHOWN in seen(app)
        assert not {"\x1b", "\u202e"} & set(seen(app))

    view(act, (140, 30))


def test_what_goes_wrong_is_told_and_ends_nothing(view: Any) -> None:
    def locked(session: str, at: int, label: str | None) -> str:
        raise StoreLocked("the store is open in another process")

    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage) and turns(app).option_count > 0)
        await pilot.press("f")
        await until(pilot, lambda: "Fork behind" in seen(app))
        await pilot.press(*"long", "enter")
        await until(pilot, lambda: "'long'" in told(app) and isinstance(app.screen, TranscriptPage))
        app.fork = locked
        await pilot.press("f")
        await until(pilot, lambda: "Fork behind" in seen(app))
        await pilot.press(*"other", "enter")
        await until(pilot, lambda: "the store is open in another process" in seen(app))
        assert isinstance(app.screen, TranscriptPage)

    view(act, (140, 30))


def test_a_session_that_is_deleted_meanwhile_is_an_error_on_the_screen(view: Any, place: Path) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        with trails.open(place) as store:
            store.delete("fork", by="bob")
        await pilot.press("enter")
        await until(pilot, lambda: "'fork' was deleted" in told(app))
        await pilot.press("escape", "r")
        await until(pilot, lambda: bool(app.rows) and ids(app)[0] == "hostile")

    view(act, (140, 30))


def test_a_store_that_is_damaged_meanwhile_is_an_error_on_the_screen(view: Any, place: Path) -> None:
    async def act(app: TrailsApp, pilot: Pilot[None]) -> None:
        log = place / "trails.db"
        size = log.stat().st_size
        with log.open("r+b") as file:
            file.seek(8192)
            file.write(b"\xff" * (size - 8192))
        await pilot.press("r")
        await until(pilot, lambda: "is damaged" in told(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TranscriptPage))

    view(act)


def test_without_a_terminal_it_says_what_prints_the_same(place: Path) -> None:
    done = invoke("tui", store=place)
    assert done.exit_code == 2
    assert "needs a terminal" in done.stderr
    assert "`trails list` and `trails show`" in done.stderr


def test_without_its_extra_it_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each == "trails.cli.tui" or each.split(".")[0] == "textual"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    done = invoke("tui", store=place)
    assert done.exit_code == 2
    assert 'pip install "trails[tui]"' in done.stderr


@pytest.mark.slow
def test_the_command_shows_the_store_on_a_terminal_and_q_leaves_it(place: Path) -> None:
    program = pexpect.spawn(
        sys.executable, ["-m", "trails", "tui", "--store", str(place)], dimensions=(24, 80), timeout=60,
        env=environment({"TERM": "xterm-256color"}),
    )  # fmt: skip
    program.expect("by-bus")
    program.expect("Filter")
    program.send("q")
    program.expect(pexpect.EOF)
    program.close()
    assert program.exitstatus == 0
