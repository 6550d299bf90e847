"""Place and lift legal holds: what a hold covers is kept, whatever else says that it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trails.errors import InvalidInput
from trails.history import hold_guard
from trails.history.lookup import names, summaries
from trails.history.records import registers
from trails.model import validation
from trails.model.values import Value
from trails.rdf.register_records import Closing, Hold
from trails.session import selection
from trails.session.register_facet import RegisterFacet


class HoldState(Value):
    """A legal hold as it stands."""

    hold: Hold
    lifted: Closing | None = None
    """Who lifted it, when and why; None where nobody did."""

    def is_in_force(self, now: datetime | None = None) -> bool:
        """Tell whether it keeps anything `now`: it was not lifted, and its time is not over."""
        until = self.hold.until
        return self.lifted is None and (until is None or until > (now or datetime.now(UTC)))

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for JSON."""
        lifted = None if self.lifted is None else self.lifted.to_dict()
        return self.hold.to_dict() | {"in_force": self.is_in_force(), "lifted": lifted}


class Holds(RegisterFacet, public=True, reached="store.holds"):
    """The legal holds of a store: `store.holds`.

    While a hold covers a session, nothing of it is taken out of the store: it is not deleted, pruned or redacted, and no
    retention rule or expiry takes it. Nor are its ancestors, or the turns of these that it shows. Whoever tries gets `OnHold`,
    which names the hold, also where both happen at once. Appending, forking and labels go on. A hold is an entry of the store's
    registers: logged, covered by `verify`, and never taken away; lifting it is another entry.
    """

    def place(
        self,
        *sessions: names.Name,
        reason: str,
        principal: str | None = None,
        label: str | None = None,
        meta: Mapping[str, Any] | None = None,
        query: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> Hold:
        """Place a hold, and return it; stored at once.

        It covers the `sessions` that are named; or all of a `principal`, whichever has a `label`, or all with some metadata
        (`meta`), those that come later too; or the sessions in the column `session` of the rows that a `query` has now (a
        SELECT, or the name of a query of the catalogue). One of these five is given. A session that matches now stays covered
        if its label or metadata change. `until` is when the hold is over by itself; by default somebody has to lift it.
        `reason` says why, and `by` is as for `Repository.delete`.

        Raises `InvalidInput` for none or several of the five, for a query that names no session, and for a time that is over;
        `SessionNotFound` for a session that is not stored.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     s = store.create(id="s", principal="alice"); _ = s.append("user", "Hello"); _ = s.persist()
        ...     hold = store.holds.place(principal="alice", reason="Case 7", by="counsel")
        ...     try: store.delete("s")
        ...     except trails.OnHold as error: print(error.session_id, error.hold == hold.token)
        ...     closing = store.holds.lift(hold, "settled", by="counsel"); store.delete("s")
        s True
        ['s']
        """
        given = [bool(sessions), principal is not None, label is not None, meta is not None, query is not None]
        if sum(given) != 1:
            raise InvalidInput(
                "a hold covers sessions that are named, or those of a principal, a label, some metadata or a query"
            )
        if not validation.text(reason, "the reason").strip():
            raise InvalidInput("the reason for a hold is more than spaces")
        now = datetime.now(UTC)
        end = None if until is None else validation.time(until, "until")
        if end is not None and end <= now:
            raise InvalidInput(f"a hold until {end.isoformat()} would keep nothing: that is over")
        work, made = self._workspace, self._made(by, now)
        named = [names.find_record(work, each).id for each in sessions]
        asked = None if query is None else selection.check_query(query)
        covered = named if asked is None else selection.sessions_of_query(work, asked)
        hold = Hold(
            reason=reason,
            until=end,
            sessions=tuple(sorted(set(covered))),
            principal=None if principal is None else validation.name(principal, "principal"),
            label=None if label is None else validation.label(label),
            meta=None if meta is None else validation.meta(summaries.wanted_meta(meta)),
            query=asked,
            **made,
        )
        if asked is not None and not hold.sessions:
            raise InvalidInput("the query names no session that is stored, so the hold would keep nothing")
        if not hold.sessions:
            matching = [each for each in work.reader.ids() if hold_guard.covers(work.store, hold, each)]
            hold = hold.model_copy(update={"sessions": tuple(matching)})
        self._keep(hold, named)
        return hold

    def lift(self, hold: str | Hold, reason: str | None = None, *, by: str | None = None) -> Closing:
        """Lift a hold, and return the record of that; the hold stays on record.

        `hold` is its id, or the beginning of it that no other has. `reason` says why. Raises `InvalidInput` where there is no
        such hold, or it was lifted.
        """
        return self._close(Hold, hold, "hold", reason, by)

    def list(self, session: names.Name | None = None, *, in_force: bool | None = None) -> _States:
        """Return the holds, oldest first: all, those in force, or (`in_force=False`) the others.

        With a `session`, only those that cover it now.
        """
        store = self._workspace.store
        lifted = {each.closes: each for each in registers.read_entries(store, Closing)}
        every = [HoldState(hold=each, lifted=lifted.get(each.token)) for each in registers.read_entries(store, Hold)]
        chosen = [each for each in every if in_force is None or each.is_in_force() is in_force]
        if session is None:
            return chosen
        wanted = names.find_record(self._workspace, session).id
        return [each for each in chosen if each.is_in_force() and hold_guard.covers(store, each.hold, wanted)]


_States = Sequence[HoldState]  # inside the class, `list` is the method
