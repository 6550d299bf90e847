"""The command line, `trails`: a module for a command or a few near ones, with `base` and `terminal` under all of them."""

from __future__ import annotations

import click

import trails
from trails.cli.base import Commands, by_option, store_option

_TOPICS = {
    "Start": {
        "demo": "demo.demo",
        "guide": "guide.guide",
        "init": "store.init",
        "import": "import_export.import_files",
        "create": "create.create",
        "append": "create.append",
    },
    "Look": {
        "list": "listing.list_sessions",
        "show": "show.show",
        "tree": "tree.tree",
        "branches": "show.branches",
        "diff": "diff.command.diff",
        "compare": "compare.compare",
        "replay": "show.replay",
        "context": "context.show_context",
        "log": "log.log",
        "blame": "blame.blame",
        "bisect": "bisect.bisect_turns",
        "tags": "tags.list_tags",
        "notes": "notes.list_notes",
    },
    "Follow": {
        "head": "events.head",
        "inbox": "events.inbox",
        "exchanges": "events.exchanges",
        "events": "events.events",
        "tail": "tail.tail",
        "spawn-tree": "spawn_tree.spawn_tree",
        "runs": "runs.runs",
    },
    "Answer": {
        "receive": "process.receive",
        "process": "process.process",
        "retry": "process.retry",
        "fail": "process.fail",
        "drop": "process.drop",
        "delivered": "process.delivered",
    },
    "Route": {
        "sessions": "sessions.list_keys",
        "policy": "sessions.policy",
    },
    "Change": {
        "fork": "fork.fork",
        "label": "tags.set_label",
        "tag": "tags.tag",
        "note": "notes.write_note",
        "cherry-pick": "cherry_pick.cherry_pick",
        "compact": "context.compact",
        "detach": "fork.detach",
        "flatten": "fork.flatten",
        "delete": "delete.delete",
    },
    "Ask": {
        "search": "search.search",
        "query": "query.query",
        "queries": "query.list_queries",
        "verify": "verify.verify",
        "validate": "validate.validate",
        "stats": "cost.stats",
        "cost": "cost.cost",
        "info": "store.info",
    },
    "Prove": {
        "audit": "audit.audit",
        "checkpoint": "checkpoint.checkpoint",
        "cosign": "cosign.cosign",
        "timestamp": "timestamp.timestamp",
        "sign": "sign.sign",
        "proof": "checkpoint.proof",
        "verify-proof": "verify.verify_proof",
    },
    "Erase": {
        "scan": "scan.find_secrets",
        "redact": "redact.redact",
        "delete-document": "prov.delete_document",
        "vacuum": "store.vacuum",
        "prune": "delete.prune",
    },
    "Keep safe": {
        "backup": "backup.backup",
        "restore": "backup.restore_backup",
        "dump": "backup.dump",
        "load": "backup.load_dump",
        "upgrade": "store.upgrade_store",
        "doctor": "store.check_machine",
    },
    "Take out": {
        "export": "import_export.export",
        "prov": "prov.write_prov",
        "documents": "prov.list_documents",
        "completion": "completion.completion",
    },
}
"""The commands by topic: the name of each, and the module of `trails.cli` and the name in it that it is made by."""


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
