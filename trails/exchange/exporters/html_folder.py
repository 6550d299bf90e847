"""Export all sessions of a store as a folder of pages: an index, and a page for each session."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trails.display.progress import Progress, moving
from trails.display.terminal_text import shorten
from trails.errors import InvalidInput
from trails.exchange.exporters import html_page
from trails.exchange.exporters.html_page import Folder
from trails.exchange.exporters.session_family import SessionExport, read_family
from trails.exchange.exporters.turn_blocks import Image
from trails.files import PRIVATE, as_path, in_words, part_folder
from trails.history.export_records import record_export
from trails.history.lookup.forest import ForestNode, Twig
from trails.history.lookup.summaries import MAX_PAGE
from trails.model.values import Finding
from trails.session import Repository
from trails.suggestions import checked

_INHERITED: Final = 20
"""Turns before a fork that stand on its page too; those before them stand on the page of the session that owns them."""
_TITLE: Final = 100
_MOST_MODELS: Final = 3
_SLUG: Final = 40


class _Row(NamedTuple):
    """A line of the index."""

    depth: int
    file: str | None
    title: str
    said: str
    models: str
    turns: int
    active: str


class _Listed(NamedTuple):
    """What a list tells of a session."""

    title: str
    models: str
    active: str


@checked
def export_pages(
    repository: Repository, folder: str | os.PathLike[str], *, progress: Progress | bool | None = None
) -> SessionExport:
    """Write an index and a page for each session of a store into a new folder, and return what was written.

    `index.html` lists titles, models, turns and last activity, forks below what they were forked from, newest trees first.
    A page has its session's own turns and the last 20 that it inherits; links lead to the others. All links are relative, and
    nothing is fetched from elsewhere. The folder appears only once all of it is written; one session is in memory at a time.
    `progress` is called with how many sessions are done and how many there are; True draws a bar.

    Raises `InvalidInput` where something is in the folder already, and what reading a transcript raises.

    >>> import tempfile, trails
    >>> with trails.open(":memory:") as store, tempfile.TemporaryDirectory() as place:
    ...     s = store.create(id="plan"); _ = s.append("user", "Plan a trip"); _ = s.fork(id="other").persist()
    ...     export_pages(store, f"{place}/pages").sessions
    ('plan', 'other')
    """
    place = as_path(folder, "the folder of pages")
    with in_words(place, "written"), moving(progress, "exporting") as move:
        if place.is_file():
            raise InvalidInput(f"{place} is a file; name a folder")
        if place.is_dir() and any(place.iterdir()):
            raise InvalidInput(f"{place} is not empty, and nothing in it is replaced; name a new folder")
        with part_folder(place) as part, record_export(repository.workspace, None, html_page.FORMAT) as made:
            written = part / "written"
            report = _write(repository, written, move)
            written.replace(place)
            made(None, None)
    return report


def file_name(session_id: str) -> str:
    """Return the name of a session's page: the same each time, plain letters, and another for each session.

    >>> file_name("../A b"), file_name("../a b")
    ('a-b-e3f8e011e4.html', 'a-b-2c2c791a06.html')
    """
    slug = re.sub("[^a-z0-9]+", "-", session_id.lower()).strip("-")[:_SLUG]
    digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{slug}-{digest}.html" if slug else f"{digest}.html"


def _write(repository: Repository, place: Path, move: Progress | None) -> SessionExport:
    for each in (place, place / "sessions"):
        each.mkdir(mode=0o700)
    _write_new(place / "page.css", html_page.style().encode())
    listed = dict(_list(repository))
    twigs = [twig for tree in reversed(repository.forest().trees) for twig in _walk(tree) if not twig.again]
    stored = [twig.node for twig in twigs if twig.node.status == "stored"]
    folder = _folder(place, stored, listed)
    verdict = repository.verify()
    wrong: dict[str, list[Finding]] = defaultdict(list)
    for finding in verdict.findings:
        wrong[finding.session_id or ""].append(finding)
    for number, node in enumerate(stored):
        if move is not None:
            move(number, len(stored), node.id)
        found = read_family(repository, node.id, forks=False, inherited=_INHERITED)
        own = verdict.model_copy(update={"findings": tuple(wrong[node.id])})
        with _new(place / "sessions" / folder.files[node.id]) as out:
            html_page.export(found, out, own, folder)
    turns, rows = sum(node.own_turns for node in stored), _rows(twigs, listed, folder)
    with _new(place / "index.html") as out:
        pieces = html_page.template("page_index.html").stream(
            rows=rows, written=len(stored), turns=turns, verdict=verdict
        )
        pieces.enable_buffering(100)
        out.writelines(piece.encode("utf-8", "backslashreplace") for piece in pieces)
    return SessionExport(html_page.FORMAT, tuple(node.id for node in stored), turns, html_page.left_out(folder.lost))


def _walk(top: Twig) -> Iterator[Twig]:
    """Yield a tree's nodes, each before what is below it."""
    waiting = [top]
    while waiting:
        twig = waiting.pop()
        yield twig
        waiting += reversed(twig.children)


def _list(repository: Repository) -> Iterator[tuple[str, _Listed]]:
    """Yield what a list tells of each session, by its id."""
    cursor = None
    while True:
        page = repository.summaries(limit=MAX_PAGE, cursor=cursor)
        for each in page:
            more = len(each.models) - _MOST_MODELS
            models = ", ".join(each.models[:_MOST_MODELS]) + (f" +{more}" if more > 0 else "")
            active = each.last_activity.strftime("%Y-%m-%d %H:%M") if each.last_activity else "-"
            yield each.id, _Listed(shorten(each.name, _TITLE), models, active)
        if (cursor := page.cursor) is None:
            return


def _folder(place: Path, stored: Sequence[ForestNode], listed: Mapping[str, _Listed]) -> Folder:
    """Return what the pages know of each other."""
    titles: dict[str, str] = {}
    forks: dict[str, list[ForestNode]] = defaultdict(list)
    for node in stored:
        name = listed[node.id].title if node.id in listed else node.id
        if node.parent is not None:
            forks[node.parent].append(node)
            if name == titles.get(node.parent):  # what its user said first is what it inherits
                name = shorten(f"fork at {node.forked_at} of {name}", _TITLE)
        titles[node.id] = name

    def beside(picture: Image) -> str:
        name = f"{hashlib.sha256(picture.data).hexdigest()}.{picture.media_type.partition('/')[2]}"
        (place / "pictures").mkdir(mode=0o700, exist_ok=True)
        if not (place / "pictures" / name).exists():
            _write_new(place / "pictures" / name, picture.data)
        return f"../pictures/{name}"

    return Folder(titles, {node.id: file_name(node.id) for node in stored}, forks, beside, Counter())


def _rows(twigs: Sequence[Twig], listed: Mapping[str, _Listed], folder: Folder) -> Iterator[_Row]:
    for twig in twigs:
        node = twig.node
        if node.status != "stored":
            yield _Row(twig.depth, None, node.label or node.id, node.status, "", node.turns, "")
            continue
        title = folder.titles[node.id]
        how = {"fork": f"fork at {node.forked_at}", "spawned": "spawned", "root": ""}[node.relation]
        said = " · ".join(filter(None, (how, node.id if node.id != title else "")))
        told = listed.get(node.id) or _Listed(title, "", "-")
        yield _Row(twig.depth, folder.files[node.id], title, said, told.models, node.turns, told.active)


def _write_new(path: Path, data: bytes) -> None:
    with _new(path) as out:
        out.write(data)


def _new(path: Path) -> BinaryIO:
    """Return a private file that was not there, to be written."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE), "wb")
