"""The await forms of a store's facets: tags, notes, upkeep, proofs."""

from __future__ import annotations

from trails.aio.workers import Twin, in_thread
from trails.session.annotations import Notes, Tags
from trails.session.maintenance import Maintenance
from trails.session.proofs import Proofs


class AsyncTags(Twin[Tags]):
    """The tags of a store: names for a session at an index."""

    add = in_thread(Tags.add)
    find = in_thread(Tags.find)
    get = in_thread(Tags.get)
    list = in_thread(Tags.list)
    remove = in_thread(Tags.remove)


class AsyncNotes(Twin[Notes]):
    """The notes on turns."""

    add = in_thread(Notes.add)
    find = in_thread(Notes.find)
    get = in_thread(Notes.get)
    list = in_thread(Notes.list)
    remove = in_thread(Notes.remove)


class AsyncMaintenance(Twin[Maintenance]):
    """The upkeep of a store: vacuum, backup, dump."""

    vacuum = in_thread(Maintenance.vacuum, apart=True)
    backup = in_thread(Maintenance.backup, apart=True)
    dump = in_thread(Maintenance.dump, apart=True)


class AsyncProofs(Twin[Proofs]):
    """What can be proved of a store: verifying it, checkpoints, proofs for others."""

    verify = in_thread(Proofs.verify, leave=True)
    checkpoint = in_thread(Proofs.checkpoint)
    turn = in_thread(Proofs.turn)
    growth = in_thread(Proofs.growth)
