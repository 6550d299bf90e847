"""A secret that was found: where it stands, what it is, and never itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trails.model import Value
from trails.secrets.detect import Detector, hint, redact, unescaped
from trails.secrets.extra import detector
from trails.secrets.prefixes import Secret
from trails.secrets.values import secrets_in, secrets_in_json


def shown_id(session_id: str) -> str:
    """Return a session's id as it may be shown: with a mark in the place of a secret that it holds.

    >>> shown_id("pi:ghp_16C7e42F292c6912E7710c838347Ae178B4a"), shown_id("pi:01-ab")
    ('pi:[redacted: github-token]', 'pi:01-ab')
    """
    return redact(session_id, detector())


class Found(Value):
    """A secret in a session: its kind, the turn's index (None for what belongs to no turn), and where in it."""

    kind: str
    session_id: str | None
    """None for what belongs to no session, as the task of a run whose session is not known."""
    index: int | None
    where: str
    """`content`, `arguments`, `meta`, `label`, `note`, `ledger 3` and the like."""
    hint: str
    """Its length, with its first four letters where those are the same for all of its kind."""
    redacted: bool = False
    """Whether it was taken out on its way in: it is not in the store."""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values, ready for JSON."""
        session = None if self.session_id is None else shown_id(self.session_id)
        return {"session": session, **self.model_dump(exclude={"session_id"})}


class ScannedPlace:
    """A turn, or what else is looked through as one: what stands there several times is found once."""

    def __init__(
        self, detector: Detector, session_id: str | None, index: int | None, *, redacted: bool = False
    ) -> None:
        self._detector = detector
        self._session_id = session_id
        self._index = index
        self._redacted = redacted
        self._seen: set[str] = set()

    def text(self, where: str, text: str | None) -> Iterator[Found]:
        """Yield what is found in a text."""
        if text:
            yield from self._new(where, ((text, secret) for secret in self._detector(text)))

    def value(self, where: str, value: Any, name: str = "") -> Iterator[Found]:
        """Yield what is found in a value that JSON can carry; `name` is what it is called."""
        yield from self._new(where, secrets_in(value, self._detector, name))

    def json(self, where: str, text: str | None, name: str = "") -> Iterator[Found]:
        """Yield what is found in what a JSON text stands for."""
        if text:
            yield from self._new(where, secrets_in_json(text, self._detector, name))

    def _new(self, where: str, found: Iterable[tuple[str, Secret]]) -> Iterator[Found]:
        for text, secret in found:
            what = unescaped(text[secret.start : secret.end])
            if what not in self._seen:
                self._seen.add(what)
                yield Found(
                    kind=secret.kind,
                    session_id=self._session_id,
                    index=self._index,
                    where=where,
                    hint=hint(text, secret),
                    redacted=self._redacted,
                )
