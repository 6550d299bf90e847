"""What all entries of a session's ledger share: their place, a text that can be taken out, and reading them from quads."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Self

from pydantic import Field
from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from trails import iris
from trails import vocab as v
from trails.decoding import decodes
from trails.integrity import digests
from trails.model import Value
from trails.records.schema import Properties, one


class Words(Value):
    """A text that may have to go: itself, or (`text` None) its salted digest alone; `withheld` once redacted."""

    text: str | None
    structured: bool = False
    salt: str | None = None
    digest: str
    withheld: bool = False

    @classmethod
    def of(cls, text: str, *, structured: bool = False) -> Self:
        """Return a text, salted."""
        salt = digests.new_salt()
        digest = digests.content_digest(text, salt, structured=structured)
        return cls(text=text, structured=structured, salt=salt, digest=digest)

    def gone(self, *, withheld: bool) -> Words:
        """Return what stays when the text goes: to the turn that says it, or (`withheld`) for good."""
        return Words(text=None, digest=self.digest, withheld=withheld)

    @property
    @decodes
    def content(self) -> Any:
        """The text, or the list of parts; None once it is gone."""
        return json.loads(self.text) if self.structured and self.text is not None else self.text

    def salted_anew(self) -> Words:
        """Return them with another digest: of the same text with another salt, or random where only the digest is left."""
        if self.text is not None:
            return Words.of(self.text, structured=self.structured)
        return self.model_copy(update={"digest": digests.salted("words", digests.new_salt(), self.digest)})

    def is_true(self) -> bool:
        """Tell whether a text that is there has the digest that it should have."""
        if self.text is None:
            return True
        return self.digest == digests.content_digest(self.text, self.salt or "", structured=self.structured)


class LedgerEntry(Value):
    """An entry of a session's ledger, by its number from 1."""

    session_id: str
    number: int
    words: Words | None = None
    leaf_salt: str | None = Field(default_factory=lambda said: None if said.get("words") else digests.new_salt())
    """What salts the leaf of an entry without a text, whose own salted digest would do so. None from older versions."""

    @property
    def iri(self) -> str:
        """The entry's IRI."""
        return iris.ledger_entry(iris.session(self.session_id), self.number)

    def salted_anew(self) -> Self:
        """Return the entry with other random bits for its leaf: with the old ones goes what could be guessed of that."""
        if self.words is None:
            return self.model_copy(update={"leaf_salt": digests.new_salt()})
        return self.model_copy(update={"words": self.words.salted_anew()})

    def _plain(self, **more: Any) -> dict[str, Any]:
        plain = {"number": self.number, "session": self.session_id, "iri": self.iri, **more}
        return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in plain.items()}


def decode_words(properties: Properties, predicate: NamedNode) -> Words | None:
    """Return the text of an entry, or what stands for it, or None for an entry without one."""
    digest = one(properties, v.DIGEST)
    if digest is None:
        return None
    values = properties.get(predicate, [])
    text = one(properties, predicate)
    datatype = values[0].datatype if values and isinstance(values[0], RdfLiteral) else None
    if datatype == v.REDACTED:
        return Words(text=None, digest=digest, withheld=True)
    return Words(text=text, structured=datatype == v.JSON, salt=one(properties, v.SALT), digest=digest)
