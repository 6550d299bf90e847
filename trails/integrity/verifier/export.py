"""Hold an export against its digests: the chain of each session through all forks, and what stands beside the turns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import BinaryIO

from trails.integrity.verifier.digest_rules import GENESIS, salted_digest, score_digest, version_digest
from trails.integrity.verifier.quads import (
    INTEGER,
    PROV,
    REDACTED,
    STRING,
    TRAILS,
    TYPE,
    Properties,
    Term,
    Unreadable,
    first_value,
    graphs_of,
    index_of,
    only_value,
    typed_value,
)
from trails.integrity.verifier.sessions import Finding, Redactions, Session, inherited_turns, owner_at
from trails.integrity.verifier.terms import PAYLOAD, TOOL, iri_of, payload_bytes, tool_of
from trails.integrity.verifier.turn_statements import LINKS, SHOWN_LINKS, stands_as, written_as
from trails.integrity.verifier.turns import Turn

_MOST_ANCESTORS = 32
_BESIDE = ("ledger", "entry")


_OF_TURN = re.compile("[0-9]+-[0-9a-f]+(/(?!deletion).*)?", re.DOTALL)
"""What follows a session's IRI in that of a turn of it, or of a part of one: such stand in the session's graph alone."""
_PLACE = re.compile("[^/]*/([0-9]{1,18})-")
"""What the IRI of a turn begins with: that of its session, and its index."""
_PREVIOUS = TRAILS + "previousTurn"
_WORDS = {TRAILS + "parent_session_id": TRAILS + "parentSession", TRAILS + "forked_at_index": TRAILS + "forkedAtIndex"}
"""What is derived in words of Python, and what it is derived from."""


class Export:
    """An export, read and held against its digests: `sessions`, `findings`, and what no digest covers."""

    def __init__(self, file: BinaryIO, *, may_be_empty: bool = False) -> None:
        """Read an export; one without any session is refused unless it `may_be_empty`."""
        self.findings: list[Finding] = []
        self.uncovered: dict[tuple[str, str], int] = defaultdict(int)
        """How many statements of a session no digest covers, by the session's id and what they say."""
        self.sessions: dict[str, Session] = {}
        self.redactions = Redactions()
        graphs = graphs_of(file)
        catalog = graphs.pop("", {})
        self._read_sessions(catalog)
        if not self.sessions and not may_be_empty:
            raise Unreadable("the file holds no session of Trails")
        self.redactions.read(catalog)
        carried = {graph: subjects for graph, subjects in graphs.items() if graph.startswith(PAYLOAD)}
        for graph, subjects in graphs.items():
            if graph not in carried:
                self._read_graph(graph, subjects)
        for session in sorted(self.sessions.values(), key=lambda each: each.id):
            self._check(session)
        self._check_payloads(carried)
        self._check_derived(catalog)
        self._check_catalog(catalog)
        self.findings.sort(key=lambda each: (each.session or "", -1 if each.index is None else each.index, each.code))

    def _add(self, code: str, session: str | None, index: int | None, message: str) -> None:
        self.findings.append(Finding(code, session, index, message))

    # --- reading

    def _read_sessions(self, catalog: dict[str, Properties]) -> None:
        for iri, row in catalog.items():
            if (TRAILS + "Session", "") in row.get(TYPE, []):
                try:
                    self.sessions[iri] = Session(iri, row)
                except ValueError as error:
                    self._add("bad-row", None, None, f"the row of {iri} was altered: {error}")

    def _read_graph(self, graph: str, subjects: dict[str, Properties]) -> None:
        session = self.sessions.get(graph)
        if session is None:
            home, _, name = graph.rpartition("/")
            if home in self.sessions and name in _BESIDE:
                return
            self._add("stray-graph", None, None, f"the graph {graph} belongs to no session of the file")
            return
        parts: dict[str, dict[str, Properties]] = defaultdict(dict)
        for subject, properties in subjects.items():
            home, _, rest = subject.partition("/")
            name, _, part = rest.partition("/")
            if home != graph or not name:
                self._add("stray", session.id, None, f"{subject} is no turn of the session in whose graph it stands")
                continue
            parts[f"{home}/{name}"][part] = properties
        for iri, each in parts.items():
            self._read_turn(session, iri, each)

    def _read_turn(self, session: Session, iri: str, parts: dict[str, Properties]) -> None:
        try:
            turn = Turn(iri, {"": {}, **parts})
        except (ValueError, RecursionError) as error:
            self._add("unreadable", session.id, None, f"{iri} was altered, or is no turn: {error}")
            return
        if turn.index < session.start:
            session.copies.append(turn)
        elif turn.index in session.turns:
            self._add("duplicate-index", session.id, turn.index, f"has a second turn at index {turn.index}")
        else:
            session.turns[turn.index] = turn

    # --- the chain

    def _lineage(self, session: Session) -> list[Session]:
        """Return a session and its ancestors, nearest first, as far as the file holds them."""
        found = [session]
        while found[-1].parent is not None and len(found) <= _MOST_ANCESTORS:
            parent = self.sessions.get(found[-1].parent)
            if parent is None or parent in found:
                break
            found.append(parent)
        return found

    def _check(self, session: Session) -> None:
        lineage = self._lineage(session)
        if lineage[-1].parent is not None:
            what = f"its ancestor {lineage[-1].parent} is not in the file, is its own ancestor, or is too far up"
            self._add("bad-lineage", session.id, None, what)
        before, wanted, ancestors = self._before(session, lineage), session.start, {each.iri for each in lineage}
        answered: dict[str, str] = {}
        names: dict[int, str] = {}
        for turn in inherited_turns(lineage):
            _take_calls(turn, answered)
            names.update({turn.index: turn.name} if turn.is_summary else {})
        copies = {turn.iri for each in lineage for turn in each.turns.values() if turn.copying is not None}
        for index in sorted(session.turns):
            turn = session.turns[index]
            if index != wanted:
                self._add("index-gap", session.id, wanted, f"has no turn {wanted}")
            self._check_turn(session, turn, before)
            self._check_statements(session, turn, answered, copies, names)
            for what in _uncovered_names(turn, answered, ancestors):
                self.uncovered[session.id, what] += 1
            _take_calls(turn, answered)
            if turn.is_summary:
                names[index] = turn.name
            before, wanted = turn.digest, index + 1
        session.head, session.length = before, wanted
        for turn in session.copies:
            owner = owner_at(lineage[1:], turn.index)
            twin = None if owner is None else owner.turns.get(turn.index)
            if twin is None or twin.digest != turn.digest:
                self._add("stray", session.id, turn.index, "has a turn below its fork index that is no copy")

    def _before(self, session: Session, lineage: list[Session]) -> str:
        """Return the digest before a session's first own turn, and hold it against the one noted when it was forked."""
        if session.parent is None or session.start == 0:
            if session.fork_head not in (None, "", GENESIS):
                self._add("fork-head", session.id, None, "was forked from the start with another digest")
            return GENESIS
        at = session.start - 1
        owner = owner_at(lineage[1:], at)
        turn = None if owner is None else owner.turns.get(at)
        if turn is None:
            self._add("index-gap", session.id, at, f"was forked after turn {at}, which is not in the file")
            return session.fork_head or GENESIS
        if session.fork_head != turn.digest:
            self._add("fork-head", session.id, at, f"was forked from a turn {at} with another digest")
        return turn.digest

    def _check_turn(self, session: Session, turn: Turn, before: str) -> None:
        made, stands = turn.after(before)
        fits, said = made == turn.digest, self.redactions.standing.get(turn.digest)
        is_whole = turn.withheld is None and turn.made_with is None
        holds = fits and is_whole if said is None else stands == said and (fits or turn.is_unnamed)
        if not holds:
            self._add("digest-mismatch", session.id, turn.index, "was altered: its digest does not fit it")
        elif not fits:
            session.stands.append(turn.index)
        if turn.taken or turn.withheld is not None:
            session.redacted.append(turn.index)
            if turn.digest not in self.redactions.turns:
                what = "lost its content or a part of it, and no redaction in the file says so"
                self._add("unsaid", session.id, turn.index, what)
        if turn.iri != f"{session.iri}/{turn.index}-{turn.digest[:16]}":
            self._add("wrong-iri", session.id, turn.index, f"has the IRI of another turn: {turn.iri}")
        if session.parent is not None and turn.copying is None and turn.said["branch"] != session.branch:
            what = f"is of branch {turn.said['branch']!r}, not {session.branch!r}"
            self._add("wrong-branch", session.id, turn.index, what)

    def _check_statements(
        self, session: Session, turn: Turn, answered: dict[str, str], copies: set[str], names: dict[int, str]
    ) -> None:
        """Hold all that is said of a turn against what it would be written as."""
        try:
            expected = written_as(turn, answered, copies, names)
        except (ValueError, RecursionError, ArithmeticError) as error:
            self._add("unreadable", session.id, turn.index, f"was altered: {error}")
            return
        said = list(stands_as(turn))
        actual = set(said)
        for part, name, term in sorted(actual - expected, key=repr):
            self._add("stray", session.id, turn.index, f"says what no digest covers: {part} {name} {term[0]}".strip())
        for part, name, term in sorted(expected - actual, key=repr):
            self._add("missing", session.id, turn.index, f"does not say {part} {name} {term[0]}")
        if len(said) > len(actual):
            self._add("stray", session.id, turn.index, "says the same twice")
        for copied, _ in turn.own.get(PROV + "alternateOf", []):
            if copied.partition("/")[2] != turn.name or copied == turn.iri:
                self._add("stray", session.id, turn.index, f"says that it is a copy of another turn: {copied}")

    # --- beside the turns

    def _check_payloads(self, carried: dict[str, dict[str, Properties]]) -> None:
        """Hold the bytes of payloads against their names, and find those that are missing, or no turn's."""
        named: set[str] = set()
        for session in self.sessions.values():
            for turn in (*session.turns.values(), *session.copies):
                for iri in [iri for each in turn.payloads for iri, _ in each.get(TRAILS + "payloadBytes", [])]:
                    named.add(iri)
                    if iri not in carried:
                        self._add("missing", session.id, turn.index, f"carries {iri}, which is not in the file")
        for iri, subjects in carried.items():
            if iri not in named:
                self._add("stray-graph", None, None, f"no turn of the file carries {iri}")
            try:
                payload_bytes(iri, subjects)
            except ValueError as error:
                self._add("digest-mismatch", None, None, f"{iri} was altered: {error}")

    def _digest_at(self, session: Session, index: int) -> str | None:
        owner = owner_at(self._lineage(session), index)
        turn = None if owner is None else owner.turns.get(index)
        return GENESIS if index < 0 else None if turn is None else turn.digest

    def _check_derived(self, catalog: dict[str, Properties]) -> None:
        """Hold what is derived against what it follows from, and take it out of the catalog. It need not be there."""
        for iri, row in list(catalog.items()):
            for name in (_PREVIOUS, *_WORDS):
                said = row.pop(name, None)
                if said is not None and said != self._derived(iri, row, name):
                    home = self.sessions.get(iri_of(iri))
                    what = f"{name[len(TRAILS) :]} of {iri} is not what follows from the rest of the file"
                    self._add("stray", None if home is None else home.id, None, what)
            if not row:
                del catalog[iri]

    def _derived(self, iri: str, row: Properties, name: str) -> list[Term] | None:
        if name in _WORDS:
            return row.get(_WORDS[name])
        session = self.sessions.get(iri_of(iri))
        turns = {} if session is None else session.turns
        turn = turns.get(int(found[1])) if (found := _PLACE.match(iri)) else None
        if session is None or turn is None or turn.iri != iri:
            return None
        owner = owner_at(self._lineage(session), turn.index - 1)
        before = None if owner is None else owner.turns.get(turn.index - 1)
        return None if before is None else [(before.iri, "")]

    def _check_catalog(self, catalog: dict[str, Properties]) -> None:
        checks = {
            "SystemPrompt": self._check_prompt, "Tag": self._check_tag, "Note": self._check_note, "Score": self._check_score,
        }  # fmt: skip
        for iri, row in catalog.items():
            home, _, rest = iri.partition("/")
            if home in self.sessions and _OF_TURN.fullmatch(rest):
                self._add("stray", self.sessions[home].id, None, f"something is said of {iri} outside of its graph")
            for name, check in checks.items():
                if (TRAILS + name, "") in row.get(TYPE, []):
                    try:
                        check(iri, row)
                    except ValueError as error:
                        self._add("bad-row", None, None, f"{iri} was altered: {error}")
            if iri.startswith(TOOL):
                self._check_tool(iri, row)
        for session in self.sessions.values():
            self._check_versions(session)

    def _check_tool(self, iri: str, row: Properties) -> None:
        """Hold what the catalog says of a tool against its IRI."""
        try:
            name, server, version = tool_of(iri)
        except ValueError as error:
            self._add("bad-row", None, None, str(error))
            return
        told = {"toolName": name, "toolServer": server, "toolVersion": version}
        expected = {TRAILS + each: [(text, STRING)] for each, text in told.items() if text is not None}
        if row != {TYPE: [(TRAILS + "Tool", "")], **expected}:
            self._add("bad-row", None, None, f"{iri} was altered: what is said of it is not what its IRI says")

    def _session_of(self, row: Properties, link: str) -> Session:
        iri = typed_value(row, link, "")
        if iri not in self.sessions:
            raise ValueError(f"it names a session that is not in the file: {iri}")
        return self.sessions[iri]

    def _text_digest(self, iri: str, row: Properties, kind: str) -> str:
        """Return the salted_digest digest of a text in the catalog; once it was taken out, the one that was left of it."""
        (text, datatype), salt = only_value(row, PROV + "value"), typed_value(row, "salt")
        if datatype not in (STRING, REDACTED) or (datatype == REDACTED and text):
            raise ValueError("its text is none that Trails writes")
        if datatype == REDACTED and iri not in self.redactions.parts:
            raise ValueError("its text is gone, and no redaction in the file says so")
        return salt if datatype == REDACTED else salted_digest(kind, salt, text)

    def _check_prompt(self, iri: str, row: Properties) -> None:
        session = self._session_of(row, "promptOf")
        version, first = (index_of(typed_value(row, name, INTEGER)) for name in ("version", "effectiveFrom"))
        if iri != f"{session.iri}/system/{version}":
            raise ValueError(f"it is version {version} of the system prompt of {session.id!r}")
        made = version_digest(str(version), str(first), self._text_digest(iri, row, "prompt"))
        if made != typed_value(row, "digest"):
            what = f"version {version} of its system prompt was altered: its digest does not fit it"
            self._add("digest-mismatch", session.id, None, what)
        session.prompts.add(version)

    def _check_versions(self, session: Session) -> None:
        """Find versions of a system prompt that are missing between those that are there."""
        above = {version for each in self._lineage(session)[1:] for version in each.prompts}
        inherited = session.system_version if session.parent is not None else 0
        wanted = range(inherited + 1, max(session.prompts, default=0))
        missing = {inherited} - {0, *above} | set(wanted) - session.prompts
        for version in sorted(missing):
            self._add("missing", session.id, None, f"version {version} of its system prompt is not in the file")

    def _check_end(self, row: Properties, link: str, length: str, more: int = 0) -> None:
        """Check that the transcript up to which something is said has the digest that it names there."""
        session, end = self._session_of(row, link), index_of(typed_value(row, length, INTEGER)) + more
        if self._digest_at(session, end - 1) != typed_value(row, "namedDigest"):
            raise ValueError(f"the first {end} turns of session {session.id!r} do not have the digest that it names")

    def _check_tag(self, _: str, row: Properties) -> None:
        self._check_end(row, "tagOf", "tagLength")

    def _check_note(self, iri: str, row: Properties) -> None:
        self._check_end(row, "noteOn", "noteIndex", 1)
        if self._text_digest(iri, row, "note") != typed_value(row, "digest"):
            raise ValueError("its digest does not fit its text")

    def _check_score(self, _: str, row: Properties) -> None:
        self._check_end(row, "scored", "scoredUpTo")
        beside = (TRAILS + "scored", TRAILS + "digest")
        said = ((name, *term) for name, terms in row.items() if name not in beside for term in terms)
        if score_digest(said) != typed_value(row, "digest"):
            raise ValueError("its digest does not fit what it says")


def _take_calls(turn: Turn, answered: dict[str, str]) -> None:
    for position, call in enumerate(turn.calls):
        answered[first_value(call, TRAILS + "callId") or ""] = f"{turn.iri}/call/{position}"


def _uncovered_names(turn: Turn, answered: dict[str, str], lineage: set[str]) -> Iterator[str]:
    """Yield what a turn says of other sessions that no digest covers: which one it was. Turn, place and digest are."""
    own = turn.own
    if turn.copying is not None:
        yield "by which copying it came, and where, for whom and as which calls those that it repeats were made"
    for name, what in ((PROV + "alternateOf", "a copy from"), (PROV + "wasQuotedFrom", "picked from")):
        yield from (f"{what} {iri.partition('/')[0]}" for iri, _ in own.get(name, []))
    for iri, _ in own.get(PROV + "wasDerivedFrom", []):
        yield f"{'a result of' if '/ledger/' in iri else 'taken from'} {iri.partition('/')[0]}"
    for iri, _ in turn.parts.get("compaction", {}).get(PROV + "used", []):
        if iri.partition("/")[0] not in lineage:
            yield f"made from a summary of {iri.partition('/')[0]}"
    for iri in (iri for name in SHOWN_LINKS for iri, _ in turn.parts.get("model", {}).get(name, [])):
        if iri.partition("/")[0] not in lineage:
            yield f"shown a summary or a system prompt of {iri.partition('/')[0]}"
    calls = {answered.get(first_value(result, TRAILS + "callId") or "") for result in turn.results}
    for properties in (own, *turn.results):
        for iri in {term[0] for name in LINKS for term in properties.get(name, []) if "/call/" in term[0]} - calls:
            yield f"an answer to a call of {iri.partition('/')[0]}"
