"""The command line, `trails`: a module for a command or a few near ones, with `base` and `terminal` under all of them."""

from __future__ import annotations

import click

import trails
from trails.cli.options import by_option, pager_option, store_option
from trails.cli.program import Commands, Place

_TOPICS: dict[str, dict[str, Place]] = {
    "Start": {
        "demo": "help.demo",
        "guide": "help.guide",
        "help": "help.help_",
        "init": "commands.store.init",
        "import": "commands.import_export.import_files",
        "create": "commands.sessions.create",
        "append": "commands.sessions.append",
    },
    "Look": {
        "list": "commands.listing.list_sessions",
        "show": "commands.show.show",
        "log": "commands.log.log",
        "search": "commands.search.search",
        "diff": "commands.compare.diff",
        "compare": "commands.compare.compare",
        "tree": "commands.log.tree",
        "branches": "commands.show.branches",
        "head": "commands.inbox.head",
        "tail": "commands.show.tail",
        "replay": "commands.show.replay",
        "context": "commands.show.show_context",
        "blame": "commands.show.blame",
        "bisect": "commands.compare.bisect_turns",
        "tags": "commands.annotations.list_tags",
        "notes": "commands.annotations.list_notes",
        "scores": "commands.annotations.list_scores",
        "agreement": "commands.annotations.show_agreement",
        "stats": "commands.listing.stats",
        "cost": "commands.listing.cost",
    },
    "Change": {
        "fork": "commands.sessions.fork",
        "rerun": "commands.compare.rerun",
        "label": "commands.annotations.set_label",
        "tag": "commands.annotations.tag",
        "note": "commands.annotations.write_note",
        "score": "commands.annotations.give_score",
        "cherry-pick": "commands.sessions.cherry_pick",
        "take": "commands.sessions.take",
        "compact": "commands.show.compact",
        "detach": "commands.sessions.detach",
        "flatten": "commands.sessions.flatten",
        "delete": "commands.sessions.delete",
    },
    "Move": {
        "push": "commands.moving.push",
        "pull": "commands.moving.pull",
        "copy": "commands.moving.copy",
        "mirror": "commands.moving.mirror",
    },
    "Ask": {
        "query": "commands.search.query",
        "queries": "commands.search.list_queries",
        "verify": "commands.store.verify",
        "validate": "commands.audit.validate",
        "audit": "commands.audit.audit",
        "info": "commands.store.info",
    },
    "Take out": {
        "export": "commands.import_export.export",
        "prov": "commands.import_export.write_prov",
        "documents": "commands.import_export.list_documents",
        "completion": "completion.completion",
    },
    "Erase": {
        "scan": "commands.sessions.find_secrets",
        "redact": "commands.sessions.redact",
        "delete-document": "commands.import_export.delete_document",
    },
    "Messages": {
        "inbox": {
            "": "Messages to sessions, the exchanges that answer them, and what was delivered.",
            "list": "commands.inbox.inbox",
            "receive": "commands.inbox.receive",
            "process": "commands.inbox.process",
            "exchanges": "commands.inbox.exchanges",
            "events": "commands.inbox.events",
            "retry": "commands.inbox.retry",
            "fail": "commands.inbox.fail",
            "drop": "commands.inbox.drop",
            "delivered": "commands.inbox.delivered",
        },
    },
    "Agents": {
        "runs": {
            "": "Runs of sub-agents, and the tree of sessions that spawned others.",
            "list": "commands.agents.list_runs",
            "show": "commands.agents.show_run",
            "tree": "commands.agents.spawn_tree",
        },
        "keys": {
            "": "Sessions by key, and what the policies of a configuration mean for them.",
            "list": "commands.agents.list_keys",
            "policy": "commands.agents.policy",
        },
    },
    "Prove": {
        "proof": {
            "": "Checkpoints, signatures and proofs: what convinces others that nothing was altered.",
            "checkpoint": "commands.proofs.checkpoint",
            "cosign": "commands.proofs.cosign",
            "timestamp": "commands.proofs.timestamp",
            "sign": "commands.proofs.sign",
            "make": "commands.proofs.proof",
            "check": "commands.store.verify_proof",
        },
    },
    "Keep safe": {
        "doctor": "commands.store.check_machine",
        "store": {
            "": "Upkeep of the store: backups, dumps, upgrades, and room.",
            "backup": "commands.store.backup",
            "restore": "commands.store.restore_backup",
            "dump": "commands.store.dump",
            "load": "commands.store.load_dump",
            "upgrade": "commands.store.upgrade_store",
            "vacuum": "commands.store.vacuum",
            "discard": "commands.moving.discard_copy",
            "prune": "commands.sessions.prune",
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
