"""What was done to sessions, by whom and when, frozen, and between it and quads of the catalog. Pure.

An act belongs to the session that it was done to, and is logged with that one's row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails import iris
from trails import vocab as v
from trails.decoding import decodes
from trails.errors import IntegrityError
from trails.model import Value
from trails.records.deeds import author_type
from trails.records.schema import IRI, NUMBER, SESSION, TEXT, TEXTS, TIME, Codec, Field, Node, Table

_SESSIONS: Final = Codec(lambda session_id: NamedNode(iris.session(session_id)), iris.session_id, order=str)
_IRIS: Final = Codec(NamedNode, order=str)


MOVED: Final = frozenset({"push", "pull"})
"""What stands in the place of a format where a session came from another store of Trails."""
EXACT: Final = frozenset({"nquads", "trig"}) | MOVED
"""The formats in which the very sessions come in that were exported, and not what another system tells of them."""


class Act(Value):
    """Something that was done to a session: `token` tells it from the others."""

    session_id: str
    token: str
    by_iri: str
    time: datetime

    @property
    def iri(self) -> str:
        """The act's IRI."""
        return iris.act(iris.session(self.session_id), self.token)


class Copying(Act):
    """Turns of other sessions, or those that a fork inherited, came to stand in a session of its own."""

    action: str
    """`detach`, `flatten` or `cherry-pick`; `rerun` where a rerun played them; `push` or `pull` where another store's tail became
    a fork."""
    used: tuple[str, ...] = ()
    """The ids of the sessions whose turns were copied, in order."""
    was_fork_of: str | None = None
    """The id of the session that a detached one was a fork of until then."""
    was_forked_at: int | None = None
    """At which index."""


class Alteration(Act):
    """Something that is said of a session became something else: its label, or a field of its entry (as JSON text)."""

    field: str
    old: str | None = None
    new: str | None = None


class Reading(Act):
    """What a session holds was read whole, as far as it went then, and given out: exported, or audited."""

    action: str
    """`export` or `audit`."""
    used: tuple[str, ...] = ()
    """The ids of the sessions that were read: itself, and those that it inherits turns from."""
    read_from: int | None = None
    """The index of the first turn that was read, 0; None where there was none."""
    read_through: int | None = None
    """The index of the last one, inclusive."""


class Rerunning(Act):
    """An agent ran again over the record of a session, and the fork that this was done to is what came of it."""

    started: datetime
    used: tuple[str, ...]
    """The id of the session whose record was played."""
    outcome: str
    """`finished`, `stopped` (by something that was not recorded) or `failed` (by an error of the agent)."""
    agreed: int
    """How many turns of the record the run said again: the fork shares them."""
    left_at: int | None = None
    """The index of the first turn of the record that the run did not say; None where it said all."""
    played: int = 0
    """How many answers of models and tools were the record's."""
    live: int = 0
    """How many were called for."""


class Import(Act):
    """A session, or more of one, came in from a file: `token` counts the imports of the session, from 1, unless `is_exact`."""

    started: datetime
    importer: str
    """The format by which it was read."""
    version: str
    """The version of Trails that read it."""
    refused_lines: int = 0
    """How many lines of what was read with it could not be used."""
    files: tuple[str, ...] = ()
    """The IRIs of the files that it came from, in order."""
    read_as: tuple[str, ...] = ()
    """The names of those files that were read before under another name."""
    origin: str | None = None
    """Where the session stands in the log of the store that it was pushed or pulled from, as JSON: `trails.moving.origins`
    reads it."""

    @property
    def iri(self) -> str:
        """The import's IRI."""
        session_iri = iris.session(self.session_id)
        return iris.act(session_iri, self.token) if self.is_exact else iris.session_import(session_iri, int(self.token))

    @property
    def is_exact(self) -> bool:
        """Whether the very session came in that was exported: that it did is this store's affair, and in no export."""
        return self.importer in EXACT


class SourceFile(Value):
    """A file that a session came from: what its bytes are, and what it was called when they were read first."""

    sha256: str
    """The digest of its bytes, in hex."""
    size: int
    """How many there are."""
    name: str | None = None
    """None for what has no name, as standard input."""

    @property
    def iri(self) -> str:
        """The file's IRI, by its bytes."""
        return iris.source_file(self.sha256)


_BY: Final = (
    Field("session_id", v.DONE_TO, SESSION, required=True),
    Field("by_iri", v.ASSOCIATED_WITH, IRI, required=True),
    Field("time", v.ENDED_AT, TIME, required=True),
)
_TABLES: Final[Mapping[type[Act], Table]] = {
    Copying: Table(
        (v.COPYING, v.ACTIVITY),
        (
            *_BY,
            Field("action", v.ACTION, TEXT, required=True),
            Field("used", v.USED, _SESSIONS),
            Field("was_fork_of", v.WAS_FORK_OF, SESSION),
            Field("was_forked_at", v.WAS_FORKED_AT, NUMBER),
        ),
    ),
    Alteration: Table(
        (v.ALTERATION, v.ACTIVITY),
        (
            *_BY,
            Field("field", v.ALTERED_FIELD, TEXT, required=True),
            Field("old", v.OLD_VALUE, TEXT),
            Field("new", v.NEW_VALUE, TEXT),
        ),
    ),
    Reading: Table(
        (v.READING, v.ACTIVITY),
        (
            *_BY,
            Field("action", v.ACTION, TEXT, required=True),
            Field("used", v.USED, _SESSIONS),
            Field("read_from", v.READ_FROM, NUMBER),
            Field("read_through", v.READ_THROUGH, NUMBER),
        ),
    ),
    Rerunning: Table(
        (v.RERUNNING, v.ACTIVITY),
        (
            *_BY,
            Field("started", v.STARTED_AT, TIME, required=True),
            Field("used", v.USED, _SESSIONS, required=True),
            Field("outcome", v.RERUN_OUTCOME, TEXT, required=True),
            Field("agreed", v.AGREED_TURNS, NUMBER, required=True),
            Field("left_at", v.LEFT_RECORD_AT, NUMBER),
            Field("played", v.PLAYED_ANSWERS, NUMBER, required=True),
            Field("live", v.LIVE_ANSWERS, NUMBER, required=True),
        ),
    ),
    Import: Table(
        (v.IMPORT, v.ACTIVITY),
        (
            *_BY,
            Field("started", v.STARTED_AT, TIME, required=True),
            Field("importer", v.IMPORTER, TEXT, required=True),
            Field("version", v.IMPORTER_VERSION, TEXT, required=True),
            Field("refused_lines", v.REFUSED_LINES, NUMBER, required=True),
            Field("files", v.USED, _IRIS),
            Field("read_as", v.FILE_NAME, TEXTS),
            Field("origin", v.ORIGIN, TEXT),
        ),
    ),
}
_FILES: Final = Table(
    (v.SOURCE_FILE, v.ENTITY),
    (
        Field("sha256", v.SHA256, TEXT, required=True),
        Field("size", v.FILE_SIZE, NUMBER, required=True),
        Field("name", v.FILE_NAME, TEXT),
    ),
)
_CLASSES: Final[Mapping[NamedNode, type[Act]]] = {
    v.COPYING: Copying,
    v.ALTERATION: Alteration,
    v.IMPORT: Import,
    v.READING: Reading,
    v.RERUNNING: Rerunning,
}
TYPES: Final = frozenset(_CLASSES)


def act_quads(act: Act) -> list[Quad]:
    """Return the quads of an act, with what the one who did it is."""
    return [*_TABLES[type(act)].quads(act, NamedNode(act.iri), v.CATALOG), author_type(act.by_iri)]


@decodes
def act_of(subject: str, quads: Iterable[Quad]) -> Act:
    """Return the act that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    said: dict[NamedNode, list[Node]] = defaultdict(list)
    for quad in quads:
        if isinstance(quad.object, Node):
            said[quad.predicate].append(quad.object)
    kind = next((_CLASSES[each] for each in said[v.TYPE] if each in _CLASSES), None)  # type: ignore[index] # IRIs
    number = iris.import_number(subject)
    token = iris.act_token(subject) if number is None else str(number)
    if kind is None or token is None:
        raise IntegrityError(f"<{subject}> is no act: the store was altered; restore it from a backup")
    values = {name: value for name, value in _TABLES[kind].values(said).items() if value is not None}
    try:
        found = kind.model_validate(values | {"token": token})
        if found.iri == subject:
            return found
        raise IntegrityError(f"<{subject}> says what another act would say: the store was altered")
    except ValueError as error:
        raise IntegrityError(f"<{subject}> cannot be read ({error}): the store was altered") from error


def file_quads(file: SourceFile) -> list[Quad]:
    """Return the quads of a file that was read."""
    return _FILES.quads(file, NamedNode(file.iri), v.CATALOG)


@decodes
def file_of(subject: str, quads: Iterable[Quad]) -> SourceFile:
    """Return the file that quads with one subject say; raise `IntegrityError` for what Trails never writes."""
    said: dict[NamedNode, list[Node]] = defaultdict(list)
    for quad in quads:
        if isinstance(quad.object, Node):
            said[quad.predicate].append(quad.object)
    try:
        found = SourceFile.model_validate(_FILES.values(said))
    except ValueError as error:
        raise IntegrityError(f"<{subject}> cannot be read ({error}): the store was altered") from error
    if found.iri != subject:
        raise IntegrityError(f"<{subject}> says another digest: the store was altered; restore it from a backup")
    return found
