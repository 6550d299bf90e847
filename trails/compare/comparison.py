"""A comparison of branches as a table: a row for each."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypedDict, Unpack, get_args, overload

from trails.compare.arms import ArmTest, Method, compare_arms, compare_paired_arms
from trails.compare.forest_layout import Stem
from trails.compare.statistics import (
    ARM,
    FIGURES,
    OUTCOME,
    ROOT,
    Aggregate,
    Group,
    arm_of,
    differing_names,
    group_rows,
    is_identifier,
    patterns,
    rank,
)
from trails.display import html, tables, text_table
from trails.display.tables import NUMERIC, Kind, PlainTable, Tabular
from trails.display.terminal_text import count
from trails.errors import InvalidInput
from trails.files import as_path, in_words, write_whole
from trails.model import iris
from trails.model.values import SessionRecord
from trails.rdf.score_records import ScoreValue
from trails.suggestions import did_you_mean
from trails.usage import total

if TYPE_CHECKING:
    from trails.compare.charts import ChartKind
    from trails.compare.drawing import Drawing
    from trails.compare.noise import NoiseFloor

SCORE: Final = "score."
"""What stands before a score's name in a column's name."""


class Scored(NamedTuple):
    """By what a session was scored: the score's name, the scorer's IRI and version."""

    name: str
    by_iri: str
    version: str | None


def score_columns(every: Iterable[Scored]) -> dict[Scored, str]:
    """Return the name of the column of each: `score.NAME`, with `@SCORER/VERSION` behind it if several gave the name.

    What several scorers gave is never put into one column: neither of two is taken for the right one.

    >>> grader, bob = Scored("ok", "urn:trails:agent:grader", "2"), Scored("ok", "urn:trails:principal:bob", None)
    >>> list(score_columns([grader]).values()), list(score_columns([grader, bob]).values())
    (['score.ok'], ['score.ok@agent:grader/2', 'score.ok@bob'])
    """
    by_name: dict[str, set[Scored]] = defaultdict(set)
    for each in every:
        by_name[each.name].add(each)
    columns: dict[Scored, str] = {}
    for name, scorers in sorted(by_name.items()):
        for each in sorted(scorers, key=lambda each: (scorer_name(each), each.by_iri)):
            column = SCORE + name if len(scorers) == 1 else f"{SCORE}{name}@{scorer_name(each)}"
            columns[each] = column if column not in columns.values() else f"{column} ({each.by_iri} {each.version!r})"
    return columns


def scorer_name(each: Scored) -> str:
    """Return who scored, and in which version: `agent:grader/2`."""
    name = iris.author_name(each.by_iri)
    return (f"agent:{name}" if iris.is_agent(each.by_iri) else name) + (f"/{each.version}" if each.version else "")


def score_cells(scores: Mapping[Scored, ScoreValue], names: Mapping[Scored, str]) -> dict[str, float | str | None]:
    """Return a branch's cells in the columns of scores: a truth value as 1 or 0, which has a mean; None if there is none."""
    cells = {column: scores.get(each) for each, column in names.items()}
    return {column: int(value) if isinstance(value, bool) else value for column, value in cells.items()}


PlotKind = Literal["forest", "box", "strip", "bar", "scatter"]


class PlotOptions(TypedDict, total=False):
    """What `Comparison.plot` takes beside its path and kind; its text says which goes with which."""

    column: str | None
    against: str | None
    axis: str | None
    title: str | None
    color_by: str | None
    collapse: bool | None


_OF_CHARTS: Final = ("column", "axis", "title")


def _check_plot(kind: str, options: Mapping[str, Any]) -> None:
    """Accept the options of a plot, or raise `InvalidInput` for an unknown kind or option, or one of another kind."""
    if kind not in (kinds := get_args(PlotKind)):
        raise InvalidInput(f"there is no plot {kind!r}{did_you_mean(str(kind), kinds)}; there are: {', '.join(kinds)}")
    allowed = (
        ("color_by", "collapse") if kind == "forest" else (*_OF_CHARTS, *(["against"] if kind == "scatter" else []))
    )
    for name, value in options.items():
        if name not in PlotOptions.__annotations__:
            near = did_you_mean(name, PlotOptions.__annotations__)
            raise InvalidInput(
                f"plot takes no {name!r}{near}; it takes: kind, {', '.join(PlotOptions.__annotations__)}"
            )
        if value is not None and name not in allowed:
            raise InvalidInput(f"a plot of kind {kind!r} takes no {name!r}; it takes: {', '.join(allowed)}")
    if kind == "scatter" and options.get("against") is None:
        raise InvalidInput(
            "a scatter needs a second column of numbers; name it: against='tokens', for instance, or --against"
        )


Names = str | Sequence[str] | None
"""One name, or several."""
META: Final = "meta."
"""What stands before a metadata key in a column's name."""
_MOST_NAMES: Final = 20
_MOST_LANES: Final = 60


@dataclass(frozen=True, slots=True)
class Usage:
    """What model calls reported, added up; None if none of them reported it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None
    calls: int = 0
    calls_without_usage: int = 0
    """Those of the calls that reported neither input nor output tokens, which the sums leave out."""

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together, or the one that was reported."""
        return total((self.input_tokens, self.output_tokens))

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            total((self.input_tokens, other.input_tokens)),
            total((self.output_tokens, other.output_tokens)),
            total((self.cost, other.cost)),
            self.calls + other.calls,
            self.calls_without_usage + other.calls_without_usage,
        )


@dataclass(frozen=True, slots=True)
class Branch:
    """A session in a comparison. `own` is what its own turns report, `total` all of its transcript, inherited turns too."""

    record: SessionRecord
    own_turns: int
    own: Usage
    total: Usage
    tools: Mapping[str, int]
    models: tuple[str, ...]
    last_answer: str | None
    scores: Mapping[Scored, ScoreValue] = field(default_factory=dict)
    """The newest scores of the session itself."""

    @property
    def turns(self) -> int:
        """How many turns its transcript has, inherited ones included."""
        return self.record.starts_at + self.own_turns


class FixedColumn(NamedTuple):
    """A column that every comparison has."""

    kind: Kind
    what: str
    cell: Callable[[Branch], Any]


def _money(cost: Decimal | None) -> float | None:
    return None if cost is None else float(cost)


COLUMNS: Final[Mapping[str, FixedColumn]] = {
    "session": FixedColumn("text", "the session's id", lambda b: b.record.id),
    "label": FixedColumn("text", "its label", lambda b: b.record.label),
    "branch": FixedColumn("text", "its branch's name", lambda b: b.record.branch),
    "parent": FixedColumn(
        "text", "the id of the session that it was forked from", lambda b: b.record.parent_session_id
    ),
    "fork_index": FixedColumn("place", "the first index that it owns", lambda b: b.record.forked_at_index),
    "turns": FixedColumn("integer", "turns of its transcript, inherited ones included", lambda b: b.turns),
    "own_turns": FixedColumn("integer", "turns that it owns", lambda b: b.own_turns),
    "calls": FixedColumn("integer", "model calls of its own turns", lambda b: b.own.calls),
    "calls_without_usage": FixedColumn(
        "integer", "those of its own calls that reported no tokens", lambda b: b.own.calls_without_usage
    ),
    "input_tokens": FixedColumn("integer", "input tokens of its own turns", lambda b: b.own.input_tokens),
    "output_tokens": FixedColumn("integer", "output tokens of its own turns", lambda b: b.own.output_tokens),
    "tokens": FixedColumn("integer", "input and output tokens of its own turns", lambda b: b.own.tokens),
    "cost": FixedColumn("number", "the reported cost of its own turns", lambda b: _money(b.own.cost)),
    "total_calls_without_usage": FixedColumn(
        "integer", "calls of its transcript that reported no tokens", lambda b: b.total.calls_without_usage
    ),
    "total_input_tokens": FixedColumn("integer", "input tokens of its transcript", lambda b: b.total.input_tokens),
    "total_output_tokens": FixedColumn("integer", "output tokens of its transcript", lambda b: b.total.output_tokens),
    "total_tokens": FixedColumn("integer", "input and output tokens of its transcript", lambda b: b.total.tokens),
    "total_cost": FixedColumn("number", "the reported cost of its transcript", lambda b: _money(b.total.cost)),
    "tool_calls": FixedColumn("integer", "how often its own turns asked for a tool", lambda b: sum(b.tools.values())),
    "tools": FixedColumn("counts", "the tools that its own turns asked for, with how often", lambda b: b.tools),
    "models": FixedColumn("names", "the models that generated its own turns", lambda b: b.models),
    "last_answer": FixedColumn("text", "the text of the last answer among its own turns", lambda b: b.last_answer),
    "principal": FixedColumn("text", "whom it runs for", lambda b: b.record.principal),
    "agent": FixedColumn("text", "what runs it", lambda b: b.record.agent),
    "state": FixedColumn("text", "its state", lambda b: b.record.state),
    "created": FixedColumn("time", "when it was made", lambda b: b.record.created),
}
"""What is known of every branch, beside its metadata and its scores, in this order."""


@dataclass(frozen=True, slots=True)
class Comparison(Tabular):
    """Branches side by side; get one from `Repository.compare`. It keeps nothing open and follows no later change.

    `roots` are the sessions whose forks are compared, `at` the fork point where only one was asked for. `columns` are the
    names of the columns shown; whatever else is known of a branch can still be grouped, sorted and coloured by.
    """

    roots: tuple[str, ...]
    at: int | None
    columns: tuple[str, ...]
    kinds: Mapping[str, Kind]
    """Every column that is known, shown or not, and what it holds."""
    groups: tuple[Group, ...]
    """The groups asked for, in order of their values; none if none was asked for."""
    _all_rows: tuple[Mapping[str, Any], ...]
    _stems: tuple[Stem, ...]
    as_of: str | None = None
    """The place of the store's log that was compared: `Repository.at` takes it and shows the store as it was then."""

    @classmethod
    def of(
        cls,
        roots: Sequence[str],
        branches: Sequence[Branch],
        *,
        at: int | None = None,
        trunk: Sequence[Branch] = (),
        as_of: str | None = None,
    ) -> Comparison:
        """Return the comparison of some branches, in their order, with all columns.

        `trunk` are sessions that are drawn with them and have no row; `as_of` is the mark of the log that was read.
        """
        keys = sorted({key for branch in branches for key in branch.record.meta})
        scored = score_columns(each for branch in branches for each in branch.scores)
        rows = tuple(_row(branch, keys) | score_cells(branch.scores, scored) for branch in branches)
        kinds = {name: column.kind for name, column in COLUMNS.items()}
        kinds |= {META + key: _meta_kind(key, [row[META + key] for row in rows]) for key in keys}
        kinds |= {name: tables.kind_of(row[name] for row in rows) for name in scored.values()}
        stems = tuple(
            Stem(branch.record.id, branch.record.parent_session_id, branch.record.starts_at, branch.turns)
            for branch in (*trunk, *branches)
        )
        return cls(tuple(roots), at, tuple(kinds), kinds, (), rows, stems, as_of)

    # --- what is in it

    @property
    def root(self) -> str | None:
        """The session whose forks are compared; None if there are several."""
        return self.roots[0] if len(self.roots) == 1 else None

    @property
    def called(self) -> str:
        """The session whose forks are compared, or how many they are, in words."""
        return self.roots[0] if len(self.roots) == 1 else count(len(self.roots), "session")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict of the shown columns for each branch, in order; fresh on each call."""
        return [dict(row) for row in self.table().rows]

    def __len__(self) -> int:
        return len(self._all_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        grouped = f" in {len(self.groups)} groups" if self.groups else ""
        what = repr(self.root) if self.root is not None else self.called
        heading = f"<Comparison of {what}: {count(len(self), 'branch')}{grouped}>"
        if not self.groups:
            return text_table.draw(heading, self.table())
        scores_first = self.showing(sorted(self.columns, key=lambda name: not name.startswith("score.")))
        return text_table.draw(heading, scores_first.table(groups=True, figures=("mean",)))

    @html.safe
    def _repr_html_(self) -> str:
        title = f"comparison of {html.inline(self.called)}: {count(len(self), 'branch')}"
        if not self.groups:
            return html.box(title, [tables.to_html(self.table(), digits=4)])
        names = [name for name in self.columns if any(name in group.aggregates for group in self.groups)]
        rows = [
            [group.name, str(len(group)), *(_spread(group, name) for name in names)]
            for group in self.groups[: html.MOST_ROWS]
        ]
        by = ", ".join(self.groups[0].key)
        headings = [by, "branches", *names]
        shown = html.table(headings, rows, right=headings[1:], total=len(self.groups))
        return html.box(title, [shown, html.note("mean ± standard deviation (least to greatest) of each group")])

    # --- as asked

    def arranged(
        self,
        *,
        columns: Names = None,
        group_by: Names = None,
        sort_by: Names = None,
        descending: bool = False,
        arms: Mapping[str, str] | Sequence[str] | None = None,
        identifiers: Sequence[str] | None = None,
    ) -> Comparison:
        """Return the same branches with other columns shown, grouped and sorted anew. `Repository.compare` says how.

        Raises `InvalidInput` for a column that is not known, naming those that are.
        """
        base = self if arms is None else self._with_arms(patterns(arms))
        base = base if identifiers is None else base._identified(identifiers)
        shown = base if columns is None else base.showing(columns)
        wanted = ARM if arms is not None and group_by is None else group_by
        by = () if wanted is None else base.known(wanted)
        rows = base._sorted(() if sort_by is None else base.known(sort_by), descending)
        groups = group_rows(rows, by, base.kinds, self.roots) if by else ()
        ordered = tuple(row for group in groups for row in group.rows) if by else rows
        return replace(shown, groups=groups, _all_rows=ordered)

    def _with_arms(self, arms: Mapping[str, str]) -> Comparison:
        """Return the comparison with a column `arm`, where none was tried on the root of them all."""
        rows = tuple({**row, ARM: None if row["session"] == self.root else arm_of(row, arms)} for row in self._all_rows)
        if not any(row[ARM] for row in rows):
            raise InvalidInput(f"no branch's label or id matches {', '.join(map(repr, arms.values()))}")
        columns = (*(name for name in self.columns if name != ARM), ARM)
        return replace(self, columns=columns, kinds={**self.kinds, ARM: "text"}, _all_rows=rows)

    def _identified(self, identifiers: Sequence[str]) -> Comparison:
        """Return the comparison in which just these columns of metadata hold whole numbers that say which."""
        columns = self.known(identifiers) if identifiers else ()
        kinds = dict(self.kinds)
        for name, kind in self.kinds.items():
            if name.startswith(META) and kind in ("integer", "place"):
                kinds[name] = "place" if name in columns else "integer"
        return replace(self, kinds=kinds)

    def collapsed(self) -> Comparison:
        """Return the same branches grouped by how they came out, the greatest group first.

        Forks of one point that own as many turns, with the same models and tools, came out the same if the last
        answer is the same text. `table(groups=True)` then has a row for each outcome, `count` says how many had it.
        """
        arranged = self.arranged(group_by=OUTCOME)
        named = differing_names(arranged.groups, self.kinds)
        largest = tuple(sorted(named, key=lambda group: (group.name != ROOT, -len(group))))
        return replace(arranged, groups=largest, _all_rows=tuple(row for group in largest for row in group.rows))

    # --- groups, and a test of two of them

    def group(self, name: str) -> Group:
        """Return the group of a name, as its `name` has it; raise `InvalidInput` for none, naming those there are."""
        self._some_groups()
        groups = [group for group in self.groups if group.name == name]
        if len(groups) != 1:
            there = ", ".join(repr(group.name) for group in self.groups[:_MOST_NAMES])
            more = f" and {len(self.groups) - _MOST_NAMES} more" if len(self.groups) > _MOST_NAMES else ""
            raise InvalidInput(
                f"{'two groups are' if groups else 'no group is'} named {name!r}; there are: {there}{more}"
            )
        return groups[0]

    def test(self, column: str, left: str, right: str, *, method: Method = "welch") -> ArmTest:
        """Return a two-sided test of whether a numeric column differs between two groups, named as `Group.name` has it.

        `method` is "welch" (the means, by Welch's t test, which takes no equal variances for granted), "mann-whitney"
        (which of two branches tends to have more, by ranks: for numbers far from a bell curve), or "paired" (the means of
        both groups in each of the sessions compared, by Student's t of their differences: for arms that were tried on the
        same samples). It comes with the size of the effect, with how many numbers each side has, and how many branches have
        none; those are left out.

        Each branch counts as one independent observation: forks of one point are, a fork and its own forks are not, nor are
        forks of several sessions that differ, whose pairs are.

        Raises `InvalidInput` if nothing is grouped, for an unknown group or column, for one that holds no numbers or
        says which and not how much, for fewer than 3 numbers on a side (for ranks, too few for any p below 0.05), and
        if nothing varies; `TrailsError` if scipy is not installed (the extra `stats`).
        """
        name = self._numbers_in(column, "tested")
        sides = self.group(left), self.group(right)
        if sides[0] is sides[1]:
            raise InvalidInput(f"{left!r} cannot be tested against itself; name two groups")
        if name in sides[0].key:
            raise InvalidInput(f"the branches are grouped by {name!r}; test another column")
        if method == "paired":
            one, other = ((group.name, self._by_root(group, name)) for group in sides)
            return compare_paired_arms(name, tuple(sides[0].key), one, other)
        reckoned = [(group.name, Aggregate.of([row[name] for row in group.rows])) for group in sides]
        return compare_arms(name, tuple(sides[0].key), reckoned[0], reckoned[1], method)

    def noise(self, column: str, *, level: float = 0.05, power: float = 0.8, seed: int = 0) -> NoiseFloor:
        """Return which groups differ in a numeric column by more than chance, and what their repeats could not show.

        A group is an arm, and its branches are its repeats, with at least 2 numbers; others are left out, and named. The
        spread within arms is what chance does. Each two arms are compared by a permutation test of their studentised means;
        they differ where p, corrected for all pairs by Holm's method, is at most `level`, and the interval of the difference
        then excludes 0. Of equal arms, whatever their distribution, any two are said to differ in at most the share `level`
        of comparisons. For the others, it says which difference so many repeats would have shown in the share `power` of
        cases, and how many repeats each arm needs to show the one found: by the noncentral t distribution and the spread
        that was seen, so for few repeats as roughly as they tell the spread.

        Print it for the sentences, or take its `pairs`. Each branch counts as one independent observation, see `test`.

        Raises `InvalidInput` if nothing is grouped, for branches of several sessions (`test` has pairs), for an unknown
        column or one without numbers, for no arm with 2 numbers, or more than 30; `TrailsError` if scipy is not installed.
        """
        name = self._numbers_in(column, "tested")
        self._some_groups()
        if len(self.roots) > 1:
            raise InvalidInput(
                f"the branches are of {len(self.roots)} sessions, which differ themselves, so they are no repeats; compare one "
                'session\'s branches, or use test(..., method="paired")'
            )
        from trails.compare.noise import noise_floor  # noqa: PLC0415 - scipy is optional

        arms = [
            (each.name, Aggregate.of([row[name] for row in each.rows])) for each in self.groups if each.name != ROOT
        ]
        return noise_floor(name, tuple(self.groups[0].key), arms, level=level, power=power, seed=seed)

    def _by_root(self, group: Group, column: str) -> dict[str, list[float]]:
        """Return a group's numbers in a column by which of the sessions compared they are a branch of."""
        parents = {stem.id: stem.parent for stem in self._stems}
        numbers: dict[str, list[float]] = {}
        for row in group.rows:
            if row[column] is not None:
                numbers.setdefault(_top(row["session"], parents), []).append(row[column])
        return numbers

    def _some_groups(self) -> None:
        if not self.groups:
            raise InvalidInput(
                "the comparison has no groups; give the columns to group by: group_by='meta.arm', for instance, or --group-by"
            )

    def showing(self, columns: str | Sequence[str]) -> Comparison:
        """Return the same rows in the same order and groups with other columns shown; `InvalidInput` for an unknown one."""
        return replace(self, columns=self.known(columns))

    def known(self, names: str | Sequence[str]) -> tuple[str, ...]:
        """Return names of columns as a tuple, each once, or raise `InvalidInput` for one that is not known."""
        columns = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
        if not columns:
            raise InvalidInput("name at least one column, or leave the list out")
        for name in columns:
            if name not in self.kinds:
                near = did_you_mean(name, self.kinds)
                raise InvalidInput(f"there is no column {name!r}{near}; there are: {', '.join(self.kinds)}")
        return columns

    def _sorted(self, names: Sequence[str], descending: bool) -> tuple[Mapping[str, Any], ...]:
        rows = list(self._all_rows)
        for name in reversed(names):
            missing = [row for row in rows if row[name] is None]
            present = [row for row in rows if row[name] is not None]
            rows = sorted(present, key=lambda row: rank(row[name]), reverse=descending) + missing
        return tuple(rows)

    # --- as others take it

    def table(self, *, groups: bool = False, figures: Names = None) -> PlainTable:
        """Return the shown columns as a table, a row a branch; with `groups`, a row a group with its aggregates.

        A row of a group has its name as `group`, the columns grouped by, `count`, and `NAME.FIGURE` for each numeric column and
        each of `figures`, which are those of `trails.compare.statistics.FIGURES` unless given: n, missing, mean, sd,
        median, ci_low, ci_high, min, max, sum. Raises `InvalidInput` for `groups` if nothing is grouped, and for
        `figures` without it or unknown.
        """
        if not groups:
            if figures is not None:
                raise InvalidInput("figures are those of groups; give groups=True too")
            return self._table(self._all_rows)
        self._some_groups()
        wanted = _checked_figures(figures)
        by = tuple(self.groups[0].key)
        numeric = dict.fromkeys(name for name in self.columns if any(name in group.aggregates for group in self.groups))
        kinds: dict[str, Kind] = {"group": "text"}
        kinds |= {name: self.kinds[name] for name in by} | {"count": "integer"}
        kinds |= {f"{name}.{figure}": _figure_kind(figure, self.kinds[name]) for name in numeric for figure in wanted}
        return PlainTable(kinds, [_group_row(group, numeric, wanted) for group in self.groups])

    def table_of(self, group: Group) -> PlainTable:
        """Return the shown columns of one group's branches as a table."""
        return self._table(group.rows)

    def _table(self, rows: Sequence[Mapping[str, Any]]) -> PlainTable:
        shown = [{name: tables.fresh(row[name]) for name in self.columns} for row in rows]
        return PlainTable({name: self.kinds[name] for name in self.columns}, shown)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON: root, roots, at, as_of, columns, rows, and groups by session id."""
        return {
            "root": self.root,
            "roots": list(self.roots),
            "at": self.at,
            "as_of": self.as_of,
            "columns": list(self.columns),
            "rows": [tables.plain(row) for row in self.rows],
            "groups": [group.to_dict() for group in self.groups],
        }

    def to_json(self) -> str:
        """Return `to_dict()` as indented JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_csv(self, *, groups: bool = False, figures: Names = None, safe: bool = True) -> str:
        """Return CSV (RFC 4180) with a line of names: a row a branch in order, or, with `groups`, a row a group (`table`).

        Each row begins with its name: the session's id, shown or not, or the group's. Missing cells are empty; tools are
        written `search=3; sum=1`, models `a; b`, nested metadata as JSON. A text that a spreadsheet would take for a
        formula, since it begins with `=`, `+`, `-`, `@` or a tab, gets a `'` before it; `safe=False` writes it as it is.
        """
        named = self if groups or "session" in self.columns else self.showing(["session", *self.columns])
        return tables.to_csv(named.table(groups=groups, figures=figures), safe=safe)

    def to_markdown(self, *, groups: bool = False, figures: Names = None, digits: int | None = None) -> str:
        """Return a Markdown table: a row a branch in order, or, with `groups`, a row a group (`table`). No text is shortened.

        With `digits` (1 to 15), numbers that are no whole numbers are rounded to as many significant digits.
        """
        return tables.to_markdown(self.table(groups=groups, figures=figures), digits=digits)

    def to_latex(
        self,
        *,
        groups: bool = False,
        figures: Names = None,
        digits: int | None = None,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        """Return the same as a `tabular` of LaTeX with the rules of the package booktabs; nothing in a text is markup.

        Unless columns were chosen, it has those that a paper shows: session, label, metadata, scores, tokens and cost, where
        there are any. `figures` of groups are n, mean and sd unless given, and a group's name stands for its values. With a
        `caption`, it is a `table` that floats, and `label` is what `\\ref` calls it by. `digits` as in `to_markdown`.

        Raises `InvalidInput` for a label with other characters than letters, digits and `:._/-`, or without a caption.
        """
        shown = self.showing(self._of_papers()) if self.columns == tuple(self.kinds) else self
        table = shown.table(groups=groups, figures=("n", "mean", "sd") if groups and figures is None else figures)
        if groups:
            kinds = {name: kind for name, kind in table.kinds.items() if name not in self.groups[0].key}
            table = PlainTable(kinds, table.rows)
        return tables.to_latex(table, digits=digits, caption=caption, label=label)

    def _of_papers(self) -> list[str]:
        """Return the columns that a paper shows, of those in which there is anything."""
        wanted = (
            "session",
            "label",
            *(name for name in self.kinds if name.startswith((META, SCORE))),
            "tokens",
            "cost",
        )
        return [name for name in wanted if any(row[name] not in (None, "") for row in self._all_rows)]

    def to_pandas(self, *, groups: bool = False, figures: Names = None) -> Any:
        """Return a `pandas.DataFrame`: a row a branch in order, or, with `groups`, a row a group (`table`).

        Columns are typed; missing whole numbers stay missing (`Int64`). Tools are dicts, models lists. Needs pandas:
        raises `TrailsError` that names the extra without it.
        """
        return tables.to_pandas(self.table(groups=groups, figures=figures))

    def to_arrow(self, *, groups: bool = False, figures: Names = None) -> Any:
        """Return a `pyarrow.Table`: a row a branch in order, or, with `groups`, a row a group (`table`).

        Columns are typed: tools are a map, models a list, times UTC in microseconds; metadata that is nested or of mixed
        types is JSON text. Needs pyarrow: raises `TrailsError` that names the extra without it.
        """
        return tables.to_arrow(self.table(groups=groups, figures=figures))

    @overload
    def plot(self, path: None = None, *, kind: PlotKind = "forest", **options: Unpack[PlotOptions]) -> Drawing: ...
    @overload
    def plot(
        self, path: str | os.PathLike[str], *, kind: PlotKind = "forest", **options: Unpack[PlotOptions]
    ) -> None: ...
    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        kind: PlotKind = "forest",
        **options: Unpack[PlotOptions],
    ) -> Drawing | None:
        """Draw the fork forest, or a column's numbers by arm: in a notebook in place, or into a file.

        A `path` ends in .svg, .pdf or .png; its file is replaced, and is for its owner alone (mode 0600). Without one, a
        drawing is returned that a notebook shows, and whose `svg` is the text. The same comparison gives the same bytes, with
        the same version of matplotlib.

        `kind` is "forest", or one of the following, which draw the numbers of `column` (default: the only score there is):

        - "box": quartiles of each arm, and each branch as a dot; where an arm has at least 5 numbers.
        - "strip": each branch as a dot, and each arm's mean.
        - "bar": the mean of each arm with its 95% interval (`Aggregate.ci`, of at least 2 numbers), in figures beside it.
        - "scatter": each branch by `against`, another column, and `column`; an arm has a colour and a mark.

        Arms are the groups; a scatter needs none. Each has its n, and says how many branches have no number. `axis` is what
        the numbers' axis is called, with their unit (default: the column's name), `title` a line above the chart.

        In a forest, the index of turns lies along: a branch runs from its fork index to its length and leaves its parent
        there; long stretches in which nothing begins or ends are cut short and marked. Its colours are those of `color_by`:
        numbers and times on a scale (a root beyond the range of its forks gets the colour at the end), anything else in up to
        20 distinct colours with a legend; a missing value is grey. With `collapse` (default: if there are more than 60
        branches), forks of one point stand together that are in one group, or of one colour; where that leaves more than 60
        lanes, however long they are. On a scale they have the colour of their mean.

        Raises `InvalidInput` for another suffix or kind, an option of another kind, a column that is unknown or has no
        numbers, more than 20 distinct colours or 60 arms, and for a chart if nothing is grouped or no arm has enough numbers;
        `TrailsError` if matplotlib is not installed (the extra `plot`).
        """
        place = None if path is None else as_path(path, "the file of a plot")
        form = "svg" if place is None else place.suffix.lower().removeprefix(".")
        if form not in ("svg", "pdf", "png"):
            raise InvalidInput(f"{str(path)!r} names no format to draw in; let it end in .svg, .pdf or .png")
        _check_plot(kind, options)
        if kind == "forest":
            collapse = options.get("collapse")
            drawn = self._drawn(
                form, options.get("color_by"), collapse=len(self) > _MOST_LANES if collapse is None else collapse
            )
        else:
            drawn = self._chart(kind, form, options)
        if place is None:
            from trails.compare.drawing import Drawing  # noqa: PLC0415 - matplotlib is optional

            return Drawing(drawn.decode("utf-8"))
        with in_words(place, "written"):
            write_whole(place, lambda out: out.write(drawn))
        return None

    def _chart(self, kind: ChartKind, form: str, options: PlotOptions) -> bytes:
        column, against = options.get("column"), options.get("against")
        name = self._only_score() if column is None else self._numbers_in(column, "drawn")
        along = None if against is None else self._numbers_in(against, "drawn")
        if kind != "scatter":
            self._some_groups()
        tables.optional("matplotlib", "plot", "a plot")
        from trails.compare.charts import ArmPoints, Captions, draw_chart  # noqa: PLC0415 - optional, and takes a second

        groups = [(group.name, group.rows) for group in self.groups] or [("all branches", self._all_rows)]
        arms = [
            ArmPoints(called, tuple(row[name] for row in rows), tuple(row[along] for row in rows) if along else ())
            for called, rows in groups
        ]
        by = ", ".join(self.groups[0].key) if self.groups else ""
        return draw_chart(
            kind, arms, Captions(options.get("axis") or name, by, along or "", options.get("title")), form
        )

    def _only_score(self) -> str:
        """Return the column of the only score with numbers, those shown first, or raise `InvalidInput`."""
        scores = [name for name, kind in self.kinds.items() if name.startswith(SCORE) and kind in ("integer", "number")]
        shown = [name for name in scores if name in self.columns] or scores
        if len(shown) == 1:
            return shown[0]
        if shown:
            raise InvalidInput(
                f"there are {len(shown)} scores; say which is to be drawn: column={shown[0]!r} or another"
            )
        raise InvalidInput(
            "no branch has a score that is a number, so there is nothing to draw; score the branches first "
            "(store.score_all), or name another column of numbers, such as column='tokens'"
        )

    def _numbers_in(self, column: str, verb: str) -> str:
        """Return the name of a column of numbers that say how much, or raise `InvalidInput`."""
        name = self.known(column)[0]
        if self.kinds[name] not in ("integer", "number"):
            raise InvalidInput(f"{name!r} has no numbers that say how much, so it cannot be {verb}")
        return name

    def _drawn(self, form: str, color_by: str | None, *, collapse: bool) -> bytes:
        column = None if color_by is None else self.known(color_by)[0]
        tables.optional("matplotlib", "plot", "a plot")
        from trails.compare.plots import Metric, draw_plot, put_together  # noqa: PLC0415 - optional, and takes a second

        cells = {row["session"]: row for row in self._all_rows}
        names = {session_id: row["label"] or session_id for session_id, row in cells.items()}
        metric = None
        if column is not None:
            values = {session_id: row[column] for session_id, row in cells.items()}
            metric = Metric(column, self.kinds[column], values)
        if not collapse:
            return draw_plot(self._stems, names, metric, form)
        groups = {row["session"]: group.name for group in self.groups for row in group.rows}
        stems, called, painted, bundles = put_together(self._stems, names, groups, metric, _MOST_LANES)
        return draw_plot(stems, called, painted, form, bundles)


def _top(session_id: str, parents: Mapping[str, str | None]) -> str:
    while (parent := parents[session_id]) is not None and parent in parents:
        session_id = parent
    return session_id


def _row(branch: Branch, keys: Sequence[str]) -> dict[str, Any]:
    meta = branch.record.meta
    return {name: column.cell(branch) for name, column in COLUMNS.items()} | {META + key: meta.get(key) for key in keys}


def _meta_kind(key: str, values: Sequence[Any]) -> Kind:
    kind = tables.kind_of(values)
    return "place" if kind == "integer" and is_identifier(key) else kind


def _group_row(group: Group, numeric: Iterable[str], figures: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"group": group.name, **group.key, "count": len(group)}
    for name in numeric:
        aggregate = group.aggregates.get(name)
        for figure in figures:
            row[f"{name}.{figure}"] = None if aggregate is None else getattr(aggregate, figure)
    return row


def _spread(group: Group, name: str) -> str:
    aggregate = group.aggregates.get(name)
    return "" if aggregate is None else aggregate.spread()


_WHOLE_FIGURES: Final = frozenset({"n", "missing"})
_LIKE_THE_COLUMN: Final = frozenset({"min", "max", "sum"})


def _figure_kind(figure: str, kind: Kind) -> Kind:
    return "integer" if figure in _WHOLE_FIGURES else kind if figure in _LIKE_THE_COLUMN else "number"


def _checked_figures(figures: Names) -> tuple[str, ...]:
    if figures is None:
        return FIGURES
    wanted = (figures,) if isinstance(figures, str) else tuple(dict.fromkeys(figures))
    for figure in wanted:
        if figure not in FIGURES:
            raise InvalidInput(f"there is no figure {figure!r}; there are: {', '.join(FIGURES)}")
    return wanted


__all__ = ["COLUMNS", "META", "NUMERIC", "SCORE", "Aggregate", "Branch", "Comparison", "Group", "Usage"]
