"""The command `help`: all commands, one of them, or the manual's pages."""

from __future__ import annotations

from pathlib import Path

import click

from trails.cli.base import note, refuse, through_pager
from trails.cli.program import Commands, Group


def _commands(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of commands that go on from what was typed, within the group that was named before."""
    found: click.Command | None = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        found = found.commands.get(word) if isinstance(found, click.Group) else None
    return [name for name in found.commands if name.startswith(incomplete)] if isinstance(found, click.Group) else []


@click.command("help")
@click.argument("words", metavar="[COMMAND]", nargs=-1, shell_complete=_commands)
@click.option("--man", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Write man pages there.")
@through_pager
def help_(words: tuple[str, ...], man: Path | None) -> None:
    """Explain a command, or list all of them.

    With --man, a page for each command is written into DIR/man1: `trails help --man ~/.local/share/man`, then
    `man trails-fork`.
    """
    context = click.get_current_context().find_root()
    program = context.command
    assert isinstance(program, Commands)  # noqa: S101 - there is one program
    if man is not None:
        from trails.cli.manual import write_pages

        written = write_pages(program, man / "man1")
        note(f"wrote {written} pages into {man / 'man1'}")
        return
    if not words:
        formatter = context.make_formatter()
        program.format_everything(context, formatter)
        click.echo(formatter.getvalue().rstrip())
        return
    command: click.Command = program
    inner = context
    for word in words:
        if not isinstance(command, click.Group):
            refuse(f"`{inner.command_path}` is no group: it has no command {word!r}")
        name, found, _ = command.resolve_command(inner, [word])
        assert found is not None  # noqa: S101 - what is not found raises
        parent = context if isinstance(command, Group) or command is program else inner
        inner = click.Context(found, info_name=name, parent=parent if command is program else inner)
        command = found
    click.echo(command.get_help(inner))
