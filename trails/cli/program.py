"""The program as a whole: its commands and their groups, how a run begins and how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from trails.cli.terminal import is_utf8
from trails.display.progress import ANEW
from trails.display.terminal_text import one_line
from trails.errors import InvalidInput, PendingTurnsWarning, SessionNotFound, TrailsError
from trails.suggestions import did_you_mean

_EXAMPLES: Final = Path(__file__).with_name("examples.txt")
_COMPLETING: Final = "_TRAILS_COMPLETE"
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""As a shell reports a program that SIGINT or SIGPIPE ended."""

Place = str | Mapping[str, str]
"""Where a command is made, as module and name within `trails.cli`; or those of a group, by name."""


class OnDemand(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is asked for: a run needs one of them, and importing all takes as long."""

    def __init__(self, places: Mapping[str, Place], group: str = "") -> None:
        self._places = dict(places)
        self._group = group
        self._made: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            place = self._places[name]
            path = f"{self._group} {name}".strip()
            self._made[name] = Group(name, place) if isinstance(place, Mapping) else _made_at(place, path)
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


def _made_at(place: str, path: str) -> click.Command:
    """Return the command that a module makes, with the examples of what is typed for it at the end of its help."""
    module, _, made_by = place.rpartition(".")
    made = getattr(import_module(f"trails.cli.{module}"), made_by)
    assert isinstance(made, click.Command)  # noqa: S101 - the table of commands is our own
    made.epilog = "\b\nExamples:\n" + "\n".join(f"  {each}" for each in examples()[path])
    return made


@cache
def examples() -> dict[str, list[str]]:
    """Return example command lines by what is typed for a command, the plainest first."""
    blocks = re.findall(r"^(\S.*)\n((?: .*\n)+)", _EXAMPLES.read_text("utf-8"), re.MULTILINE)
    return {name: [line.strip() for line in lines.splitlines()] for name, lines in blocks}


class Group(click.Group):
    """Commands on one subject, `trails inbox receive`; the line under `help` says what the subject is."""

    def __init__(self, name: str, places: Mapping[str, str]) -> None:
        about = {each: place for each, place in places.items() if each}
        super().__init__(name, help=places[""], no_args_is_help=True)
        self.commands = OnDemand(about, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of its commands, in their order."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; where there is none of that name, say which there are."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            near = did_you_mean(args[0], self.commands)
            ctx.fail(f"{ctx.command_path} has no command {args[0]!r}{near}; it has: {', '.join(self.commands)}")
        return super().resolve_command(ctx, args)


class Commands(click.Group):
    """All commands. Its help shows those that people use most; a failed run ends with one line and no traceback.

    Exit codes: 0 success; 1 a negative result (verify found something, nothing to import) or a failure in the store;
    2 wrong usage or input that cannot be accepted, the name of something that is not there included; 130 interrupted;
    141 the reader of the output went away.
    """

    def __init__(
        self,
        *args: Any,
        topics: Mapping[str, Mapping[str, Place]],
        first: Sequence[str],
        moved: Mapping[str, str],
        **extra: Any,
    ) -> None:
        """`first` are the commands that the help shows, `moved` what commands of groups were called before."""
        super().__init__(*args, **extra)
        self.topics = topics
        self.first = first
        self._moved = moved
        self.commands = OnDemand({name: place for topic in topics.values() for name, place in topic.items()})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands and groups, in the order of their topics."""
        return list(self.commands)

    def every(self) -> dict[str, click.Command]:
        """Return all commands by what is typed for them, those of groups too: `inbox receive`."""
        found: dict[str, click.Command] = {}
        for name, made in self.commands.items():
            inner = (
                {f"{name} {each}": within for each, within in made.commands.items()} if isinstance(made, Group) else {}
            )
            found |= inner or {name: made}
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an old name is said to be one, and works on."""
        now = self._moved.get(args[0])
        if now is not None:
            group, _, name = now.partition(" ")
            click.echo(f"note: `trails {args[0]}` is now `trails {now}`", err=True)
            inner = self.commands[group]
            assert isinstance(inner, Group)  # noqa: S101 - the table of old names is our own
            return name, inner.commands[name], args[1:]
        if args[0] not in self.commands and not args[0].startswith("-"):
            near = did_you_mean(args[0], self.commands)
            ctx.fail(f"there is no command {args[0]!r}{near}; `trails help` lists all")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first screen: what people use most, and where the rest is."""
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS] [ARGS]...")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").partition("\n")[0])
        formatter.write_paragraph()
        with formatter.indentation():
            _list(formatter, {name: self.commands[name] for name in self.first})
        groups = ", ".join(
            name for topic in self.topics.values() for name, place in topic.items() if not isinstance(place, str)
        )
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(
                f"Groups: {groups}. `trails help` lists everything, `trails help COMMAND` explains one, "
                "`trails guide` has a page a task. --store PATH says where the store is."
            )

    def format_everything(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what all commands have in common, and all of them by topic."""
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their topics, a group with those in it."""
        width = max(map(len, self.every()))
        for topic, names in self.topics.items():
            with formatter.section(topic):
                inner = {each: made for each, made in self.every().items() if each.partition(" ")[0] in names}
                _list(formatter, inner, width)

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
            import_module("trails.cli.completion")  # its classes are what the shells' scripts talk to
        run = partial(super().main, args, prog_name, standalone_mode=False, **extra)
        if standalone_mode:
            ANEW.set(True)
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


def _list(formatter: click.HelpFormatter, commands: Mapping[str, click.Command], width: int = 0) -> None:
    """Write a line for each command."""
    width = width or max(map(len, commands))
    formatter.write_dl([(f"{name:{width}}", made.get_short_help_str(limit=100)) for name, made in commands.items()])


def _exit_code(run: Callable[[], Any]) -> int:
    """Run a command line and return its exit code, with one line on stderr where it failed."""
    _make_printable()
    try:
        if sys.stdout is None:  # a shell closes it with `>&-`
            raise TrailsError("stdout is closed, so no answer could be seen; send it to a file or to /dev/null")
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", PendingTurnsWarning
            )  # it is for who writes Python; here the error says it all
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
        if hasattr(stream, "reconfigure") and not is_utf8(stream):
            stream.reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Send what is still buffered nowhere: the interpreter would complain about it on exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
