"""The command line, `trails`: a module for a command or a few near ones, with `base` and `terminal` under all of them."""

from __future__ import annotations

import click

import trails
from trails.cli.base import by_option, pager_option, store_option
from trails.cli.program import Commands, Place

_TOPICS: dict[str, dict[str, Place]] = {
    "Start": {
        "demo": "demo.demo",
        "guide": "guide.guide",
        "help": "help.help_",
        "init": "store.init",
        "import": "import_export.import_files",
        "create": "create.create",
        "append": "create.append",
    },
    "Look": {
        "list": "listing.list_sessions",
        "show": "show.show",
        "log": "log.log",
        "search": "search.search",
        "diff": "diff.command.diff",
        "compare": "compare.compare",
        "tree": "tree.tree",
        "branches": "show.branches",
        "head": "events.head",
        "tail": "tail.tail",
        "replay": "show.replay",
        "context": "context.show_context",
        "blame": "blame.blame",
        "bisect": "bisect.bisect_turns",
        "tags": "tags.list_tags",
        "notes": "notes.list_notes",
        "scores": "scores.list_scores",
        "agreement": "scores.show_agreement",
        "stats": "cost.stats",
        "cost": "cost.cost",
    },
    "Change": {
        "fork": "fork.fork",
        "rerun": "rerun.rerun",
        "label": "tags.set_label",
        "tag": "tags.tag",
        "note": "notes.write_note",
        "score": "scores.give_score",
        "cherry-pick": "cherry_pick.cherry_pick",
        "take": "take.take",
        "compact": "context.compact",
        "detach": "fork.detach",
        "flatten": "fork.flatten",
        "delete": "delete.delete",
    },
    "Move": {
        "push": "moving.push",
        "pull": "moving.pull",
        "copy": "moving.copy",
        "mirror": "mirror.mirror",
    },
    "Ask": {
        "query": "query.query",
        "queries": "query.list_queries",
        "verify": "verify.verify",
        "validate": "validate.validate",
        "audit": "audit.audit",
        "info": "store.info",
    },
    "Take out": {
        "export": "import_export.export",
        "prov": "prov.write_prov",
        "documents": "prov.list_documents",
        "completion": "completion.completion",
    },
    "Erase": {
        "scan": "scan.find_secrets",
        "redact": "redact.redact",
        "delete-document": "prov.delete_document",
    },
    "Messages": {
        "inbox": {
            "": "Messages to sessions, the exchanges that answer them, and what was delivered.",
            "list": "events.inbox",
            "receive": "process.receive",
            "process": "process.process",
            "exchanges": "events.exchanges",
            "events": "events.events",
            "retry": "process.retry",
            "fail": "process.fail",
            "drop": "process.drop",
            "delivered": "process.delivered",
        },
    },
    "Agents": {
        "runs": {
            "": "Runs of sub-agents, and the tree of sessions that spawned others.",
            "list": "runs.list_runs",
            "show": "runs.show_run",
            "tree": "spawn_tree.spawn_tree",
        },
        "keys": {
            "": "Sessions by key, and what the policies of a configuration mean for them.",
            "list": "sessions.list_keys",
            "policy": "sessions.policy",
        },
    },
    "Prove": {
        "proof": {
            "": "Checkpoints, signatures and proofs: what convinces others that nothing was altered.",
            "checkpoint": "checkpoint.checkpoint",
            "cosign": "cosign.cosign",
            "timestamp": "timestamp.timestamp",
            "sign": "sign.sign",
            "make": "checkpoint.proof",
            "check": "verify.verify_proof",
        },
    },
    "Keep safe": {
        "doctor": "store.check_machine",
        "store": {
            "": "Upkeep of the store: backups, dumps, upgrades, and room.",
            "backup": "backup.backup",
            "restore": "backup.restore_backup",
            "dump": "backup.dump",
            "load": "backup.load_dump",
            "upgrade": "store.upgrade_store",
            "vacuum": "store.vacuum",
            "discard": "moving.discard_copy",
            "prune": "delete.prune",
        },
    },
}
"""The commands by topic: the name of each, and the module of `trails.cli` and the name in it that it is made by.

Of a group, the line under "" says what it is for.
"""
_FIRST = (
    *("init", "import", "create", "append"),
    *("list", "show", "log", "search", "fork", "diff", "compare", "query", "verify"),
)
"""What people use most: the first screen."""
_MOVED = {
    "receive": "inbox receive",
    "process": "inbox process",
    "exchanges": "inbox exchanges",
    "events": "inbox events",
    "retry": "inbox retry",
    "fail": "inbox fail",
    "drop": "inbox drop",
    "delivered": "inbox delivered",
    "spawn-tree": "runs tree",
    "sessions": "keys list",
    "policy": "keys policy",
    "checkpoint": "proof checkpoint",
    "cosign": "proof cosign",
    "timestamp": "proof timestamp",
    "sign": "proof sign",
    "verify-proof": "proof check",
    "backup": "store backup",
    "restore": "store restore",
    "dump": "store dump",
    "load": "store load",
    "upgrade": "store upgrade",
    "vacuum": "store vacuum",
    "prune": "store prune",
}
"""What was a command of its own before there were groups; it works on, and says where it went."""


def _print_versions(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print our version, and on a second line those of Python, the engine (which is not loaded for it) and SQLite."""
    if not asked or ctx.resilient_parsing:
        return
    import platform
    import sqlite3
    from importlib import metadata

    click.echo(f"trails {trails.__version__}")
    engine = metadata.version("pyoxigraph")
    click.echo(f"Python {platform.python_version()}, pyoxigraph {engine}, SQLite {sqlite3.sqlite_version}")
    ctx.exit()


@click.group(
    cls=Commands,
    topics=_TOPICS,
    first=_FIRST,
    moved=_MOVED,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the version, and those of what it runs on.",
)
@store_option(everywhere=True)
@by_option
@pager_option
def main() -> None:
    """Git for agent sessions, kept as a knowledge graph.

    The store is a folder: --store PATH (before or after the command), else the environment's TRAILS_STORE, else
    ./.trails. It is never created by the way: `trails init` makes one, and so do import and demo with --create.

    SESSION is always an id, an IRI or a label; a REF may also be a tag, or end in @ and a number of turns. Results go
    to stdout, everything else to stderr. Exit codes: 0 done; 1 a negative result or a failure; 2 wrong usage or input;
    130 interrupted. `trails guide` explains all of it, a page a task.
    """
