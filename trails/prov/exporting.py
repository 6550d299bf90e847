"""The public way out: what a store recorded, and what follows from it, as a PROV document in a format of one's choice."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from trails import iris
from trails.errors import InvalidInput
from trails.plumbing import names, reads
from trails.plumbing.workspace import Workspace
from trails.prov.export import Wanted, family, parts
from trails.prov.importing import read_document
from trails.prov.picture import mermaid, picture, svg
from trails.prov.writing import write

if TYPE_CHECKING:
    from prov.model import ProvDocument


PICTURES: Final = ("svg", "png", "mermaid")


class Worked(Protocol):
    """An open store, as `trails.open` returns it."""

    @property
    def workspace(self) -> Workspace:
        """What all handles on it share."""
        ...


def export(
    store: Worked,
    out: BinaryIO,
    *,
    format: str,  # noqa: A002 - the public name
    session: str | None = None,
    turn: int | None = None,
    recorded_only: bool = False,
) -> None:
    """Write what a store holds in PROV to a binary file, as a stream: memory stays flat, however much it is.

    `session` names one session by its id, IRI or label, and its ancestors come with it as far as it inherits them; the IRI
    of a turn names that turn of its session, as `turn`, an index from 0, does. Without a session, everything is written.
    The IRI of a PROV document that was brought in names that, which is written as what it says, and no more.
    `format` is provn, json, jsonld, xml, turtle or trig. Each statement says what it rests on (`trails:evidence`): that it
    was recorded, imported (`trails:evidenceSource` names the record of the source), or derived by a rule
    (`trails:evidenceRule`); with `recorded_only`, what is only derived is left out. Texts, arguments, usage and salts
    stay in the store.

    Raises `SessionNotFound` for a session that is not there, and `InvalidInput` for a turn that it does not have and for
    a format that cannot be written.

    >>> import io, trails
    >>> with trails.open(":memory:") as store:
    ...     s = store.create(id="s", principal="alice", agent="planner")
    ...     _ = (s.append("user", "Plan a trip"), s.persist())
    ...     out = io.BytesIO()
    ...     export(store, out, format="provn", session="s")
    >>> b"bundle session:s" in out.getvalue()
    True
    """
    if session is not None and session.startswith(iris.document("")) and turn is None:
        document = read_document(store, session)
        write([(each.name, each.statements) for each in document.bundles], format, out, document.prefixes)
        return
    wanted = _wanted(store.workspace, session, turn, recorded_only=recorded_only)
    with reads.recorded(store.workspace, _read(wanted), "export"):
        write(parts(store.workspace, wanted), format, out)


def _read(wanted: Wanted) -> list[str] | None:
    return None if wanted.session is None else [wanted.session.id]


def _wanted(workspace: Workspace, session: str | None, turn: int | None, *, recorded_only: bool) -> Wanted:
    if session is None:
        if turn is not None:
            raise InvalidInput(f"turn {turn} of which session? Name one")
        return Wanted(recorded_only=recorded_only)
    if session.startswith("urn:trails:session:") and "/" in session:
        turn, session = iris.turn_index(session), session.partition("/")[0]
    record = names.record(workspace, session)
    if turn is not None:
        chain = workspace.reader.lineage(record.id)
        length = len(workspace.reader.turns(chain))
        if not 0 <= turn < length:
            raise InvalidInput(f"session {record.id!r} has no turn {turn}; it has {length}, counted from 0")
    return Wanted(record, turn, recorded_only)


def draw(
    store: Worked,
    *,
    format: str,  # noqa: A002 - the public name
    session: str | None = None,
    turn: int | None = None,
    forks: bool = False,
    recorded_only: bool = False,
) -> bytes:
    """Return a picture of what a store holds in PROV: of a session, of a turn, of everything, or of a tree of forks.

    `format` is svg, png (which needs the extra `plot`) or mermaid; the other arguments are those of `export`. With
    `forks`, it is the fork tree that `session` belongs to: its sessions and whom they belong to, without turns. What is
    only derived is drawn dashed. The same facts give the same bytes; past 200 nodes, a note says how many are left out.

    Raises as `export` does.
    """
    if format not in PICTURES:
        raise InvalidInput(f"{format!r} is no format of pictures; there are: {', '.join(PICTURES)}")
    if forks:
        if session is None or turn is not None:
            raise InvalidInput("forks of which session? Name one, and no turn")
        found = family(store.workspace, names.resolve(store.workspace, session), recorded_only=recorded_only)
    else:
        wanted = _wanted(store.workspace, session, turn, recorded_only=recorded_only)
        found = (each for part in parts(store.workspace, wanted) for each in part.statements)
    shown = picture(found)
    if format == "png":
        try:
            from trails.prov.painting import png  # noqa: PLC0415 - matplotlib is an extra, and takes long to import
        except ImportError as error:
            raise InvalidInput("PNG needs matplotlib; install the extra: pip install 'trails[plot]'") from error
        return png(shown)
    return svg(shown) if format == "svg" else mermaid(shown)


def document(store: Worked, session: str, *, recorded_only: bool = False) -> ProvDocument:
    """Return what a store holds of a session as a document of the package `prov`, in memory; arguments as in `export`."""
    from prov.model import ProvDocument  # noqa: PLC0415 - it takes long to import, and is needed only here

    out = io.BytesIO()
    export(store, out, format="jsonld", session=session, recorded_only=recorded_only)
    return ProvDocument.deserialize(content=out.getvalue(), format="jsonld")
