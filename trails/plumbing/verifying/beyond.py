"""What is recorded with turns beyond their texts, taken out of the rows of a session's graph as the engine writes them.

Each turn takes the rows that it is written with. A graph whose turns all found theirs, and in which none is left, holds what
its turns are written as, and nothing else. Whatever is not known here or not as it is written ends in a `KeyError` or a
`ValueError`, or stays: then the long look of `verify` says what it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from pyoxigraph import NamedNode

from trails.integrity import digests
from trails.model import iris
from trails.model.values import Turn
from trails.plumbing.verifying.as_written import PROPERTIES, TYPES
from trails.rdf import vocab
from trails.rdf.turn_quads import usage_facts
from trails.store import tsv

Row = list[str]
"""A row of `beyond_turns`."""
_NUMBERS: Final = {each: str(number) for number, each in enumerate(PROPERTIES, 1)} | {
    each: str(-number) for number, each in enumerate(TYPES, 1)
}
_MANY: Final = frozenset(_NUMBERS[each] for each in (vocab.GENERATED_BY, vocab.HAS_RESULT, vocab.SOURCE_ID))
"""Properties of which a turn may have several values."""
_MADE_BY, _RESULT, _SOURCE = (_NUMBERS[each] for each in (vocab.GENERATED_BY, vocab.HAS_RESULT, vocab.SOURCE_ID))
_FAILED: Final = {"true": True, "false": False}


class Beyond:
    """The rows of a session's graph beside what every turn has, until turns take them."""

    def __init__(self, table: Sequence[Row], inherited: Callable[[], Iterable[Turn]]) -> None:
        """`inherited` gives the turns of the sessions that this one was forked from; asked where calls of those are answered."""
        self._columns = {number: dict[str, str]() for number in _NUMBERS.values()}
        self._links = set[tuple[str, str, str]]()
        for subject, number, value in table:
            if number in _MANY:
                self._links.add((number, subject, value))
            else:
                self._columns[number][subject] = value
        if len(self._links) + sum(map(len, self._columns.values())) != len(table):
            raise ValueError("what has one value has several")
        self._sources: dict[str, list[str]] = defaultdict(list)
        for number, subject, value in self._links:
            if number == _SOURCE:
                self._sources[subject].append(value)
        self._read: Callable[[], Iterable[Turn]] | None = inherited
        self._calls: dict[str, str] = {}
        """The calls of the turns before, by their ids."""
        self._of_models: dict[Any, tuple[list[str | None], list[tuple[dict[str, str], str]], str]] = {}
        self._ids, self._names, self._arguments, self._started_by, self._call_types = map(
            self._column, (vocab.CALL_ID, vocab.TOOL_NAME, vocab.ARGUMENTS, vocab.STARTED_BY, vocab.TOOL_CALL)
        )
        self._result_types, self._errors, self._answered, self._metas = map(
            self._column, (vocab.TOOL_RESULT, vocab.IS_ERROR, vocab.TOOL_RESULT_OF, vocab.META)
        )
        self._model_types, self._models, self._usages, self._reasons, self._with = map(
            self._column, (vocab.MODEL_CALL, vocab.MODEL, vocab.USAGE, vocab.STOP_REASON, vocab.ASSOCIATED_WITH)
        )

    def _column(self, prop: NamedNode) -> dict[str, str]:
        return self._columns[_NUMBERS[prop]]

    def is_taken(self) -> bool:
        """Tell whether no row is left."""
        return not self._links and not any(self._columns.values())

    def take(self, turn: str, author: str, salt: str) -> tuple[str, Any]:
        """Take out what is recorded with a turn; return the digest over it, "" for nothing, and what it is in short.

        Turn and author are as the engine writes them. In short it is as in the packs: see `trails.plumbing.packs.facts`.
        """
        base = turn[:-1]
        is_made, is_asking = f"{base}/model>" in self._model_types, f"{base}/call/0>" in self._call_types
        is_answer = f"{base}/result/0>" in self._result_types
        made = self._model(turn, f"{base}/model>", author) if is_made else None
        if not (is_asking or is_answer or turn in self._metas or turn in self._sources):
            return ("", 0) if made is None else (made[1], [made[0], 0, 0, 0, None])
        results = self._results(turn, base) if is_answer else []  # these answer calls of turns before
        calls, sealed = self._asked(turn, base, salt) if is_asking else ([], [])
        sources = self._sources_of(turn)
        meta, meta_digest = self._meta(turn, salt)
        model = None if made is None else made[0]
        digest = digests.recorded_digest(model, sealed, results, sources, meta_digest)
        return digest, [model, calls or 0, results or 0, sources or 0, meta]

    def _model(self, turn: str, node: str, author: str) -> tuple[list[str | None], str]:
        """Take a turn's model call; return its name, usage and reason to stop, and the digest over them alone."""
        said = self._models.pop(node, None), self._usages.pop(node, None), self._reasons.pop(node, None)
        if said not in self._of_models:
            self._of_models[said] = self._of_model(*said)
        model, counts, digest = self._of_models[said]
        del self._model_types[node]
        self._links.remove((_MADE_BY, turn, node))
        _same(self._with.pop(node), author)
        for column, count in counts:
            _same(column.pop(node), count)
        return model, digest

    def _of_model(
        self, name: str | None, usage: str | None, reason: str | None
    ) -> tuple[list[str | None], list[tuple[dict[str, str], str]], str]:
        spent = None if usage is None else _json(usage)
        counts = [] if spent is None else [(self._column(p), tsv.text(count)) for p, count in usage_facts(spent)]
        model = [None if name is None else tsv.string(name), spent, None if reason is None else tsv.string(reason)]
        return model, counts, digests.recorded_digest(model, [], [], [], "")

    def _asked(self, turn: str, base: str, salt: str) -> tuple[list[list[str | None]], list[list[str]]]:
        """Take a turn's tool calls; return them, and what its digest has of them."""
        calls, sealed = list[list[str | None]](), list[list[str]]()
        while (node := f"{base}/call/{len(calls)}>") in self._call_types:
            del self._call_types[node]
            _same(self._started_by.pop(node), turn)
            call_id, name = tsv.string(self._ids.pop(node)), tsv.string(self._names.pop(node))
            text, digest = _kept("arguments", self._arguments.pop(node), salt)
            calls.append([call_id, name, text, digest if text is None else None])
            sealed.append([call_id, name, digest])
            self._calls[call_id] = node
        return calls, sealed

    def _results(self, turn: str, base: str) -> list[list[Any]]:
        found = list[list[Any]]()
        while (node := f"{base}/result/{len(found)}>") in self._result_types:
            del self._result_types[node]
            self._links.remove((_RESULT, turn, node))
            call_id = tsv.string(self._ids.pop(node))
            found.append([call_id, _FAILED[self._errors.pop(node)]])
            if call_id not in self._calls:
                self._look_back()
            if (call := self._calls.get(call_id)) is not None:
                _same(self._answered.pop(node), call)
                self._links.remove((_MADE_BY, turn, call))
        return found

    def _look_back(self) -> None:
        if self._read is None:
            return
        own, self._calls, turns = self._calls, {}, self._read()
        self._read = None
        for turn in turns:
            for position, call in enumerate(turn.tool_calls):
                self._calls[call.id] = f"<{iris.tool_call(turn.iri, position)}>"
        self._calls.update(own)

    def _sources_of(self, turn: str) -> list[str]:
        terms = self._sources.pop(turn, [])
        for term in terms:
            self._links.remove((_SOURCE, turn, term))
        return sorted(map(tsv.string, terms))

    def _meta(self, turn: str, salt: str) -> tuple[str | None, str]:
        """Take a turn's metadata; return them and the digest over them, None and "" where there are none."""
        term = self._metas.pop(turn, None)
        return (None, "") if term is None else _kept("meta", term, salt)


def _same(value: str, wanted: str) -> None:
    if value != wanted:
        raise ValueError(f"{value} stands where {wanted} is written")


def _kept(kind: str, term: str, salt: str) -> tuple[str | None, str]:
    """Return a JSON text and the digest over it and a salt; None, and the digest that was kept, where the text was taken out."""
    text, structured, redacted = tsv.content(term)
    if not structured and not (redacted and text):
        raise ValueError(f"{term} is no JSON")
    return (None, text) if redacted else (text, digests.salted_digest(kind, salt, text))


@lru_cache(maxsize=512)
def _json(term: str) -> str:
    text, structured, _ = tsv.content(term)
    if not structured:
        raise ValueError(f"{term} is no JSON")
    return text
