"""Whether each text of an input is in a store, or in the report of its import."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trails import Repository
from trails.exchange.source_transcript import ImportReport

_LONG = 20


def unaccounted(store: Repository, report: ImportReport, value: object) -> list[str]:
    """Return the texts of 20 and more characters within a value that are neither in a store nor in a report."""
    held: list[str] = [
        *report.notes,
        *report.records,
        *(f"{problem.reason} {problem.text}" for problem in report.problems),
    ]
    for record in store.list(limit=500):
        session = store.load(record.id)
        held += [record.model_dump_json(), *_texts(dict(record.meta)), session.system or ""]
        for turn in session.turns:
            held += [*_texts(turn.content), *_texts(dict(turn.meta)), *turn.source_ids, *_texts(dict(turn.usage))]
    everything = "\n".join(held)
    return [text for text in _texts(value) if _is_long(text) and text not in everything]


def _is_long(text: str) -> bool:
    """Tell whether a text is long and no time: those are kept as times."""
    return len(text) >= _LONG and not re.fullmatch(r"[0-9TZ:.+-]+", text)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
