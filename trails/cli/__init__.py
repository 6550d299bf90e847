"""The command line, `trails`: one module a topic, `base` under all of them, and rich only in `render`."""

from __future__ import annotations

import click

import trails
from trails.cli import (
    annotating,
    asking,
    changing,
    comparing,
    completion,
    context,
    demo,
    diffing,
    history_log,
    integrity,
    ledger,
    messaging,
    moving,
    reading,
    redacting,
    runs,
    scanning,
    searching,
    sessions,
    spawning,
    tailing,
    upkeep,
)
from trails.cli.base import Commands, store_option

_TOPICS = {
    "Start": (demo.demo, changing.init, moving.import_files, changing.create, changing.append),
    "Look": (
        *(reading.list_sessions, reading.show, reading.tree, reading.branches),
        *(diffing.diff, comparing.compare, reading.replay, context.show_context),
        *(history_log.log, searching.blame, searching.bisect, annotating.tags, annotating.notes),
    ),
    "Follow": (
        ledger.head,
        ledger.inbox,
        ledger.exchanges,
        ledger.events,
        tailing.tail,
        spawning.spawn_tree,
        runs.runs,
    ),
    "Answer": (
        *(messaging.receive, messaging.process, messaging.retry),
        *(messaging.fail, messaging.drop, messaging.delivered),
    ),
    "Route": (sessions.sessions, sessions.policy),
    "Change": (
        *(changing.fork, changing.set_label, annotating.tag, annotating.write_note, annotating.cherry_pick),
        *(context.compact, changing.detach, changing.flatten, changing.delete),
    ),
    "Ask": (searching.search, asking.query, asking.list_queries, asking.verify, asking.info),
    "Prove": (integrity.checkpoint, integrity.proof, integrity.verify_proof),
    "Erase": (scanning.scan, redacting.redact, upkeep.vacuum, upkeep.prune),
    "Keep safe": (upkeep.backup, upkeep.restore, upkeep.dump, upkeep.load, upkeep.upgrade, upkeep.doctor),
    "Take out": (moving.export, completion.completion),
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
