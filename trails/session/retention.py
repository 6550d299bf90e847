"""Keep standing rules of retention, and apply them: sessions that are old enough go, unless a hold keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from trails.errors import InvalidInput
from trails.history.lookup import summaries
from trails.history.records import registers
from trails.history.removal import deletion
from trails.model import validation
from trails.model.values import Value
from trails.rdf.register_records import Closing, RetentionRule
from trails.session import selection
from trails.session.register_facet import RegisterFacet, plain_text


class RuleState(Value):
    """A retention rule as it stands."""

    rule: RetentionRule
    ended: Closing | None = None
    """Who ended it, when and why; None while it stands."""

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, ready for JSON."""
        return self.rule.to_dict() | {"ended": None if self.ended is None else self.ended.to_dict()}


class RuleRun(Value):
    """What one rule deleted, or would delete."""

    rule: str
    """The id of the rule."""
    pruning: deletion.Pruning

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {"rule": self.rule} | self.pruning.to_dict()


class Retention(RegisterFacet, public=True, reached="store.retention"):
    """The standing rules of retention of a store: `store.retention`.

    A rule says which sessions go once they are old enough. It stands in the store's registers until it is ended, and `apply`
    deletes by it. A legal hold wins over every rule (`store.holds`).
    """

    def add(
        self,
        *,
        keep_for: timedelta | None = None,
        principal: str | None = None,
        kind: str | None = None,
        meta: Mapping[str, Any] | None = None,
        query: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> RetentionRule:
        """Add a rule, and return it; stored at once. Nothing is deleted before `apply`.

        Sessions go whose last turn is older than `keep_for`, in whole seconds. Only those of a `principal`, of a `kind`, with
        some metadata (`meta`), or in the column `session` of the rows of a `query`, where these are given; all of them must
        hold. Without `keep_for` a query is needed, and all that it names goes. `reason` says why the rule stands, and `by` is as
        for `Repository.delete`.

        Raises `InvalidInput` for a rule by which every session would go at once, and for a query that names no sessions.
        """
        if keep_for is None and query is None:
            raise InvalidInput(
                "a rule says for how long sessions are kept (keep_for), or which query names those that go"
            )
        seconds = None if keep_for is None else _seconds(keep_for)
        work, made = self._workspace, self._made(by)
        asked = None if query is None else selection.check_query(query)
        if asked is not None:
            selection.sessions_of_query(work, asked)  # it is one that can be asked
        rule = RetentionRule(
            seconds=seconds,
            principal=None if principal is None else validation.name(principal, "principal"),
            kind=None if kind is None else validation.name(kind, "kind"),
            meta=None if meta is None else validation.meta(summaries.wanted_meta(meta)),
            query=asked,
            reason=plain_text(reason, "the reason"),
            **made,
        )
        self._keep(rule)
        return rule

    def end(self, rule: str | RetentionRule, reason: str | None = None, *, by: str | None = None) -> Closing:
        """End a rule, and return the record of that; the rule stays on record.

        `rule` is its id, or the beginning of it that no other has. Raises `InvalidInput` where there is no such rule, or it was
        ended.
        """
        return self._close(RetentionRule, rule, "rule", reason, by)

    def rules(self, *, standing: bool | None = None) -> list[RuleState]:
        """Return the rules, oldest first: all, those that stand, or (`standing=False`) those that were ended."""
        store = self._workspace.store
        ended = {each.closes: each for each in registers.read_entries(store, Closing)}
        every = [
            RuleState(rule=each, ended=ended.get(each.token)) for each in registers.read_entries(store, RetentionRule)
        ]
        return [each for each in every if standing is None or (each.ended is None) is standing]

    def apply(self, *, dry_run: bool = False, by: str | None = None) -> list[RuleRun]:
        """Delete by every rule that stands, oldest first; return what each deleted, and what it had to keep.

        Sessions go as by `Repository.prune`: those that others depend on stay while they do, those that a tag names stay, and
        what a legal hold covers stays and is named in `held`. Each tombstone names the rule. With `dry_run`, nothing is deleted,
        and the report says exactly what would go now; what an earlier rule takes is not named again by a later one.

        >>> import trails
        >>> from datetime import timedelta
        >>> with trails.open(":memory:") as store:
        ...     for name in ("a", "b"):
        ...         s = store.create(id=name, meta={"case": name}); _ = s.append("user", "Hi"); _ = s.persist()
        ...     hold = store.holds.place(meta={"case": "b"}, reason="Case 7")
        ...     rule = store.retention.add(query="SELECT ?session { ?session a trails:Session }")
        ...     run = store.retention.apply()[0].pruning
        ...     run.sessions, run.held
        (('a',), ('b',))
        """
        validation.flag(dry_run, "dry_run")
        work = self._workspace
        if not dry_run:
            work.check_writable()
        runs: list[RuleRun] = []
        gone: set[str] = set()
        with nullcontext() if dry_run else work.erasing():
            for state in self.rules(standing=True):
                pruning = self._applied(state.rule, gone, by, dry_run=dry_run)
                gone.update(pruning.sessions)
                runs.append(RuleRun(rule=state.rule.token, pruning=pruning))
        return runs

    def _applied(self, rule: RetentionRule, gone: set[str], by: str | None, *, dry_run: bool) -> deletion.Pruning:
        work = self._workspace
        return deletion.prune_sessions(
            work.store,
            work.reader,
            older_than=None if rule.seconds is None else timedelta(seconds=rule.seconds),
            keep_count=None,
            keep_bytes=None,
            only=self._matching(rule) - gone,
            gone=gone,
            dry_run=dry_run,
            deed=work.deed(by, rule.reason, f"retention: {rule.token}"),
        )

    def _matching(self, rule: RetentionRule) -> set[str]:
        """Return the ids of the sessions that a rule is about, whatever their age."""
        work = self._workspace
        chosen = set(work.reader.ids() if rule.query is None else selection.sessions_of_query(work, rule.query))
        if rule.meta is not None:
            chosen &= summaries.sessions_with(work, rule.wanted_meta())
        if rule.principal is None and rule.kind is None:
            return chosen
        records = work.reader.records(sorted(chosen))
        return {
            each.id
            for each in records.values()
            if rule.principal in (None, each.principal) and rule.kind in (None, each.kind)
        }


def _seconds(keep_for: object) -> int:
    if not isinstance(keep_for, timedelta) or keep_for < timedelta(seconds=1):
        raise InvalidInput(
            f"keep_for is a timedelta of at least one second, as timedelta(days=30), not {keep_for!r:.80}"
        )
    return int(keep_for.total_seconds())
