"""The command line, `trails`: a module for a command or a few near ones, with `base` and `terminal` under all of them."""

from __future__ import annotations

import click

import trails
from trails.cli import (
    audit,
    backup,
    bisect,
    blame,
    checkpoint,
    cherry_pick,
    compare,
    completion,
    context,
    cosign,
    create,
    delete,
    demo,
    events,
    fork,
    guide,
    import_export,
    log,
    notes,
    process,
    prov,
    query,
    redact,
    runs,
    scan,
    search,
    sessions,
    show,
    sign,
    spawn_tree,
    store,
    tags,
    tail,
    timestamp,
    tree,
    validate,
    verify,
)
from trails.cli.base import Commands, by_option, store_option
from trails.cli.diff import command

_TOPICS = {
    "Start": (demo.demo, guide.guide, store.init, import_export.import_files, create.create, create.append),
    "Look": (
        *(show.list_sessions, show.show, tree.tree, show.branches),
        *(command.diff, compare.compare, show.replay, context.show_context),
        *(log.log, blame.blame, bisect.bisect_turns, tags.list_tags, notes.list_notes),
    ),
    "Follow": (
        events.head,
        events.inbox,
        events.exchanges,
        events.events,
        tail.tail,
        spawn_tree.spawn_tree,
        runs.runs,
    ),
    "Answer": (
        *(process.receive, process.process, process.retry),
        *(process.fail, process.drop, process.delivered),
    ),
    "Route": (sessions.list_keys, sessions.policy),
    "Change": (
        *(fork.fork, tags.set_label, tags.tag, notes.write_note, cherry_pick.cherry_pick),
        *(context.compact, fork.detach, fork.flatten, delete.delete),
    ),
    "Ask": (search.search, query.query, query.list_queries, verify.verify, validate.validate, store.info),
    "Prove": (
        *(audit.audit, checkpoint.checkpoint, cosign.cosign, timestamp.timestamp),
        *(sign.sign, checkpoint.proof, verify.verify_proof),
    ),
    "Erase": (scan.find_secrets, redact.redact, prov.delete_document, store.vacuum, delete.prune),
    "Keep safe": (
        *(backup.backup, backup.restore_backup, backup.dump, backup.load_dump),
        *(store.upgrade_store, store.check_machine),
    ),
    "Take out": (import_export.export, prov.write_prov, prov.list_documents, completion.completion),
}


@click.group(cls=Commands, topics=_TOPICS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(trails.__version__, prog_name="trails")
@store_option(everywhere=True)
@by_option
def main() -> None:
    """Git for agent sessions, kept as a knowledge graph.

    The store is a folder: --store PATH (before or after the command), else the environment's TRAILS_STORE, else
    ./.trails. It is never created by the way: `trails init` makes one, and so do import and demo with --create.

    SESSION is always an id, an IRI or a label; a REF may also be a tag, or end in @ and a number of turns. Results go
    to stdout, everything else to stderr. Exit codes: 0 done; 1 a negative result or a failure; 2 wrong usage or input;
    130 interrupted. `trails guide` explains all of it, a page a task.
    """
