"""Read a session, or it with all its forks, for an export, and report what its format could not say.

Each turn is held by the session that owns it, and by no other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trails.compare import session_figures
from trails.display.terminal_text import count
from trails.exchange.merge import imported_id
from trails.history.annotation_kinds import notes_in, scores_of_session, tags, turn_scores
from trails.history.lookup.forest import ForestNode
from trails.history.reader import Reader
from trails.model import iris, lineage
from trails.model.lineage import Segment
from trails.model.values import Note, SessionRecord, SystemPrompt, Tag, Turn
from trails.rdf import vocab
from trails.rdf.score_records import Score
from trails.session import Repository
from trails.store.contract import QuadStore


@dataclass(frozen=True, slots=True)
class SessionExport:
    """What was written of a session: of which sessions, how many turns, each once, and what the format has no place for."""

    format: str
    sessions: tuple[str, ...]
    turns: int
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return {name: list(each) if isinstance(each, tuple) else each for name, each in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Member:
    """A session of a family: its lineage, itself first, and its own turns in order of index.

    One that was not `asked` for is an ancestor, and has no more turns than its descendants inherit.
    """

    chain: tuple[SessionRecord, ...]
    turns: tuple[Turn, ...]
    asked: bool
    prompts: tuple[SystemPrompt, ...] = ()
    """The versions of the system prompt that it owns, oldest first."""
    prompt: SystemPrompt | None = None
    """The one in force at its end, its own or inherited; of an ancestor not told."""
    tags: tuple[Tag, ...] = ()
    scores: tuple[Score, ...] = ()
    """The scores of the session as a whole, in order of time."""

    @property
    def record(self) -> SessionRecord:
        """The session's own row."""
        return self.chain[0]


@dataclass(frozen=True, slots=True)
class Family:
    """Sessions with what they inherit: ancestors before their forks, forks by fork index and age."""

    members: tuple[Member, ...]
    notes: Mapping[str, tuple[Note, ...]] = field(default_factory=dict)
    """The notes on turns, by the turn's digest."""
    scores: Mapping[str, tuple[Score, ...]] = field(default_factory=dict)
    """The scores of turns and spans, by the digest of the last turn that was scored."""
    spawned: Mapping[str, tuple[Family, ...]] = field(default_factory=dict)
    """The sessions that members spawned, where they were asked for, by the member's id; each with its forks where those were."""

    def asked(self) -> Iterator[Member]:
        """Yield the members that were asked for."""
        return (member for member in self.members if member.asked)

    def everyone(self) -> Iterator[tuple[Family, Member]]:
        """Yield all members, each with its family and followed by what it spawned, and none twice."""
        seen: set[str] = set()

        def walk(family: Family) -> Iterator[tuple[Family, Member]]:
            for member in family.members:
                if member.record.id in seen:
                    continue  # an ancestor of a spawned session, which stands here already
                seen.add(member.record.id)
                yield family, member
                for each in family.spawned.get(member.record.id, ()):
                    yield from walk(each)

        return walk(self)

    def runs(self, member: Member) -> list[tuple[Member, Sequence[Turn]]]:
        """Return whose turns make up a member's transcript, in order: each owner with those of its turns that count."""
        by_id = {each.record.id: each for each in self.members}
        found = [(by_id[run.record.id], run) for run in lineage.segments(member.chain) if run.record.id in by_id]
        return [
            (owner, [t for t in owner.turns if run.start <= t.index and (run.end is None or t.index < run.end)])
            for owner, run in found
        ]

    def transcript(self, member: Member) -> list[Turn]:
        """Return a member's whole transcript, what it inherits too."""
        return [turn for _, turns in self.runs(member) for turn in turns]

    @property
    def turns(self) -> int:
        """How many turns there are, each counted once, those of spawned sessions too."""
        return sum(len(member.turns) for family, member in self.everyone() if member.asked or family is self)

    def ids(self) -> Iterator[str]:
        """Yield the ids of the sessions that were asked for, and of those that they spawned."""
        for member in self.asked():
            yield member.record.id
            for each in self.spawned.get(member.record.id, ()):
                yield from each.ids()


def family_ids(repository: Repository, session_id: str, *, forks: bool) -> list[str]:
    """Return the ids of the sessions that are asked for: one, or with `forks` all its descendants by forks too."""
    reader = repository.reader
    if not forks:
        return [session_id]
    return session_figures.in_tree_order(session_figures.families(reader, [session_id]), session_id)


def read_family(
    repository: Repository, session_id: str, *, forks: bool, spawned: bool = False, inherited: int | None = None
) -> Family:
    """Return a session, or with `forks` it and all its descendants by forks, and the ancestors that they need.

    With `spawned` the sessions that these spawned come along, and those that they spawned in turn. Of the turns that the
    session inherits, the last `inherited` are read, all unless that is given.

    Raises as `Repository.load` does where a transcript is not whole: nothing shorter is ever given.
    """
    reader = repository.reader
    chains = session_figures.families(reader, [session_id]) if forks else {session_id: reader.lineage(session_id)}
    order = session_figures.in_tree_order(chains, session_id) if forks else [session_id]
    own = chains[session_id]
    first = 0 if inherited is None else max(0, own[0].starts_at - inherited)
    runs = [run for run in lineage.segments(own) if run.end is None or run.end > first]
    cuts = {run.record.id: replace(run, start=max(run.start, first)) for run in runs}
    above = [(own[at:], False) for at in range(len(own) - 1, 0, -1) if own[at].id in cuts]
    wanted = [*above, *((chains[each], True) for each in order)]
    read_turns = {
        chain[0].id: reader.own_turns(cuts.get(chain[0].id) or Segment(chain[0], chain[0].starts_at, None))
        for chain, _ in wanted
    }
    prompts = _prompts(reader, list(read_turns))
    store = repository.workspace.store
    members = tuple(
        Member(
            chain=chain,
            turns=tuple(read_turns[chain[0].id]),
            asked=asked,
            prompts=prompts.get(chain[0].id, ()),
            prompt=reader.prompt(chain) if asked else None,
            tags=tuple(tags(store, chain[0].id)),
            scores=tuple(each for each in scores_of_session(store, chain[0].id) if each.start is None) if asked else (),
        )
        for chain, asked in wanted
    )
    for member in Family(members).asked():
        _check(reader, member.chain, Family(members).transcript(member), first)
    made = Family(members, _notes(repository, [chains[each] for each in order]), _scores(store, read_turns.values()))
    return _with_spawned(repository, made, forks=forks) if spawned else made


def _scores(store: QuadStore, turns: Iterable[Sequence[Turn]]) -> dict[str, tuple[Score, ...]]:
    if not store.quads((None, vocab.TYPE, vocab.SCORE, vocab.CATALOG)):  # the common case: a look-up a turn is spared
        return {}
    digests = dict.fromkeys(turn.digest for each in turns for turn in each)
    return {digest: tuple(found) for digest in digests if (found := turn_scores(store, digest))}


def _with_spawned(repository: Repository, made: Family, *, forks: bool) -> Family:
    """Return a family with what its members spawned; a sub-agent that began with a copy of its parent's turns is a fork."""
    below: dict[str, list[str]] = defaultdict(list)
    for twig in repository.forest():
        if twig.again or twig.node.status != "stored":
            continue
        if (spawner := twig.node.spawner or _copied_for(repository, twig.node)) is not None:
            below[spawner].append(twig.node.id)
    seen = {member.record.id for member in made.members}

    def filled(here: Family) -> Family:
        found: dict[str, tuple[Family, ...]] = {}
        for member in here.asked():
            new = [each for each in below[member.record.id] if each not in seen]
            seen.update(new)
            if new:
                found[member.record.id] = tuple(filled(read_family(repository, each, forks=forks)) for each in new)
        return replace(here, spawned=found)

    return filled(made)


def _copied_for(repository: Repository, node: ForestNode) -> str | None:
    """Return the session that an imported fork is a sub-agent's of, where its source said so."""
    if node.parent is None:
        return None
    record = repository.record(node.id)
    source, _, _ = (record.source_session or "").partition(":")
    named = record.meta.get("spawned_by")
    return imported_id(source, named) if source and isinstance(named, str) else None


def _check(reader: Reader, chain: tuple[SessionRecord, ...], turns: list[Turn], first: int) -> None:
    """Accept what was read of a session's transcript if it is whole from an index on, or raise what `Reader.turns` raises."""
    if reader.is_deleted(chain[0].id):
        raise reader.not_found(chain[0].id)
    lineage.check_dense(chain[0].id, turns, lineage.segments(chain), first)
    if not first:
        lineage.check_fork_head(chain[0], turns)


def _prompts(reader: Reader, session_ids: Sequence[str]) -> dict[str, tuple[SystemPrompt, ...]]:
    found: dict[str, list[SystemPrompt]] = defaultdict(list)
    for (session_id, _), prompt in sorted(reader.prompts(session_ids).items()):
        found[session_id].append(prompt)
    return {session_id: tuple(each) for session_id, each in found.items()}


def _notes(repository: Repository, chains: Sequence[tuple[SessionRecord, ...]]) -> dict[str, tuple[Note, ...]]:
    found: dict[str, dict[str, Note]] = defaultdict(dict)
    for chain in chains:
        for note in notes_in(repository.workspace.store, repository.reader, chain):
            found[note.turn_digest][note.id] = note
    return {digest: tuple(notes.values()) for digest, notes in found.items()}


def report(
    name: str, family: Family, always: tuple[str, ...], reasons: Mapping[str, str], lost: Counter[str]
) -> SessionExport:
    """Return what was written of a family: `reasons` says why what was `lost` and counted has no place in the format."""
    told = tuple(f"{count(number, noun)}: {why}" for noun, why in reasons.items() if (number := lost[noun]))
    return SessionExport(name, tuple(family.ids()), family.turns, always + told)


def author_name(author: str) -> str:
    """Return an author's name from the IRI, as in `Repository.score`: a principal's, or `agent:NAME`."""
    return f"agent:{iris.author_name(author)}" if iris.is_agent(author) else iris.author_name(author)


def prompt_text(prompt: SystemPrompt) -> str:
    """Return the text of a system prompt, or that it is redacted."""
    return "[redacted]" if prompt.redacted else prompt.text
