"""`trails tui`: browse, read, follow, compare and fork sessions, by the keyboard alone.

Reads run on a thread, one at a time, so that the screen never waits. What is stored is shown as it is written: no text is
taken for markup, and none steers the terminal.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, TypeVar, cast

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

import trails
from trails.cli import diff_formats, transcript_view
from trails.cli.options import ago
from trails.display import markdown
from trails.display.terminal_text import clean, count, one_line, shorten
from trails.errors import TrailsError

SESSIONS: Final = 100
"""Sessions of one page of the list; the next is read when the last of them comes near."""
TURNS: Final = 60
"""Turns that are read at once: the last of a transcript, and as many above when the first of them is reached."""
_NEAR: Final = 10
_FOLD: Final = 8
"""Lines of a turn in the transcript; Enter shows all of it."""
_CUT: Final = 800
"""Characters of one of these lines."""
_POLL: Final = 1.0
"""Seconds between two looks for new turns."""
_DELAY: Final = 0.15
"""Seconds without a key after which what was typed is looked for."""
_OF_LIST: Final = ("filter", "mark", "diff", "compare", "reload", "clear")
_Read = TypeVar("_Read")


def draw_turn(turn: trails.Turn, session_id: str, width: int, *, whole: bool) -> RenderableType:
    """Return a turn to look at in so many columns: a line on it, then what it says; its thoughts are folded unless `whole`."""
    console = Console(
        file=io.StringIO(), width=max(20, width - 8), color_system="standard", markup=False, highlight=False
    )
    rows: list[RenderableType] = [transcript_view.turn_line(session_id, turn)]
    for part in transcript_view.turn_parts(turn, {}, None):
        text, is_thought = clean(part.text).rstrip("\n"), bool(part.gutter)
        if is_thought and not whole:
            text = f"thoughts, {count(len(text.split()), 'word')}: {shorten(text, 45)}"
        lines: Sequence[Text | str] = text.split("\n")
        if part.is_prose and len(text) <= markdown.MOST:
            lines = transcript_view.markdown_lines(console, text)
        kept = lines if whole else [line[:_CUT] for line in lines[:_FOLD]]
        body = [line if isinstance(line, Text) else Text(line, style=part.style) for line in kept]
        if sum(map(len, kept)) + len(kept) < sum(map(len, lines)) + len(lines):
            body.append(Text("… Enter shows all", style="dim italic"))
        rows.append(Padding(Group(*body), (0, 0, 0, 5)))
    return Group(*rows)


class _Reader:
    """A store that is read on threads, one read at a time; what goes wrong is shown, and ends nothing."""

    def __init__(self, store: trails.Repository, app: App[None]) -> None:
        self.store = store
        self._app = app
        self._one = threading.Lock()
        self._told = ""

    async def __call__(self, read: Callable[[], _Read]) -> _Read | None:
        """Return what is read, or None once people have been told why it is not."""

        def alone() -> _Read:
            with self._one:
                return read()

        try:
            found = await asyncio.to_thread(alone)
        except (TrailsError, OSError) as error:
            message = one_line(str(error))
            if message != self._told:  # a look a second says it once
                self._app.notify(message, severity="error", timeout=10, markup=False)
            self._told = message
            return None
        self._told = ""
        return found


class _Table(DataTable[Text]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]


class _Turns(OptionList):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]


class _Page(Screen[None]):
    """A screen that Escape leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "app.pop_screen", "Back")]

    @property
    def tui(self) -> TrailsApp:
        """The program that shows it."""
        return cast("TrailsApp", self.app)


class TextPage(_Page):
    """A text to scroll through."""

    def __init__(self, title: str, text: RenderableType) -> None:
        """Show a text, which is safe for a terminal, under a title."""
        super().__init__()
        self._heading, self._text = title, text

    def compose(self) -> ComposeResult:
        """Lay it out: the title, the text, the keys."""
        yield Static(Text(one_line(self._heading)), classes="title")
        with VerticalScroll():
            yield Static(self._text, markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Have the keys that scroll go to the text."""
        self.query_one(VerticalScroll).focus()


class LabelPage(ModalScreen[str | None]):
    """Asks for the label of a fork; Escape makes none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel")]

    def __init__(self, question: str) -> None:
        """Ask a question."""
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay it out: the question above the field."""
        yield Static(Text(one_line(self._question)), classes="title")
        yield Input(placeholder="a label that no other session has; empty for none", id="label")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give what was typed."""
        self.dismiss(event.value.strip())


class TranscriptPage(_Page):
    """A transcript by turns, the latest in view; new turns appear as they are stored."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fork", "Fork here"),
        Binding("g", "first", show=False),
        Binding("G", "last", "Latest"),
    ]

    def __init__(self, session_id: str, name: str) -> None:
        """Show a session, which people call `name`."""
        super().__init__()
        self._session, self._called = session_id, name
        self._turns: list[trails.Turn] = []
        self._is_reading = False

    def compose(self) -> ComposeResult:
        """Lay it out: what session it is, its turns, the keys."""
        yield Static(Text(one_line(self._called)), classes="title")
        yield _Turns(markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read, and go on."""
        self.query_one(_Turns).focus()
        self.look()
        self.set_interval(_POLL, self.look)

    def _between(self, first: int | None, last: int | None) -> tuple[int, Sequence[trails.Turn]]:
        reader = self.tui.reader
        reader.store.refresh()
        turns = reader.store.load(self._session).turns
        start = max(0, len(turns) - TURNS) if first is None else max(0, first)
        return len(turns), turns[start:last]

    @work(group="look")
    async def look(self) -> None:
        """Add the turns that came since the last look: the newest page at first."""
        if self._is_reading:
            return
        self._is_reading = True
        try:
            is_first, end = not self._turns, self._turns[-1].index + 1 if self._turns else None
            found = await self.tui.reader(lambda: self._between(end, None))
            if found is None or not self.is_attached:
                return
            total, turns = found
            lines = self.query_one(_Turns)
            is_last = is_first or lines.highlighted == lines.option_count - 1
            self._turns += turns
            lines.add_options(self._options(turns))
            if turns and is_last:
                lines.highlighted = lines.option_count - 1
            self.query_one(".title", Static).update(Text(f"{one_line(self._called)}  {count(total, 'turn')}, live"))
        finally:
            self._is_reading = False

    def _options(self, turns: Iterable[trails.Turn]) -> Iterator[Option]:
        return (Option(draw_turn(turn, self._session, self.app.size.width, whole=False)) for turn in turns)

    async def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Read the turns above once the first of those that are shown is reached."""
        first = self._turns[0].index if self._turns else 0
        if event.option_index == 0 and first > 0 and not self._is_reading:
            self.earlier(first)

    @work(group="earlier", exclusive=True)
    async def earlier(self, first: int) -> None:
        """Put as many turns as a page has above the first."""
        found = await self.tui.reader(lambda: self._between(first - TURNS, first))
        if found is None or not self.is_attached or self._turns[0].index != first:
            return
        lines, above = self.query_one(_Turns), found[1]
        at = lines.highlighted or 0
        self._turns[:0] = above
        lines.clear_options()
        lines.add_options(self._options(self._turns))
        lines.highlighted = at + len(above)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show all of a turn, with its thoughts."""
        turn = self._turns[event.option_index]
        self.app.push_screen(
            TextPage(
                f"turn {turn.index} of {self._called}", draw_turn(turn, self._session, self.app.size.width, whole=True)
            )
        )

    def action_first(self) -> None:
        """Go to the first turn that is shown, which brings those above."""
        self.query_one(_Turns).action_first()

    def action_last(self) -> None:
        """Go to the latest turn."""
        self.query_one(_Turns).action_last()

    @work
    async def action_fork(self) -> None:
        """Ask for a label, and fork behind the turn that is chosen."""
        at = self.query_one(_Turns).highlighted
        if at is None:
            return
        index = self._turns[at].index
        label = await self.app.push_screen_wait(LabelPage(f"Fork behind turn {index} of {self._called}. Its label?"))
        if label is None:
            return
        forked = await self.tui.reader(lambda: self.tui.fork(self._session, index + 1, label or None))
        if forked is not None:
            self.notify(f"forked as {one_line(label or forked)}", markup=False)
            self.app.switch_screen(TranscriptPage(forked, label or forked))


class TrailsApp(App[None]):
    """The sessions of a store, newest first; what is typed into the field narrows them."""

    CSS = """
    .title { background: $panel; color: $text; padding: 0 1; height: 1; text-style: bold; }
    #filter, #label { border: none; height: 1; padding: 0 1; }
    LabelPage { align: center middle; background: $background 60%; }
    LabelPage > * { width: 80%; }
    _Turns, _Table { height: 1fr; border: none; }
    _Turns > .option-list--option-highlighted, _Turns:focus > .option-list--option-highlighted {
        background: $boost; color: $text; text-style: none;
    }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter"),
        Binding("space", "mark", "Mark"),
        Binding("d", "diff", "Diff"),
        Binding("c", "compare", "Compare"),
        Binding("r", "reload", "Reload"),
        Binding("escape", "clear", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, store: trails.Repository, fork: Callable[[str, int, str | None], str]) -> None:
        """Show a store; `fork` makes a fork of a session at an index under a label, and returns its id."""
        super().__init__(ansi_color=False)
        self.reader = _Reader(store, self)
        self.fork = fork
        self.rows: list[trails.SessionSummary] = []
        self.marked: list[str] = []
        self._cursor: str | None = None

    def compose(self) -> ComposeResult:
        """Lay it out: the field, the table, the keys."""
        yield Input(placeholder="type to filter by title, label, first prompt or id", id="filter")
        yield _Table(cursor_type="row", zebra_stripes=False)
        yield Footer()

    def on_mount(self) -> None:
        """Read the first page."""
        self.query_one(_Table).focus()
        self.action_reload()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys of the list to the list: above it, other screens have their own."""
        return action not in _OF_LIST or len(self.screen_stack) == 1

    # --- the list

    @work(exclusive=True, group="list")
    async def action_reload(self, *, wait: float = 0.0) -> None:
        """Read the first page anew; `wait` so many seconds for another key."""
        await asyncio.sleep(wait)
        text = self.query_one("#filter", Input).value.strip() or None

        def read() -> Any:
            self.reader.store.refresh()
            return self.reader.store.summaries(text=text, limit=SESSIONS)

        page = await self.reader(read)
        if page is None:
            return
        self._draw_anew(page, page.cursor)

    def on_resize(self) -> None:
        """Give titles the room that there is now."""
        if self.rows:
            self.call_later(self._fit)

    def _fit(self) -> None:
        at = self._table.cursor_row
        self._draw_anew(self.rows, self._cursor)
        self._table.move_cursor(row=at)

    @property
    def _table(self) -> _Table:
        return self.screen_stack[0].query_one(_Table)

    def _draw_anew(self, rows: Sequence[trails.SessionSummary], cursor: str | None) -> None:
        self._table.clear(columns=True)
        self.rows = []
        self._add(rows, cursor)

    @work(exclusive=True, group="more")
    async def more(self, cursor: str, text: str | None) -> None:
        """Read the page after those that are shown."""
        page = await self.reader(lambda: self.reader.store.summaries(text=text, limit=SESSIONS, cursor=cursor))
        if page is not None and cursor == self._cursor:
            self._add(page, page.cursor)

    def _add(self, rows: Sequence[trails.SessionSummary], cursor: str | None) -> None:
        self._cursor, table = cursor, self._table
        room = max(20, self.size.width - 49)
        if not table.columns:
            for name, width in (("", 1), ("title", room), ("turns", 6), ("model", 18), ("active", 10)):
                table.add_column(Text(name, justify="right" if name == "turns" else "left"), key=name, width=width)
        now = datetime.now(UTC)
        for row in rows:
            self.rows.append(row)
            model = ", ".join(row.models) or "-"
            table.add_row(
                Text("*" if row.id in self.marked else " ", style="bold yellow"),
                Text(shorten(row.name, room)),
                Text(f"{row.turns:,}", justify="right"),
                Text(shorten(model, 18), style="dim"),
                Text(ago(row.last_activity, now), style="dim"),
            )

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Read on where the end of the list comes near."""
        if self._cursor is not None and event.cursor_row >= len(self.rows) - _NEAR:
            self.more(self._cursor, self.query_one("#filter", Input).value.strip() or None)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the transcript."""
        row = self.rows[event.cursor_row]
        self.push_screen(TranscriptPage(row.id, row.name))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list to what was typed."""
        if event.input.id == "filter":
            self.action_reload(wait=_DELAY)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on in the list."""
        if event.input.id == "filter":
            self.query_one(_Table).focus()

    def action_filter(self) -> None:
        """Go to the field."""
        self.query_one("#filter", Input).focus()

    def action_clear(self) -> None:
        """Show all sessions again."""
        self.query_one("#filter", Input).value = ""
        self.query_one(_Table).focus()

    # --- two sessions

    def action_mark(self) -> None:
        """Mark the session, or take its mark away; of three, the first loses it."""
        if not self.rows:
            return
        table = self.query_one(_Table)
        session_id = self.rows[table.cursor_row].id
        if session_id in self.marked:
            self.marked.remove(session_id)
        else:
            self.marked = [*self.marked, session_id][-2:]
        for at, row in enumerate(self.rows):
            is_marked = row.id in self.marked
            cell = table.get_cell_at((at, 0))  # type: ignore[arg-type] # a coordinate is a pair
            if (cell.plain == "*") != is_marked:
                table.update_cell_at((at, 0), Text("*" if is_marked else " ", style="bold yellow"))  # type: ignore[arg-type] # as above
        self.notify(f"{len(self.marked)} marked; two can be compared", timeout=2, markup=False)

    def _two(self) -> tuple[str, str] | None:
        if len(self.marked) == 2:
            return self.marked[0], self.marked[1]
        self.notify("mark two sessions first: Space marks the one under the cursor", severity="warning", markup=False)
        return None

    @work(exclusive=True, group="two")
    async def action_diff(self) -> None:
        """Show what differs between the two that are marked."""
        if (two := self._two()) is None:
            return
        found = await self.reader(lambda: self.reader.store.diff(*two))
        if found is not None:
            text = _drawn(lambda console: diff_formats.draw_on(console, found), self.size.width - 4)
            self.push_screen(TextPage(f"{two[0]} and {two[1]}", text))

    @work(exclusive=True, group="two")
    async def action_compare(self) -> None:
        """Show the two that are marked, with their forks, as a table."""
        if (two := self._two()) is None:
            return
        found = await self.reader(lambda: str(self.reader.store.compare(two)))
        if found is not None:
            self.push_screen(TextPage(f"{two[0]} and {two[1]}, with their forks", Text(clean(found), no_wrap=True)))


def _drawn(draw: Callable[[Console], object], width: int) -> Text:
    """Return what is drawn for a terminal of so many columns."""
    out = io.StringIO()
    draw(Console(file=out, width=width, force_terminal=True, color_system="standard", markup=False, highlight=False))
    return Text.from_ansi(out.getvalue())
