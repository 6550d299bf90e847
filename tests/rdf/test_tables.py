"""What is kept by a table: one example of each class against its quads, written by hand; and any other comes back as it was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, parse

from tests.support.record_values import ENTRIES, ROWS, RUNS
from trails.errors import IntegrityError
from trails.integrity.signed_notes import HeadSignature
from trails.model import iris
from trails.model.values import Note, Tag
from trails.rdf import conversation_records, ledger_records, subagent_records, vocab
from trails.rdf.activity_records import ImportedDocument, document_of, document_quads
from trails.rdf.annotation_records import note_of, note_quads, signature_of, signature_quads, tag_of, tag_quads
from trails.rdf.conversation_records import Alias, Conversation, Move
from trails.rdf.ledger_records import (
    ArtifactEntry,
    Brief,
    Cancellation,
    Decision,
    Delivery,
    EntryTexts,
    Event,
    Exchange,
    Result,
    Transition,
)
from trails.rdf.score_records import Score, score_of, score_quads
from trails.rdf.subagent_records import Run, RunContent, RunOrigin

TIME = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
TURN, NEXT = "urn:trails:session:plan%201/3-aa", "urn:trails:session:plan%201/4-bb"
AGENT, EVE = "urn:trails:agent:k", "urn:trails:principal:eve"
PLACE: Any = {"session_id": "plan 1", "number": 4, "leaf_salt": "ee"}
SAID: Any = {
    "words": EntryTexts(text="Hello", salt="aa", digest="bb"),
    "session_id": "plan 1",
    "number": 4,
    "leaf_salt": None,
}

PREFIXES = """
@prefix : <https://w3id.org/trails#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix s: <urn:trails:session:> .
@prefix agent: <urn:trails:agent:> .
@prefix person: <urn:trails:principal:> .
"""
ENTRY = "<urn:trails:session:plan%201/ledger/4> :number 4 ; a "
EARLIER = "<urn:trails:session:plan%201/ledger/2>"
AT = '"2026-01-02T03:04:05.6Z"^^xsd:dateTime'
THEN = '"2026-01-02T03:04:06Z"^^xsd:dateTime'

EXAMPLES: list[tuple[Any, str]] = [
    (
        Event(
            **SAID, direction="inbound", source="chat", event_id="e1", channel="telegram", account="a", peer="5",
            mode="followup", author_iri=EVE, time=TIME, received=LATER, waiting=True, turn_iris=(TURN, NEXT),
        ),
        f""" :Event, prov:Entity ; :direction "inbound" ; :source "chat" ; :eventId "e1" ; :channel "telegram" ;
        :account "a" ; :peer "5" ; :queueMode "followup" ; prov:wasAttributedTo person:eve ; prov:generatedAtTime {AT} ;
        :receivedAt {THEN} ; :waiting true ; :recordedAs <{TURN}>, <{NEXT}> ; :digest "bb" ; prov:value "Hello" ;
        :salt "aa" .""",
    ),
    (
        Event(**PLACE, direction="outbound", time=TIME, turn_iris=(TURN,), exchange=2),
        f""" :Event, prov:Entity ; :direction "outbound" ; prov:generatedAtTime {AT} ; prov:wasDerivedFrom <{TURN}> ;
        prov:wasGeneratedBy {EARLIER} ; :leafSalt "ee" .""",
    ),
    (
        Exchange(
            **SAID, state="failed", agent="k", events=(2,), queued=TIME, started=TIME, ended=LATER, head_before="c0",
            head_after="c1", turn_iris=(TURN, NEXT), retry_of=2, kept_as="fork~2",
        ),
        f""" :Exchange, prov:Activity ; :state "failed" ; prov:wasAssociatedWith agent:k ; prov:used {EARLIER} ;
        :queuedAt {AT} ; prov:startedAtTime {AT} ; prov:endedAtTime {THEN} ; :headBefore "c0" ; :headAfter "c1" ;
        prov:generated <{TURN}>, <{NEXT}> ; :retryOf {EARLIER} ; :keptAs <urn:trails:session:fork~2> ; :digest "bb" ;
        :error "Hello" ; :salt "aa" .""",
    ),
    (
        Delivery(
            **PLACE, turn_iri=TURN, event=2, channel="telegram", outcome="failed", attempt=3, time=TIME, reason="offline"
        ),
        f""" :Delivery, prov:Entity ; prov:wasDerivedFrom <{TURN}> ; :deliveryOf {EARLIER} ; :channel "telegram" ;
        :outcome "failed" ; :attempt 3 ; prov:generatedAtTime {AT} ; :reason "offline" ; :leafSalt "ee" .""",
    ),
    (
        Decision(
            **PLACE, action="send", allowed=False, rule="rules[0]", agent="k", time=TIME, used="other", channel="telegram"
        ),
        f""" :Decision, prov:Activity ; :action "send" ; :allowed false ; :rule "rules[0]" ;
        prov:wasAssociatedWith agent:k ; prov:endedAtTime {AT} ; prov:used s:other ; :channel "telegram" ;
        :leafSalt "ee" .""",
    ),
    (
        Transition(
            **SAID, before="active", after="failed", by_iri=EVE, time=TIME, used=(2, 3), kept_as="fork~2"
        ),
        f""" :Transition, prov:Activity ; prov:wasAssociatedWith person:eve ; prov:endedAtTime {AT} ;
        :fromState "active" ; :toState "failed" ; prov:used {EARLIER}, <urn:trails:session:plan%201/ledger/3> ;
        :keptAs <urn:trails:session:fork~2> ; :digest "bb" ; :error "Hello" ; :salt "aa" .""",
    ),
    (
        Cancellation(**PLACE, by_iri=AGENT, time=TIME, ends_by=LATER),
        f""" :Cancellation, prov:Activity ; prov:wasAssociatedWith agent:k ; prov:endedAtTime {AT} ; :endsBy {THEN} ;
        :leafSalt "ee" .""",
    ),
    (
        Brief(**SAID, what="task", by_iri=AGENT, time=TIME),
        f""" :TaskBrief, prov:Entity ; prov:wasAttributedTo agent:k ; prov:generatedAtTime {AT} ; :digest "bb" ;
        prov:value "Hello" ; :salt "aa" .""",
    ),
    (
        Brief(**PLACE, what="context", by_iri=AGENT, time=TIME),
        f""" :ContextSummary, prov:Entity ; prov:wasAttributedTo agent:k ; prov:generatedAtTime {AT} ;
        :leafSalt "ee" .""",
    ),
    (
        Result(**PLACE, status="completed", memory_ids=("m1", "m2"), transition=2, time=TIME),
        f""" :SessionResult, prov:Entity ; :status "completed" ; :memoryId "m1", "m2" ; prov:wasGeneratedBy {EARLIER} ;
        prov:generatedAtTime {AT} ; :leafSalt "ee" .""",
    ),
    (
        ArtifactEntry(**PLACE, result=3, transition=2, uri="file:a", change="created", sha256="dd"),
        f""" :Artifact, prov:Entity ; :artifactOf <urn:trails:session:plan%201/ledger/3> ;
        prov:wasGeneratedBy {EARLIER} ; :uri "file:a" ; :artifactChange "created" ; :sha256 "dd" ; :leafSalt "ee" .""",
    ),
    (
        ArtifactEntry(**PLACE, result=3, transition=2, uri="file:a", change="deleted"),
        f""" :Artifact, prov:Entity ; :artifactOf <urn:trails:session:plan%201/ledger/3> ;
        prov:wasInvalidatedBy {EARLIER} ; :uri "file:a" ; :artifactChange "deleted" ; :leafSalt "ee" .""",
    ),
    (
        Run(
            run_id="r 1", revision=3, child_session_key="agent:k:sub", requester_session_key="agent:k:main",
            requester_display_key="main", cleanup="keep", label="trains", created=TIME, started=TIME, ended=LATER,
            requester_origin=RunOrigin(channel="telegram", to="5", account_id="a", thread_id=7),
            said=RunContent(task="Look", error="late", extra_json='{"a":1}', salt="aa", digest="bb"), outcome="timeout",
            archive_at=LATER, cleanup_completed=LATER, cleanup_handled=True, agent="k", child_session="plan 1",
            requester_session="main", model="m", thinking="high", run_timeout_seconds=30,
            announced_as="urn:trails:session:main/ledger/2", announced_how="queued", kept_because="in use",
            task_salt="cc", task_digest="dd", leaf_salt="ee",
        ),
        f"""<urn:trails:session:plan%201/run/r%201> a :Run, prov:Activity ; :runId "r 1" ; :revision 3 ;
        :childKey "agent:k:sub" ; :requesterKey "agent:k:main" ; :requesterDisplayKey "main" ;
        :requesterChannel "telegram" ; :requesterRecipient "5" ; :requesterAccount "a" ; :requesterThread 7 ;
        :cleanup "keep" ; :runLabel "trains" ; :runOutcome "timeout" ; :runModel "m" ; :runThinking "high" ;
        :runTimeoutSeconds 30 ; :cleanupHandled true ; :announcedHow "queued" ; :keptBecause "in use" ;
        :registeredAt {AT} ; prov:startedAtTime {AT} ; prov:endedAtTime {THEN} ; :archiveAt {THEN} ;
        :cleanupCompletedAt {THEN} ; prov:wasAssociatedWith agent:k ; prov:generated <urn:trails:session:plan%201> ;
        prov:wasStartedBy s:main ; :announcedAs <urn:trails:session:main/ledger/2> ; :taskSalt "cc" ; :taskDigest "dd" ;
        :leafSalt "ee" ; :digest "bb" ; :salt "aa" ; :task "Look" ; :runError "late" ;
        :runExtra "{{\\"a\\":1}}"^^rdf:JSON .""",
    ),
    (
        Run(run_id="r 1", said=RunContent(digest="bb", withheld=True), requester_origin=RunOrigin(thread_id="7")),
        """<urn:trails:session:unknown/run/r%201> a :Run, prov:Activity ; :runId "r 1" ; :revision 1 ;
        :requesterThread "7" ; :digest "bb" ; :task ""^^:Redacted .""",
    ),
    (
        Conversation(key="agent:main:a", session_id="plan 1", label="desk", created=TIME, revision=2),
        f"""<urn:trails:conversation:agent:main:a> a :Conversation ; :key "agent:main:a" ;
        :currentSession <urn:trails:session:plan%201> ; prov:generatedAtTime {AT} ; :revision 2 ; :label "desk" .""",
    ),
    (
        Alias(alias="agent:main:b", key="agent:main:a", reason="manual", by_iri=AGENT, time=TIME, from_key="agent:main:c"),
        f"""<urn:trails:alias:agent:main:b> a :Alias ; :aliasKey "agent:main:b" ;
        :aliasOf <urn:trails:conversation:agent:main:a> ; :reason "manual" ; prov:wasAttributedTo agent:k ;
        prov:generatedAtTime {AT} ; :fromKey "agent:main:c" .""",
    ),
    (
        Move(
            operation="0a", number=2, session_id="plan 1", from_key="agent:main:a", to_key="agent:main:b",
            was_current=True, became_current=False, reason="undo", by_iri=EVE, time=TIME, former_label="desk", undoes="ff",
        ),
        f"""<urn:trails:move:0a/2> a :Move ; :movedSession <urn:trails:session:plan%201> ; :fromKey "agent:main:a" ;
        :toKey "agent:main:b" ; :wasCurrent true ; :becameCurrent false ; :reason "undo" ;
        prov:wasAssociatedWith person:eve ; prov:endedAtTime {AT} ; :formerLabel "desk" ; :undoes "ff" .""",
    ),
    (
        Tag(name="v 1", session_id="plan 1", length=2, digest="ab", author_iri=EVE, time=TIME),
        f"""<urn:trails:tag:v%201> a :Tag ; :tagName "v 1" ; :tagOf <urn:trails:session:plan%201> ; :tagLength 2 ;
        :namedDigest "ab" ; prov:wasAttributedTo person:eve ; prov:generatedAtTime {AT} .""",
    ),
    (
        Note(
            id="0a", session_id="plan 1", index=1, turn_digest="cd", text="odd", author_iri=EVE, time=TIME, digest="ab",
            salt="ef",
        ),
        f"""<urn:trails:note:0a> a :Note ; :noteOn <urn:trails:session:plan%201> ; :noteIndex 1 ; :namedDigest "cd" ;
        prov:value "odd" ; :digest "ab" ; :salt "ef" ; prov:wasAttributedTo person:eve ; prov:generatedAtTime {AT} .""",
    ),
    (
        Note(
            id="0a", session_id="s", index=1, turn_digest="cd", text="", author_iri=EVE, time=TIME, digest="ab", salt="ef",
            redacted=True,
        ),
        f"""<urn:trails:note:0a> a :Note ; :noteOn s:s ; :noteIndex 1 ; :namedDigest "cd" ;
        prov:value ""^^:Redacted ; :digest "ab" ; :salt "ef" ; prov:wasAttributedTo person:eve ;
        prov:generatedAtTime {AT} .""",
    ),
    (
        Score(
            id="0a", session_id="plan 1", start=2, end=5, turn_digest="cd", name="tone", value="polite", by_iri=AGENT,
            version="2", reason="it asks", time=TIME, digest="ab",
        ),
        f"""<urn:trails:score:0a> a :Score ; :scored <urn:trails:session:plan%201> ; :scoredFrom 2 ; :scoredUpTo 5 ;
        :namedDigest "cd" ; :scoreName "tone" ; :scoreValue "polite" ; prov:wasAssociatedWith agent:k ; :scorerVersion "2" ;
        :reason "it asks" ; prov:endedAtTime {AT} ; :digest "ab" .""",
    ),
    (
        Score(id="0b", session_id="s", end=0, turn_digest="cd", name="ok", value=True, by_iri=EVE, time=TIME, digest="ab"),
        f"""<urn:trails:score:0b> a :Score ; :scored s:s ; :scoredUpTo 0 ; :namedDigest "cd" ; :scoreName "ok" ;
        :scoreValue true ; prov:wasAssociatedWith person:eve ; prov:endedAtTime {AT} ; :digest "ab" .""",
    ),
    (
        HeadSignature(
            session_id="plan 1", index=3, head="aa", by_iri=EVE, time=TIME, key="eve+00+AA==", signature="AAAA",
        ),
        # printf AAAA | sha256sum
        f"""<urn:trails:session:plan%201/signature/63c1dd951ffedf6f7fd968ad4efa39b8ed584f162f46e715114ee184f8de9201>
        a :HeadSignature ;
        :signatureOf <urn:trails:session:plan%201> ; :signedIndex 3 ; :signedHead "aa" ; prov:wasAttributedTo person:eve ;
        prov:generatedAtTime {AT} ; :signerKey "eve+00+AA==" ; :signature "AAAA" .""",
    ),
    (
        ImportedDocument(
            sha256="ab" * 32, size=9, format="xml", statements=2, valid=False, broken=("key-object", "typing"),
            name="a b.xml", by_iri=EVE, time=TIME, digest="cd", leaf_salt="ee",
        ),
        f"""<urn:trails:prov:{"ab" * 32}> a :ProvDocument, prov:Entity ; :sha256 "{"ab" * 32}" ; :fileSize 9 ;
        :provFormat "xml" ; :statementCount 2 ; :isValid false ; :brokenRule "key-object", "typing" ;
        :fileName "a b.xml" ; prov:wasAttributedTo person:eve ; prov:generatedAtTime {AT} ; :digest "cd" ; :leafSalt "ee" .""",
    ),
]  # fmt: skip

WRITE: dict[type, Callable[[Any], list[Quad]]] = {
    Run: subagent_records.run_quads,
    Conversation: conversation_records.conversation_quads,
    Alias: conversation_records.alias_quads,
    Move: conversation_records.move_quads,
    Tag: tag_quads,
    Note: note_quads,
    Score: score_quads,
    HeadSignature: lambda said: signature_quads(said)[:-1],  # the last one is of who signed
    ImportedDocument: lambda said: document_quads(said)[:-1],  # the last one is of who brought it
}
READ: dict[type, Callable[[str, list[Quad]], Any]] = {
    Run: subagent_records.decode_runs,
    Conversation: conversation_records.conversation_of,
    Alias: conversation_records.alias_of,
    Move: conversation_records.move_of,
    Tag: tag_of,
    Note: note_of,
    Score: score_of,
    HeadSignature: signature_of,
    ImportedDocument: document_of,
}


def write(record: Any) -> list[Quad]:
    return WRITE.get(type(record), ledger_records.entry_quads)(record)


def read(made: type, quads: list[Quad]) -> Any:
    subject: Any = quads[0].subject
    if made in READ:
        return READ[made](subject.value, quads)
    return ledger_records.decode_entries(
        iris.session_id(subject.value), subject.value, ledger_records.entries_by_subject(quads)[subject.value]
    )


def of_class(made: type) -> Any:
    return next(record for record, _ in EXAMPLES if type(record) is made)


@pytest.mark.parametrize(("record", "turtle"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_a_record_is_kept_as_it_is_written_here_and_comes_back_as_it_was(record: Any, turtle: str) -> None:
    whole = PREFIXES + (turtle if turtle.startswith("<") else ENTRY + turtle)
    wanted = {each.triple for each in parse(whole.encode(), format=RdfFormat.TURTLE)}
    quads = write(record)
    assert {quad.triple for quad in quads} == wanted
    assert len(quads) == len(wanted)
    in_ledger = NamedNode("urn:trails:session:plan%201/ledger")
    assert {quad.graph_name for quad in quads} == {vocab.CATALOG if type(record) in READ else in_ledger}
    assert read(type(record), quads) == record


@given(st.one_of(*ENTRIES.values(), RUNS, *ROWS.values()), st.randoms(use_true_random=False))
def test_any_record_comes_back_as_it_was_from_its_quads_in_any_order(record: Any, chance: Any) -> None:
    quads = write(record)
    chance.shuffle(quads)
    assert read(type(record), quads) == record


BROKEN = "entry 4 of the ledger of session 'plan 1' cannot be read ({}): the store was altered; "
BACK = "restore the session from an export or a backup"
REPAIR = ": the store was altered; restore it from a backup"
RUN_BROKEN = "the run urn:trails:session:plan%201/run/r%201 cannot be read ({})" + REPAIR
TRAILS = "https://w3id.org/trails#"


@pytest.mark.parametrize(
    ("made", "predicate", "values", "said"),
    [
        (Event, vocab.SOURCE, ["a", "b"], BROKEN.format(f"it has 2 values for {TRAILS}source") + BACK),
        (Event, vocab.RECEIVED_AT, ["soon"],
         BROKEN.format("'soon' is stored as a time and is none in UTC: the store was altered") + BACK),
        (Delivery, vocab.ATTEMPT, [], BROKEN.format(f"it lacks {TRAILS}attempt") + BACK),
        (Exchange, vocab.LEAF_SALT, ["a", "b"], f"it has 2 values for {TRAILS}leafSalt"),
        (Exchange, vocab.KEPT_AS, ["x"],
         BROKEN.format("'x' is not the IRI of a Trails session; it would start with 'urn:trails:session:'") + BACK),
        (Run, vocab.REVISION, [],
         RUN_BROKEN.format(f"it lacks {TRAILS}revision")),
        (Run, vocab.CHILD_KEY, ["a", "b"],
         RUN_BROKEN.format(f"it has 2 values for {TRAILS}childKey")),
        (Conversation, vocab.REVISION, [],
         f"<urn:trails:conversation:agent:main:a> lacks <{TRAILS}revision>{REPAIR}"),
        (Alias, vocab.ALIAS_OF, ["x"], f"<x> is no conversation{REPAIR}"),
        (Move, vocab.UNDOES, ["a", "b"],
         f"<urn:trails:move:0a/2> says two things of <{TRAILS}undoes>: the store was altered"),
        (Tag, vocab.TAG_LENGTH, [],
         f"<urn:trails:tag:v%201> lacks <{TRAILS}tagLength>{REPAIR}"),
        (Note, vocab.NOTE_INDEX, ["one"],
         "the store holds values that Trails never writes (ValueError: invalid literal for int() with base 10: 'one'): "
          "it was altered; `trails verify` names them; " + BACK),
    ],
)  # fmt: skip
def test_what_trails_never_writes_is_an_error_that_says_what_is_wrong(
    made: type, predicate: NamedNode, values: list[str], said: str
) -> None:
    quads = write(of_class(made))
    left = [quad for quad in quads if quad.predicate != predicate]
    left += [Quad(quads[0].subject, predicate, Literal(value), quads[0].graph_name) for value in values]
    with pytest.raises(IntegrityError) as failure:
        read(made, left)
    assert failure.value.message == said


def test_nothing_is_written_of_a_field_without_a_value_and_it_comes_back_without_one() -> None:
    bare = Event(session_id="s", number=1, direction="inbound", time=TIME, leaf_salt=None)
    assert [str(quad.predicate) for quad in write(bare)] == [
        f"<{TRAILS}number>",
        *["<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"] * 2,
        f"<{TRAILS}direction>",
        "<http://www.w3.org/ns/prov#generatedAtTime>",
    ]
    assert read(Event, write(bare)) == bare


@pytest.mark.parametrize(
    ("made", "predicate", "name", "value"),
    [
        (Event, vocab.WAITING, "waiting", False),
        (Decision, vocab.ALLOWED, "allowed", False),
        (Exchange, vocab.ASSOCIATED_WITH, "agent", ""),
        (Run, vocab.RUN_TIMEOUT, "run_timeout_seconds", 0),
        (Run, vocab.CLEANUP_HANDLED, "cleanup_handled", None),
        (Tag, vocab.TAG_NAME, "name", "v 1"),
    ],
)
def test_where_nothing_stands_a_field_has_its_plainest_value(
    made: type, predicate: NamedNode, name: str, value: Any
) -> None:
    left = [quad for quad in write(of_class(made)) if quad.predicate != predicate]
    assert getattr(read(made, left), name) == value
