"""The command line, `trails`: one module a topic, `base` under all of them, and rich only in `render`."""

from __future__ import annotations

import click

import trails
from trails.cli import (
    backup,
    checkpoint,
    compare,
    completion,
    context,
    create,
    demo,
    import_export,
    ledger,
    log,
    notes,
    process,
    query,
    redact,
    runs,
    scan,
    search,
    sessions,
    show,
    spawn_tree,
    tail,
)
from trails.cli.base import Commands, store_option
from trails.cli.diff import command

_TOPICS = {
    "Start": (demo.demo, create.init, import_export.import_files, create.create, create.append),
    "Look": (
        *(show.list_sessions, show.show, show.tree, show.branches),
        *(command.diff, compare.compare, show.replay, context.show_context),
        *(log.log, search.blame, search.bisect, notes.tags, notes.notes),
    ),
    "Follow": (
        ledger.head,
        ledger.inbox,
        ledger.exchanges,
        ledger.events,
        tail.tail,
        spawn_tree.spawn_tree,
        runs.runs,
    ),
    "Answer": (
        *(process.receive, process.process, process.retry),
        *(process.fail, process.drop, process.delivered),
    ),
    "Route": (sessions.sessions, sessions.policy),
    "Change": (
        *(create.fork, create.set_label, notes.tag, notes.write_note, notes.cherry_pick),
        *(context.compact, create.detach, create.flatten, create.delete),
    ),
    "Ask": (search.search, query.query, query.list_queries, query.verify, query.info),
    "Prove": (checkpoint.checkpoint, checkpoint.proof, checkpoint.verify_proof),
    "Erase": (scan.scan, redact.redact, backup.vacuum, backup.prune),
    "Keep safe": (
        backup.backup,
        backup.restore,
        backup.dump,
        backup.load,
        backup.upgrade,
        backup.doctor,
    ),
    "Take out": (import_export.export, completion.completion),
}


@click.group(cls=Commands, topics=_TOPICS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(trails.__version__, prog_name="trails")
@store_option(everywhere=True)
def main() -> None:
    """Git for agent sessions, kept as a knowledge graph.

    The store is a folder: --store PATH (before or after the command), else the environment's TRAILS_STORE, else
    ./.trails. It is never created by the way: `trails init` makes one, and so do import and demo with --create.

    SESSION is always an id, an IRI or a label; a REF may also be a tag, or end in @ and a number of turns. Results go to
    stdout, everything else to stderr. Exit codes: 0 done; 1 a negative result or a failure; 2 wrong usage or input; 130
    interrupted.
    """
