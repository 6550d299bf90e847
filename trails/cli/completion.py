"""`trails completion`: the shell's own completion script, and what stands in the place of a name that is not whole.

Names of sessions, people and models come from the index beside the store as it is, without the engine: a shell waits for
them. Where it is behind, or there is none yet, the store is read as beside its owner, which takes no lock.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from click import shell_completion as shells

from trails.cli import options as cli

_BASH: Final = Path(__file__).with_name("completion.bash").read_text("utf-8")
"""Bash takes a word apart at colons, which ids have: the program reads the line itself, and what stands before the last
colon is taken off again, since bash leaves it where it is."""
_FIXED: Final = {
    name: tuple(words.split())
    for name, words in {
        "import-format": """
            claude-code pi codex copilot-cli gemini-cli chatgpt swe-agent mini-swe-agent inspect atif langfuse
            langsmith mlflow otel cline goose opencode messages openclaw nquads trig prov ro-crate
        """,
        "export-format": "pi openclaw nquads trig html messages inspect atif agent-trace parquet",
        "role": "user assistant tool system summary",
        "column": """
            session label branch parent fork_index turns own_turns calls calls_without_usage
            input_tokens output_tokens tokens cost
            total_calls_without_usage total_input_tokens total_output_tokens total_tokens total_cost
            tool_calls tools models last_answer
            principal agent state created
        """,
    }.items()
}
"""Names that are written down here too, since what they come from takes longer to import than a shell may wait."""


@cli.command("completion", json=False, store=False)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and names in a shell.

    \b
    bash:  eval "$(trails completion bash)"      in ~/.bashrc
    zsh:   eval "$(trails completion zsh)"       in ~/.zshrc, below compinit
    fish:  trails completion fish | source       in ~/.config/fish/config.fish

    Completed are ids, labels and tags of the store that --store or TRAILS_STORE names, names of people, agents, models and
    projects, of queries, columns, formats and pages.
    """
    made = shells.get_completion_class(shell)
    if made is None:
        cli.refuse(f"there is no completion for {shell}")
    program = click.get_current_context().find_root().command
    click.echo(made(program, {}, "trails", "_TRAILS_COMPLETE").source())


@shells.add_completion_class
class Bash(shells.BashComplete):
    """Bash, also where ids have colons, and in versions before 4.4."""

    name = "bash"
    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Any version will do."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the whole words before the one that is completed, and that one."""
        line = os.environ["COMP_LINE"]
        words = shells.split_arg_string(line)[1:]
        whole = not words or (line[-1:].isspace() and not line.endswith("\\ ") and not _is_open(line))
        return (words, "") if whole else (words[:-1], words[-1])


def _is_open(line: str) -> bool:
    """Tell whether a line ends within quotes."""
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


@shells.add_completion_class
class Fish(shells.FishComplete):
    """Fish, also where names have commas."""

    name = "fish"
    source_template = shells.FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


def offered(context: click.Context, kind: str, incomplete: str) -> list[shells.CompletionItem[str]]:
    """Return the names of a kind that go on from what was typed."""
    if kind in _FIXED:
        before, comma, last = incomplete.rpartition(",")  # the last of several columns
        return _items(f"{before}{comma}{name}" for name in _FIXED[kind] if name.startswith(last))
    if kind == "query":
        from trails.rdf import query_files

        return _items(name for name in query_files.names() if name.startswith(incomplete))
    with suppress(Exception):  # a line that is being typed is no place for an error
        return _items(_stored(Path(context.meta.get(cli.STORE, cli.DEFAULT_STORE)), kind, incomplete))
    return []


def _items(names: Iterable[str]) -> list[shells.CompletionItem[str]]:
    return [shells.CompletionItem(name) for name in names if "\n" not in name]


def _stored(store: Path, kind: str, incomplete: str) -> list[str]:
    """Return names out of the rows of a store."""
    from trails.opening import open_to_read
    from trails.rows.session_lists import names_beginning

    with open_to_read(str(store)) as opened, opened.workspace.rows.reading() as rows:
        return names_beginning(rows, kind, incomplete)
