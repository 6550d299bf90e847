"""The vectors of a store's turns: made, looked at and dropped for an open store."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Final

from trails.display.progress import Progress, made_anew
from trails.display.terminal_text import count
from trails.errors import InvalidInput
from trails.history.workspace import Workspace
from trails.rows import embedding, vector_index
from trails.rows.embedding import Embedder
from trails.rows.vector_index import VectorIndex
from trails.store.doctor import Check
from trails.store.embedded import ViewStore

_GONE: Final = "name its folder, or another model's (--embedder), or drop the vectors: `trails store vectors --drop`"


def make(workspace: Workspace, model: str | os.PathLike[str] | None, progress: Progress | None) -> VectorIndex:
    """Make all vectors that are due, and return what there is then; `model` is as for `keep`."""
    embedder = _model(workspace, model)
    if not workspace.rows.keep_vectors(embedder, progress):
        raise InvalidInput(f"vectors of {workspace.store.location} are made by who may write to it, where it is")
    made = workspace.rows.vectors()
    if made is None:
        raise InvalidInput("another process dropped the store's vectors: make them again")
    return made


def keep(workspace: Workspace, model: bool | str | os.PathLike[str]) -> Embedder:
    """Make all vectors that are due, where this process may write, and return the model.

    With True it is the one that made those that are there, at first that of the package; else that in a folder.
    """
    embedder = _model(workspace, None if isinstance(model, bool) else model)
    with made_anew("embedding turns") as move:
        workspace.rows.keep_vectors(embedder, move)
    return embedder


def check(folder: Path) -> Check | None:
    """Look at the vectors of the store in a folder; None where it keeps none."""
    with closing(ViewStore(folder)) as view, view.read_connection() as connection:
        kept = vector_index.describe(connection)
    if kept is None:
        return None
    said = f"{count(kept.turns, 'turn')} {'has' if kept.turns == 1 else 'have'} vectors, made by {kept.model}"
    said += f"; {kept.due:,} wait for theirs" if kept.due else ""
    if kept.path is not None and not Path(kept.path).is_dir():
        return Check("vectors", False, f"{said}; the model is not at {kept.path} any more", _GONE)
    return Check("vectors", True, said)


def _model(workspace: Workspace, folder: str | os.PathLike[str] | None) -> Embedder:
    kept = workspace.rows.vectors()
    if folder is None and kept is not None and kept.path is not None:
        folder = kept.path
        if not Path(folder).is_dir():
            raise InvalidInput(f"the model that made the store's vectors is not at {folder} any more; {_GONE}")
    return embedding.load(folder)
