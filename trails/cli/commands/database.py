"""Commands for the operation of a store in PostgreSQL: roles, figures and restored copies."""

from __future__ import annotations

import click

from trails.cli import options as cli
from trails.errors import InvalidInput

_KINDS = ("reader", "auditor", "writer", "redactor", "owner")


@cli.command("grants")
@click.argument("kind", metavar="KIND", type=click.Choice(_KINDS))
@click.argument("role", metavar="ROLE")
@cli.option("--only-this-store", "Hide all other stores of the database from ROLE.")
def print_grants(*, kind: str, role: str, only_this_store: bool) -> None:
    """Print the SQL that gives a role of PostgreSQL its rights.

    KIND is reader, auditor, writer, redactor or owner; ROLE is the role's name. Nothing is changed: pipe what is printed into
    `psql` as the owner of the tables, or as a superuser. It is one transaction. It creates ROLE where it is missing, without a
    password, and takes from it what it had beyond its kind. For an owner, it makes ROLE the owner of the tables.

    With --only-this-store, row-level security shows ROLE the rows of this store alone. Roles that were granted all stores
    keep them.
    """
    from trails.store.postgres.upkeep import grants

    made = grants(_address(), kind, role, only_this_store=only_this_store)
    cli.answer(made, made.statements)


@cli.command("status")
def show_status() -> None:
    """Say how a store in PostgreSQL is doing: lag, queue, size.

    How many commits the log has, which of them this machine's copy and those of other processes lack and for how long, how many
    transactions wait, how old the newest snapshot of an index on this machine is, and which standbys there are. It changes
    nothing, and a standby can be asked. What is wrong is what `trails doctor` finds.
    """
    from trails.store.postgres import status

    found = status.status_of(_address())
    cli.answer(found, status.in_words(found), cli.view.print_grid)


@cli.command("clone")
def clone_store() -> None:
    """Give a restored copy an identity of its own.

    Run it once on a database that was restored from a backup while the original goes on: until then, both use one folder in the
    cache of a machine, and each deletes the other's index. Sessions, log and checkpoints stay as they are. Only the owner may
    run it, and no process may have the copy open.
    """
    from trails.store.postgres.upkeep import clone

    done = clone(_address())
    cli.answer(done, f"{done.location} has the identity {done.identity} now; it was {done.before}")


def _address() -> str:
    """Return the URL of the store; raise `InvalidInput` for a folder."""
    from trails.store.postgres.address import is_address

    place = cli.store_location() or ""
    if not is_address(place):
        raise InvalidInput(
            f"this command is for a store in PostgreSQL, and {place} is none: postgresql://HOST/DB?store=NAME"
        )
    return place
