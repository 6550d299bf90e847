"""Man pages of all commands, in the macros of man(7), made from what `--help` says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

import trails
from trails.cli.examples import EXAMPLES
from trails.cli.program import Commands, Group

_SECTION: Final = "1"


def write_pages(program: Commands, folder: Path) -> int:
    """Write `trails.1`, one page for each group and one for each command into a folder; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    root = click.Context(program, info_name="trails")
    pages = {"trails": _program_page(program, root)}
    for path, made in program.every().items():
        pages[f"trails-{path.replace(' ', '-')}"] = command_page(path, made, root)
    for name, made in program.commands.items():
        if isinstance(made, Group):
            pages[f"trails-{name}"] = _group_page(name, made)
    for name, text in pages.items():
        (folder / f"{name}.{_SECTION}").write_text(text, encoding="utf-8")
    return len(pages)


def command_page(path: str, command: click.Command, root: click.Context) -> str:
    """Return the page of one command; `path` is what is typed for it after `trails`."""
    context = click.Context(command, info_name=path, parent=root)
    usage = " ".join(command.collect_usage_pieces(context))
    options = [each for parameter in command.params if (each := parameter.get_help_record(context))]
    return "\n".join(
        [
            *_title(f"trails-{path.replace(' ', '-')}", command.get_short_help_str(1000)),
            ".SH SYNOPSIS",
            rf"\fBtrails {_text(path)}\fR {_text(usage)}",
            ".SH DESCRIPTION",
            *_paragraphs(command.help or ""),
            ".SH OPTIONS",
            *(line for names, says in options for line in (".TP", rf"\fB{_text(names)}\fR", _text(says))),
            ".SH EXAMPLES",
            *_verbatim(EXAMPLES[path]),
            *_see_also(),
            "",
        ]
    )


def _program_page(program: Commands, root: click.Context) -> str:
    options = [each for parameter in program.get_params(root) if (each := parameter.get_help_record(root))]
    lines = [
        *_title("trails", (program.help or "").partition("\n")[0]),
        ".SH SYNOPSIS",
        r"\fBtrails\fR [OPTIONS] COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        *_paragraphs((program.help or "").partition("\n")[2]),
        ".SH OPTIONS",
        *(line for names, says in options for line in (".TP", rf"\fB{_text(names)}\fR", _text(says))),
        ".SH COMMANDS",
    ]
    for path, made in program.every().items():
        lines += [".TP", rf"\fB{_text(path)}\fR", _text(made.get_short_help_str(1000))]
    return "\n".join([*lines, ""])


def _group_page(name: str, group: Group) -> str:
    lines = [
        *_title(f"trails-{name}", group.get_short_help_str(1000)),
        ".SH SYNOPSIS",
        rf"\fBtrails {_text(name)}\fR COMMAND [ARGS]...",
        ".SH COMMANDS",
    ]
    for each, made in group.commands.items():
        lines += [".TP", rf"\fB{_text(each)}\fR", _text(made.get_short_help_str(1000))]
    return "\n".join([*lines, *_see_also(), ""])


def _title(name: str, says: str) -> list[str]:
    heading = f'.TH "{name.upper()}" "{_SECTION}" "" "trails {trails.__version__}" "Trails"'
    return [heading, ".SH NAME", rf"{_text(name)} \- {_text(says.rstrip('.'))}"]


def _paragraphs(text: str) -> list[str]:
    """Return a help text's paragraphs; one that opens with `\\b` keeps its lines."""
    lines: list[str] = []
    for paragraph in filter(None, (each.strip("\n") for each in re.split(r"\n\s*\n", text.strip()))):
        kept = paragraph.lstrip().startswith("\b")
        lines += _verbatim(paragraph.replace("\b", "").strip("\n").splitlines()) if kept else [".PP", _text(paragraph)]
    return lines


def _verbatim(lines: tuple[str, ...] | list[str]) -> list[str]:
    return [".PP", ".nf", *map(_text, lines), ".fi"]


def _see_also() -> list[str]:
    return [".SH SEE ALSO", r"\fBtrails\fR(1), \fBtrails-help\fR(1), \fBtrails-guide\fR(1)"]


def _text(text: str) -> str:
    r"""Return text that no formatter takes for a request: one line where it was several, `\`, `-` and a first dot escaped."""
    plain = text if "\n" not in text else " ".join(text.split())
    escaped = plain.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
