"""The program as a whole: its commands and their groups, how a run begins and how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from trails.cli import config_file, json_fields
from trails.cli.options import TYPED
from trails.cli.terminal import is_utf8
from trails.display.progress import ANEW
from trails.display.terminal_text import one_line
from trails.errors import InvalidInput, PendingTurnsWarning, SessionNotFound, TrailsError
from trails.suggestions import did_you_mean, synonyms

_EXAMPLES: Final = Path(__file__).with_name("examples.txt")
_COMPLETING: Final = "_TRAILS_COMPLETE"
CONFIGURED: Final = click.core.ParameterSource.DEFAULT_MAP
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""As a shell reports a program that SIGINT or SIGPIPE ended."""

MEANT: Final = {
    written: [word.replace("_", " ") for word in words]
    for written, words in synonyms("""
        grep rg find: search; ls dir sessions session all: list; cat view less more print read get display transcript
        turns messages: show; rm remove del destroy drop: delete; save commit add say write put send insert: append import;
        new new-session create-session: create; start begin setup: init create; branch: branches fork; forks children: branches;
        switch: fork show; merge rebase: take cherry-pick; reset revert rollback undo stash cp duplicate: fork; edit
        amend change modify: fork redact; clone fetch: copy pull; remote sync: push pull mirror; status: info verify;
        history reflog timeline activity: log; fsck check validate-store integrity: verify; gc clean compress optimize:
        store_vacuum; archive: export store_backup; recover: store_restore; sql sparql select ask: query queries; web dashboard
        gui browse browser console open: ui; server api: serve; rename mv move title name: label; bookmark mark pin star: tag;
        comment annotate remark: note; rate grade eval evaluate review: score; price usage spend bill billing: cost stats;
        tokens: stats; count statistics metrics: stats; summarize summarise: compact; follow monitor: tail watch; record
        capture listen: watch hook; load-file ingest: import; download save-as: export; map graph: tree; lineage
        origin who: blame; docs doc manual tutorial man: guide; login auth: token; run resume continue: rerun; prove:
        proof; purge wipe forget anonymize anonymise scrub: erase redact; secrets: scan; evidence pack report: audit;
        schema vocabulary vocab: ontology; last: tail; plot chart: compare; version: --version
    """).items()
}
"""The commands that people mean by the words of other programs; `store_vacuum` is one of a group."""

_OPTIONS_MEANT: Final = {
    f"{'-' if len(written) == 1 else '--'}{written}": [f"--{word}" for word in words]
    for written, words in synonyms("""
        turn turns lines index number: range at up-to; to end stop: up-to until to; from start after: since from;
        before: until; author user who by actor: by author as; max max-count count top first head n: limit; out
        outfile out-file file: output to; type fmt: format; format jq fields columns: json; name title: label; message
        msg text: reason note text; why: reason; yes assume-yes y force f: yes force; recursive cascade: children;
        verbose debug: verbose; v: verbose version; version-number: version; tail lines: limit; all-sessions: all;
        where filter: meta; metric: method scores; database db path repo: store
    """).items()
}
"""The options that people mean by those of other programs."""

Place = str | Mapping[str, str]
"""Where a command is made, as module and name within `trails.cli`; or those of a group, by name."""


@cache
def examples() -> dict[str, list[str]]:
    """Return example command lines by what is typed for a command, the plainest first."""
    blocks = re.findall(r"^(\S.*)\n((?: .*\n)+)", _EXAMPLES.read_text("utf-8"), re.MULTILINE)
    return {name: [line.strip() for line in lines.splitlines()] for name, lines in blocks}


class Group(click.Group):
    """Commands that are imported when they are asked for: a run needs one of them, and importing all takes as long."""

    unknown = "{path} has no command {name!r}{near}; it has: {names}"

    def __init__(self, *args: Any, places: Mapping[str, Place], typed: str = "", **extra: Any) -> None:
        """`places` say by name where the commands are made; the line under "" says what a group is for.

        `typed` is what is typed before the names of its commands.
        """
        super().__init__(*args, **extra)
        self._typed = typed
        self.places = {name: place for name, place in places.items() if name}

    @property
    def meant(self) -> Iterable[str]:
        """What may have been meant by a name that it does not have."""
        return self.places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of its commands, in their order."""
        return list(self.places)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        """Return a command or group by its name; None if there is none."""
        if cmd_name in self.places and cmd_name not in self.commands:
            place = self.places[cmd_name]
            if isinstance(place, str):
                self.commands[cmd_name] = _command_at(place, f"{self._typed}{cmd_name}")
            else:
                self.commands[cmd_name] = Group(
                    cmd_name, places=place, typed=f"{cmd_name} ", help=place[""], no_args_is_help=True
                )
        return self.commands.get(cmd_name)

    def every(self) -> dict[str, click.Command]:
        """Return all commands by what is typed for them, those of groups too: `inbox receive`."""
        found: dict[str, click.Command] = {}
        for name in self.places:
            made = self.get_command(None, name)
            if isinstance(made, Group):
                found |= made.every()
            elif made is not None:
                found[f"{self._typed}{name}"] = made
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; if there is none of that name, say which there are."""
        if args[0] not in self.places and not args[0].startswith("-"):
            near, names = did_you_mean(args[0], self.meant, meant=MEANT), ", ".join(self.places)
            ctx.fail(self.unknown.format(path=ctx.command_path, name=args[0], near=near, names=names))
        name, made, rest = super().resolve_command(ctx, args)
        if made is not None and not isinstance(made, click.Group):
            _with_defaults(ctx, f"{self._typed}{name}", made)
        return name, made, rest


def _with_defaults(ctx: click.Context, path: str, made: click.Command) -> str:
    """Have a command's options begin with what the config file says of them; return the last word of its name."""
    name = path.rpartition(" ")[2]
    config: config_file.ConfigFile | None = ctx.meta.get(config_file.CONFIG)
    if config is not None:
        ctx.default_map = {name: config.defaults(path, made)}
    return name


def _command_at(place: str, path: str) -> click.Command:
    """Return the command that a module makes, with the examples of what is typed for it at the end of its help."""
    module, _, made_by = place.rpartition(".")
    made: click.Command = getattr(import_module(f"trails.cli.{module}"), made_by)
    made.epilog = "\b\nExamples:\n" + "\n".join(f"  {each}" for each in examples()[path])
    return made


class Commands(Group):
    """All commands. Its help shows those that people use most; a failed run ends with one line and no traceback.

    Exit codes: 0 success; 1 a negative result (verify found something, nothing to import) or a failure in the store;
    2 wrong usage or input that cannot be accepted, the name of something that is not there included; 130 interrupted;
    141 the reader of the output went away.
    """

    unknown = "there is no command {name!r}{near}; `trails help` lists all"

    def __init__(
        self,
        *args: Any,
        topics: Mapping[str, Mapping[str, Place]],
        first: Sequence[str],
        moved: Mapping[str, str],
        **extra: Any,
    ) -> None:
        """`first` are the commands that the help shows, `moved` what commands of groups were called before."""
        places = {name: place for topic in topics.values() for name, place in topic.items()}
        super().__init__(*args, places=places, **extra)
        self.topics = topics
        self.first = first
        self._moved = moved

    @property
    def meant(self) -> Iterable[str]:
        """What may have been meant by a name that it does not have: the commands of groups, too, and old names."""
        groups = {name: place for name, place in self.places.items() if isinstance(place, Mapping)}
        inner = (f"{group} {name}" for group, names in groups.items() for name in names if name)
        return [*self.places, *self._moved, *inner, "--version"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what was typed (it is said what to type for the next page of a list), and what the config file sets."""
        ctx.meta[TYPED] = list(args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:  # a line that is being completed is no place for an error
            config_file.apply(config_file.read(self.places, self._moved), ctx.meta)
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or the one that an alias stands for; an old name is said to be one, and works on."""
        config: config_file.ConfigFile | None = ctx.meta.get(config_file.CONFIG)
        args = args if config is None else config.expanded(args)
        if (now := self._moved.get(args[0])) is None:
            return super().resolve_command(ctx, args)
        click.echo(f"note: `trails {args[0]}` is now `trails {now}`", err=True)
        made = self.every()[now]
        return _with_defaults(ctx, now, made), made, args[1:]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first screen: what people use most, and where the rest is."""
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS] [ARGS]...")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text((self.help or "").partition("\n")[0])
        formatter.write_paragraph()
        with formatter.indentation():
            _list(formatter, {name: made for name in self.first if (made := self.get_command(ctx, name))})
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
        except (click.UsageError, SessionNotFound) as error:
            hint = json_fields.hint(ctx.meta[TYPED])
            if hint and isinstance(error, click.UsageError):
                raise click.UsageError(f"{error.format_message().rstrip('.')}{hint}", error.ctx) from error
            if hint:
                raise SessionNotFound(f"{error}{hint}") from error
            raise
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
            message, code = f"{_wrong_usage(error)}; see `{path} --help`", error.exit_code
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


def _wrong_usage(error: click.UsageError) -> str:
    """Return what is wrong with a command line, with what was probably meant or how a right one looks."""
    said, context = error.format_message().rstrip("."), error.ctx
    if context is None:
        return said
    if isinstance(error, click.NoSuchOption):
        options = [name for each in context.command.params for name in each.opts if name.startswith("--")]
        if context.parent is None and error.option_name.removeprefix("--") in ("json", "limit", "all", "force"):
            return f"No such option {error.option_name!r} before a command: it goes after its name"
        near = did_you_mean(error.option_name, ["--version", *options], most=2, cutoff=0.7, meant=_OPTIONS_MEANT)
        return f"No such option {error.option_name!r}{near}"
    shown = " or ".join(f"`{each.strip()}`" for each in (context.command.epilog or "").splitlines()[2:4])
    if (
        isinstance(error, click.BadParameter)
        and error.param is not None
        and context.get_parameter_source(error.param.name or "") == CONFIGURED
    ):
        return f"{context.meta[config_file.CONFIG].path}: {said}"
    is_of_arguments = isinstance(error, click.MissingParameter) or said.startswith("Got unexpected extra")
    return f"{said}; it is used as {shown}" if shown and is_of_arguments else said


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
