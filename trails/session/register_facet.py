"""What the facets of a store share that write into its registers: what every new entry has, and how one is closed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from trails.errors import InvalidInput
from trails.history.records import registers
from trails.history.workspace import Facet
from trails.integrity import digests
from trails.model import validation
from trails.rdf.register_records import Closing, RegisterEntry


class RegisterFacet(Facet):
    """A part of an open store that keeps entries of registers."""

    def _made(self, by: str | None, now: datetime | None = None) -> dict[str, Any]:
        """Return what every new entry has; raise `StoreReadOnly` where none can be written."""
        self._workspace.check_writable()
        return {
            "token": registers.new_token(),
            "by_iri": self._workspace.who(by),
            "time": now or datetime.now(UTC),
            "leaf_salt": digests.new_salt(),
        }

    def _keep(self, entry: RegisterEntry, sessions: Iterable[str] = (), *, refusal: str = "") -> None:
        registers.keep_entries(self._workspace.store, self._workspace.reader, [entry], sessions, refusal)

    def _close(
        self, kept: type[RegisterEntry], entry: object, what: str, reason: str | None, by: str | None
    ) -> Closing:
        """Write that an entry, given as such or by its id, is over; raise `InvalidInput` where it was before."""
        token = entry.token if isinstance(entry, RegisterEntry) else validation.text(entry, f"the {what}'s id")
        found = registers.find_entry(self._workspace.store, kept, token, what)
        fields = self._made(by) | {"token": f"{found.token}/closing"}
        closing = Closing(closes=found.token, reason=plain_text(reason, "the reason"), **fields)
        self._keep(closing, refusal=f"the {what} {found.token} was closed already")
        return closing


def plain_text(text: str | None, what: str) -> str | None:
    """Return a text that may be left out; raise `InvalidInput` for one of spaces alone."""
    if text is not None and not validation.text(text, what).strip():
        raise InvalidInput(f"{what} is more than spaces, or is left out")
    return text
