"""The ground under every command: where the store is, how errors end a run, and the shared options.

Only click is imported here, so that `trails --help` stays quick; commands import what they need when they run.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from trails.cli.terminal import one_line, to_json
from trails.errors import InvalidInput, SessionNotFound, TrailsError

if TYPE_CHECKING:
    from trails import Repository
    from trails.plumbing.pages import Page

DEFAULT_STORE: Final = "./.trails"
STORE: Final = "trails.store"
_NAMED: Final = "trails.store.named"
_ACTOR: Final = "trails.actor"
_COMPLETING: Final = "_TRAILS_COMPLETE"
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""As a shell reports a program that SIGINT or SIGPIPE ended."""

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Shown = TypeVar("_Shown")
_Page = TypeVar("_Page", bound="Page[Any]")


class OnDemand(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is asked for: a run needs one of them, and importing all takes as long."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._made: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            module, _, made_by = self._places[name].rpartition(".")
            self._made[name] = getattr(import_module(f"trails.cli.{module}"), made_by)
        return self._made[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places.setdefault(name, "")
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Commands(click.Group):
    """The group of all commands: lists them by topic, and ends every failed run with one line and no traceback.

    Exit codes: 0 success; 1 a negative result (verify found something, nothing to import) or a failure in the store;
    2 wrong usage or input that cannot be accepted, the name of something that is not there included; 130 interrupted;
    141 the reader of the output went away.
    """

    def __init__(self, *args: Any, topics: Mapping[str, Mapping[str, str]], **extra: Any) -> None:
        super().__init__(*args, **extra)
        self._topics = topics
        self.commands = OnDemand({name: place for topic in topics.values() for name, place in topic.items()})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of their topics."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their topics."""
        width = max(map(len, self.list_commands(ctx)))
        for topic, names in self._topics.items():
            rows = [(f"{name:{width}}", self.commands[name].get_short_help_str(limit=100)) for name in names]
            with formatter.section(topic):
                formatter.write_dl(rows)

    def main(  # type: ignore[override] # one signature for click's two overloads
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; with `standalone_mode`, exit the process with its code."""
        if _COMPLETING in os.environ:
            _completion()  # its classes are what the shells' scripts talk to
        run = partial(super().main, args, prog_name, standalone_mode=False, **extra)
        if standalone_mode:
            sys.exit(_exit_code(run))
        return run()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named, and let a reader that went away end it quietly."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _silence_stdout()
            ctx.exit(BROKEN_PIPE)
        return result


def _exit_code(run: Callable[[], Any]) -> int:
    """Run a command line and return its exit code, with one line on stderr where it failed."""
    _make_printable()
    try:
        if sys.stdout is None:  # a shell closes it with `>&-`
            raise TrailsError("stdout is closed, so no answer could be seen; send it to a file or to /dev/null")
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except (click.Abort, click.ClickException, TrailsError, OSError) as error:
        return _failure(error)
    return code if isinstance(code, int) else 0


def _failure(error: Exception) -> int:
    """Say what went wrong and return the exit code for it."""
    code = 1
    match error:
        case click.Abort():
            message, code = "interrupted", INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return error.exit_code
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "trails"
            message, code = f"{error.format_message().rstrip('.')}; see `{path} --help`", error.exit_code
        case click.ClickException():
            message, code = error.format_message(), error.exit_code
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            message = f"{where}{error.strerror or error}; check the path, its permissions and the space on the disk"
        case _:
            message, code = str(error), 2 if isinstance(error, InvalidInput | SessionNotFound) else 1
    with contextlib.suppress(OSError):  # where nobody reads the errors, the exit code still tells
        click.echo(f"error: {one_line(message)}", err=True)
    return code


def _make_printable() -> None:
    """Let a terminal that cannot show a character get an escape instead of ending the run; a closed stderr is none."""
    if sys.stderr is None:  # a shell closes it with `2>&-`
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 # type: ignore[unreachable] # for the whole run
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not _is_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def _is_utf8(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _silence_stdout() -> None:
    """Send what is still buffered nowhere: the interpreter would complain about it on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


# --- the store


def _remember_store(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[STORE] = value
        ctx.meta[_NAMED] = ctx.get_parameter_source(str(parameter.name)) == click.core.ParameterSource.COMMANDLINE


def store_option(*, everywhere: bool = False) -> Callable[[_Command], _Command]:
    """Add `--store PATH`; the one of the whole program (`everywhere`) also reads TRAILS_STORE."""
    return click.option(
        "--store",
        metavar="PATH",
        envvar="TRAILS_STORE" if everywhere else None,
        expose_value=False,
        callback=_remember_store,
        help=f"The folder of the store; default: the environment's TRAILS_STORE, else {DEFAULT_STORE}.",
    )


def _remember_actor(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_ACTOR] = value


def store_location(*, named_only: bool = False) -> str | None:
    """Return where the store is; with `named_only`, None unless the command line itself says so."""
    meta = click.get_current_context().meta
    if named_only and not meta.get(_NAMED):
        return None
    return str(meta.get(STORE, DEFAULT_STORE))


def open_store(*, create: bool = False, reading: bool = False, recorded: bool = False) -> Repository:
    """Open the store that the command line or the environment names; it is created only where `create` says so.

    With `reading` it is only read, also while another process has it open. A command whose reads are kept on record where
    the environment asks for it says so by `recorded`: what it reads then takes the owner, who can write that down.
    """
    import trails
    from trails.opening import open_to_read
    from trails.plumbing import reads

    place = store_location() or ""
    try:
        actor = click.get_current_context().meta.get(_ACTOR)
        if reading and not (recorded and reads.are_recorded()) and place != ":memory:":
            return open_to_read(place, actor=actor)
        return trails.open(place, create=create, actor=actor)
    except trails.InvalidInput as error:
        said = error.message.replace(" (create=True)", "")
        has_create = any(each.name == "create" for each in click.get_current_context().command.params)
        makes = "--create or `trails init` makes one" if has_create else "`trails init` makes one"
        hint = f"--store PATH or TRAILS_STORE names the store, {makes}"
        raise trails.InvalidInput(f"{said} ({hint})") from error


# --- options and arguments that many commands share

EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
IN_OLDER_COPIES: Final = "older backups, dumps and exports still hold it"

tsv_option = click.option(
    "--tsv", "as_tsv", is_flag=True, help="Print tab-separated values, whole, with a line of names."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
by_option = click.option(
    "--by",
    metavar="NAME",
    expose_value=False,
    callback=_remember_actor,
    help="Who does it, or agent:NAME; default: the environment's TRAILS_ACTOR, else unknown.",
)
reason_option = click.option("--reason", metavar="TEXT", help="Why; it is kept.")
meta_option = click.option("--meta", multiple=True, metavar="NAME=VALUE", help="A fact about it; may be given again.")
session_argument = click.argument("session", metavar="SESSION")


class Named(click.types.StringParamType):
    """A text that names something of a kind; a shell offers the names that there are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the names that go on from what was typed."""
        made: list[click.shell_completion.CompletionItem] = _completion().offered(ctx, self.kind, incomplete)
        return made


def _completion() -> Any:
    """Return the module of completion, which stands above this one."""
    return import_module("trails.cli.completion")


_KINDS: Final = {
    **dict.fromkeys(("session", "root", "parent"), "session"),
    **dict.fromkeys(("ref", "left", "right"), "ref"),
    **{name: name for name in ("principal", "agent", "project", "model", "role", "query")},
    **dict.fromkeys(("columns", "group_by", "sort_by", "color_by"), "column"),
}
"""What parameters name, by what they are called in the command's function."""


def command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command that opens a store: its function, with `--store` added last, and the names in it for completion."""

    def wrap(function: Callable[..., Any]) -> click.Command:
        make: Callable[..., click.Command] = click.command(name, **attributes)
        made = make(store_option()(function))
        made.params.sort(key=lambda parameter: parameter.name == "store")
        for each in made.params:
            if each.type is click.STRING and each.name in _KINDS:
                each.type = Named(_KINDS[each.name])
        return made

    return wrap


# --- answers


def page_options(function: _Command) -> _Command:
    """Add `--limit`, `--page` and `--cursor`: which part of a list is shown."""
    function = click.option("--cursor", metavar="TEXT", help="Go on where the page before ended.")(function)
    page = click.option(
        "--page", type=click.IntRange(1, 1000), default=1, metavar="N", help="The Nth page of the list."
    )
    return limit_option()(page(function))


def paged(ask: Callable[[str | None], _Page], page: int, cursor: str | None) -> _Page:
    """Return a page that `ask` gives for a cursor: the one after a cursor, or the Nth from the beginning."""
    if page > 1 and cursor is not None:
        refuse("--page counts from the beginning, and --cursor goes on from elsewhere; give one")
    found = ask(cursor)
    for number in range(1, page):
        if found.cursor is None:
            refuse(f"there is no page {page}: the list ends with page {number}")
        found = ask(found.cursor)
    return found


def answer(
    value: Any,
    shown: _Shown | None,
    draw: Callable[[_Shown], object],
    *,
    as_json: bool,
    empty: str | None = None,
    said: str | None = None,
) -> None:
    """Answer a command on stdout: with a value as JSON where that was asked for, else by drawing what is shown of it.

    In the value, whatever has a `to_dict` may stand as it is: it is called for JSON alone. People who are shown nothing
    are told what `empty` says; `said` is told them in the end, on stderr. What is None is never drawn.
    """
    if as_json:
        print_json(value)
        return
    if empty is not None and not shown:
        note(empty)
    elif shown is not None:
        draw(shown)
    if said is not None:
        note(said)


def echo_each(lines: Iterable[object]) -> None:
    """Print a line each."""
    for line in lines:
        click.echo(line)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout."""
    click.echo(to_json(value, ascii_only=not _is_utf8(sys.stdout)))


def note(message: str) -> None:
    """Tell a person what was done, on stderr: stdout carries only results."""
    click.echo(one_line(message), err=True)


def there_is_more(cursor: str | None, name: str, *arguments: str | None, **options: str | None) -> str | None:
    """Return what to type for the page after this one, or None where this was the last; what was not given is left out.

    >>> there_is_more("c", "list", agent="a b", label=None)
    "there is more: trails list --agent 'a b' --cursor c"
    """
    if cursor is None:
        return None
    words = ["trails", name, *(word for word in arguments if word is not None)]
    for option, value in options.items():
        words += [f"--{option}", value] if value else []
    return f"there is more: {shlex.join([*words, '--cursor', cursor])}"


def refuse(message: str) -> NoReturn:
    """End the command as wrong usage."""
    raise click.UsageError(message, ctx=click.get_current_context())


def end(code: int) -> NoReturn:
    """End the command with an exit code, quietly: what there is to say was said."""
    click.get_current_context().exit(code)


def confirmed(question: str, what: str) -> bool:
    """Ask on a terminal; elsewhere end the command as wrong usage. `what` is what asks, at the start of a sentence."""
    if sys.stdin is None or not sys.stdin.isatty():  # closed by `<&-`
        refuse(f"{what} asks first, and stdin is no terminal; give --yes")
    return click.confirm(question, err=True)


class Number(click.FloatRange):
    """A number within bounds; what is no number (`nan`), or none that could be written (`inf`), is outside of all."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or end the command as wrong usage."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be compared", param, ctx)
        return number


def limit_option(default: int | None = 50, most: int = 1000) -> Callable[[_Command], _Command]:
    """Add `-n N` or `--limit N`: how many lines a list has at most; None for all of them."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, most),
        default=default,
        show_default=default is not None,
        metavar="N",
        help="How many at most.",
    )


def time_option(name: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add an option that takes a moment, as `trails.cli.times` reads it: ISO 8601, a date, or how long ago."""
    return click.option(name, metavar="TIME", callback=_parse_time, help=help_text)


def _parse_time(ctx: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    from trails.cli.times import moment_of

    try:
        return None if value is None else moment_of(value, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def read_stdin() -> str:
    """Return all of stdin, which must be UTF-8, byte for byte."""
    if sys.stdin is None:  # a shell closes it with `<&-`
        refuse("stdin is closed; give the text itself, or send it there")
    return decoded(sys.stdin.buffer.read(), "stdin")


def read_text(file: str) -> str:
    """Return a file's text, which must be UTF-8, or end the command as wrong usage."""
    from trails.files import read_whole

    try:
        return decoded(read_whole(Path(file)), file)
    except (OSError, ValueError) as error:
        refuse(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")


def refuse_in_store(output: Path | None) -> None:
    """End the command as wrong usage where a file would be written among the store's own."""
    location = store_location() or ""
    if output is not None and location != ":memory:" and output.resolve().is_relative_to(Path(location).resolve()):
        refuse(f"{output} lies in the store's own folder, whose files are the store's; name another place")


def one_format(format_: str | None, *, as_json: bool) -> str | None:
    """Return the format that `--format` and `--json` ask for, which may not be two."""
    if as_json and format_ not in (None, "json"):
        refuse(f"--json and --format {format_} are two formats; give one")
    return "json" if as_json else format_


def one_of(as_tsv: bool, as_json: bool) -> None:
    """End the command as wrong usage where two formats are asked for."""
    if as_tsv and as_json:
        refuse("--tsv and --json are two formats; give one")


def decoded(data: bytes, source: str) -> str:
    """Return UTF-8 text, or end the command as wrong usage, naming where the text came from."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(f"{source} is not UTF-8 text ({error.reason} at byte {error.start})")


def pairs(values: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return NAME=VALUE arguments as pairs; the value may hold further equals signs."""
    found = []
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            refuse(f"{option} takes NAME=VALUE, not {value!r}")
        found.append((key, rest))
    return found
