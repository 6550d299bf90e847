"""The command line, `trails`: the table of its commands, and the options that all have."""

from __future__ import annotations

from collections.abc import Mapping

import click

import trails
from trails.cli.options import by_option, color_option, keys_option, option, pager_option, store_option
from trails.cli.program import Commands, Place


def _places(names: str) -> dict[str, str]:
    """Return the places of commands by name: MODULE.FUNCTION, with NAME= before it if the function has another name.

    A module stands in `trails.cli.commands`, with a dot before it in `trails.cli`.
    """
    found = {}
    for each in names.split():
        name, _, place = each.rpartition("=")
        name = name or place.rpartition(".")[2].replace("_", "-")
        found[name] = place[1:] if place.startswith(".") else f"commands.{place}"
    return found


_TOPICS: Mapping[str, Mapping[str, Place]] = {
    "Start": _places("""
        .help.demo .help.guide help=.help.help_ store.init import=import_export.import_files recording.watch recording.hook
        sessions.create sessions.append
    """),
    "Look": _places("""
        list=listing.list_sessions show.show log.log search.search compare.diff compare.compare log.tree
        ui.ui tui.tui files=files.list_files show.branches inbox.head show.tail show.replay context=show.show_context show.blame
        bisect=compare.bisect_turns tags=annotations.list_tags refs=refs.list_refs notes=annotations.list_notes
        scores=annotations.list_scores agreement=annotations.show_agreement listing.stats listing.cost
    """),
    "Change": _places("""
        sessions.fork compare.rerun label=annotations.set_label annotations.tag refs.ref note=annotations.write_note
        score=annotations.give_score sessions.cherry_pick sessions.take show.compact sessions.detach
        sessions.flatten sessions.delete
    """),
    "Move": _places("moving.push moving.pull moving.copy moving.mirror"),
    "Ask": _places(
        """
        search.query queries=search.list_queries ontology=audit.print_ontology store.verify audit.validate audit.audit
        store.info serving.mcp serve.serve
        """
    ),
    "Take out": _places("""
        import_export.export prov=import_export.write_prov documents=import_export.list_documents
        checkout=files.check_out .completion.completion
    """),
    "Erase": _places("scan=sessions.find_secrets sessions.redact sessions.erase import_export.delete_document"),
    "Messages": {
        "inbox": {
            "": "Messages to sessions, the exchanges that answer them, and what was delivered.",
            **_places("""
                list=inbox.inbox inbox.receive inbox.process inbox.exchanges inbox.events inbox.retry inbox.fail
                inbox.drop inbox.delivered
            """),
        },
    },
    "Agents": {
        "runs": {
            "": "Runs of sub-agents, and the tree of sessions that spawned others.",
            **_places("list=agents.list_runs show=agents.show_run tree=agents.spawn_tree"),
        },
        "keys": {
            "": "Sessions by key, and what the policies of a configuration mean for them.",
            **_places("list=agents.list_keys agents.policy"),
        },
    },
    "Prove": {
        "proof": {
            "": "Checkpoints, signatures and proofs: what convinces others that nothing was altered.",
            **_places("""
                proofs.checkpoint proofs.cosign proofs.timestamp proofs.sign make=proofs.proof absence=proofs.absence
                receipt=proofs.check_receipt check=store.verify_proof
            """),
        },
    },
    "Answer for": {
        "purpose": {
            "": "What personal data are processed for, and on which legal basis.",
            **_places("set=registers.set_purpose list=registers.list_purposes"),
        },
        "register": {
            "": "What was made of a store and went out of it.",
            **_places("""
                reads=registers.list_reads exports=registers.list_exports backups=registers.list_backups
                destroyed=registers.destroyed_backup
            """),
        },
        "incident": {
            "": "Incidents that an authority is to be told of, and their deadlines.",
            **_places("""
                add=registers.add_incident list=registers.list_incidents close=registers.close_incident
            """),
        },
        "hold": {
            "": "Legal holds: sessions that nothing takes away.",
            **_places("place=holds.place_hold list=holds.list_holds lift=holds.lift_hold"),
        },
        "retention": {
            "": "Standing rules: which sessions go, and when.",
            **_places("add=holds.add_rule list=holds.list_rules end=holds.end_rule apply=holds.apply_rules"),
        },
    },
    "Serve": {
        "token": {
            "": "Tokens with which a server of the store is called.",
            **_places("make=tokens.make_token list=tokens.list_tokens revoke=tokens.revoke_token"),
        },
    },
    "Keep safe": {
        **_places("doctor=store.check_machine config=config.show_config"),
        "store": {
            "": "Upkeep of the store: backups, dumps, upgrades, and room.",
            **_places("""
                store.backup restore=store.restore_backup store.dump load=store.load_dump
                upgrade=store.upgrade_store store.vacuum snapshot=store.make_snapshot discard=moving.discard_copy sessions.prune
                vectors=store.make_vectors grants=database.print_grants clone=database.clone_store
                status=database.show_status
            """),
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
    old.partition("=")[0]: f"{group} {old.rpartition('=')[2]}"
    for group, names in {
        "inbox": "receive process exchanges events retry fail drop delivered",
        "runs": "spawn-tree=tree",
        "keys": "policy",
        "proof": "checkpoint cosign timestamp sign verify-proof=check",
        "store": "backup restore dump load upgrade vacuum prune",
    }.items()
    for old in names.split()
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
@option(
    "--version",
    "Show the version, and those of what it runs on.",
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
)
@store_option(everywhere=True)
@keys_option(everywhere=True)
@by_option
@pager_option
@color_option
def main() -> None:
    """Git for agent sessions, kept as a knowledge graph.

    The store is a folder: --store PATH (before or after the command), else the environment's TRAILS_STORE, else
    ./.trails. It is never created by the way: `trails init` makes one, and so do import and demo with --create.

    SESSION is always an id, an IRI or a label, or the beginning of a generated id; a REF may also be a tag, or end in @
    and a number of turns, or in # and the index of its last turn. SESSION INDEX may be SESSION#INDEX.

    Results go to stdout, everything else to stderr. Exit codes: 0 done; 1 a negative result or a failure; 2 wrong usage or
    input; 130 interrupted. `trails guide` explains all of it, a page a task.
    """
