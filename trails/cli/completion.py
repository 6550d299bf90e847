"""`trails completion`: the shell's own completion script."""

from __future__ import annotations

import click

from trails.cli.base import refuse


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands in a shell.

    \b
    bash:  eval "$(trails completion bash)"      in ~/.bashrc
    zsh:   eval "$(trails completion zsh)"       in ~/.zshrc
    fish:  trails completion fish | source       in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    if made is None:
        refuse(f"there is no completion for {shell}")
    program = click.get_current_context().find_root().command
    click.echo(made(program, {}, "trails", "_TRAILS_COMPLETE").source())
