"""The query `search-text` of the catalogue, answered from the index of texts: it says which turns, and these are read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import pyoxigraph as ox

from trails.history.workspace import Workspace
from trails.model import iris
from trails.plumbing import called, figured
from trails.plumbing.figured import Row
from trails.plumbing.index import texts
from trails.plumbing.index.keeper import TEXTS
from trails.plumbing.index.said import folded
from trails.rdf import vocab
from trails.rdf.query_files import QueryFile
from trails.store.contract import Matching, Solutions

_NAME: Final = "search-text"
_TOLD: Final = (vocab.INDEX, vocab.ROLE, vocab.ATTRIBUTED_TO, vocab.VALUE)
_UNASSIGNED: Final = "Cn"


def answer(workspace: Workspace, query: QueryFile, values: Mapping[str, Any]) -> Solutions | None:
    """Return the rows of the query with its parameters as `QueryFile.bind` takes them.

    None where it must be asked of the store: it is another query, names sessions, or the index is not sure to find all.
    """
    if query.name != _NAME or query.folder == "core":
        return None
    given = query.terms(**values)
    if (
        given["session"] is not None
        or not called.is_near(workspace, TEXTS)
        or figured.has_begun_copies(workspace.store)
    ):
        return None
    asked = [each for each in given["text"] or () if isinstance(each, ox.Literal) and _is_sure(workspace, each)]
    if len(given["text"] or ()) != 1 or not asked:
        return None
    (wanted,) = asked
    found = workspace.index.texts(lambda file: list(texts.holding(file, wanted.value)))
    rows = [row for session_id, turn in found for row in _rows(workspace.store, session_id, turn, folded(wanted.value))]
    rows.sort(key=lambda row: (row[0].value, int(row[1].value)))
    return called.solutions([column.name for column in query.columns], rows)


def _is_sure(workspace: Workspace, wanted: ox.Literal) -> bool:
    """Tell whether the index finds every turn that the engine would: the text is long enough, and both fold it alike.

    They may know Unicode in different versions. Characters that one of them does not know show here, or are folded otherwise.
    """
    text = wanted.value
    if wanted.datatype != vocab.STRING or len(texts.indexed(text)) < texts.GRAM:
        return False
    if any(unicodedata.category(character) == _UNASSIGNED for character in text):
        return False
    (row,) = workspace.reader.select("folded", text=text)
    return bool(row["folded"].value == folded(text))


def _rows(store: Matching, session_id: str, turn: str, wanted: str) -> Iterator[Row]:
    """Yield the rows of a turn, as far as its content still has in it what is looked for."""
    node, graph = ox.NamedNode(turn), ox.NamedNode(iris.session(session_id))
    said: dict[Any, list[Any]] = {each: [] for each in _TOLD}
    for quad in store.quads((node, None, None, graph)):
        if quad.predicate in said:
            said[quad.predicate].append(quad.object)
    for index, role, author, content in product(*said.values()):
        if wanted in folded(content.value):
            yield graph, index, role, author, content, node
