"""Any ledger entry, run, conversation, alias, move, tag, note and score, for Hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from trails.integrity.signed_notes import HeadSignature
from trails.model import iris
from trails.model.values import Note, Tag
from trails.rdf.activity_records import ImportedDocument
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
from trails.rdf.score_records import Score
from trails.rdf.subagent_records import Run, RunContent, RunOrigin

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
texts = st.one_of(st.sampled_from(["a", "7", "true", "two words"]), st.text(st.characters(codec="utf-8"), max_size=8))
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
numbers = st.integers(1, 10**6)
times = st.integers(0, 4 * 10**15).map(lambda microseconds: EPOCH + timedelta(microseconds=microseconds))
ids = st.sampled_from(["s", "plan 1", "fork~2", "ß"])
people = st.one_of(names.map(iris.agent), names.map(iris.principal))
hexes = st.integers(0, 2**256 - 1).map(lambda bits: f"{bits:064x}")
turn_iris = st.builds(lambda s, i, d: iris.turn(iris.session(s), i, d), ids, st.integers(0, 500), hexes)
turns = st.lists(turn_iris, unique=True, max_size=3).map(
    lambda found: tuple(sorted(found, key=lambda iri: (iris.turn_index(iri), iri)))
)
some_numbers = st.lists(numbers, unique=True, max_size=3).map(lambda found: tuple(sorted(found)))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


words = maybe(
    st.one_of(
        texts.map(EntryTexts.of),
        st.just(EntryTexts.of('[{"type":"text","text":"x"}]', structured=True)),
        texts.map(lambda text: EntryTexts.of(text).gone(withheld=False)),
        texts.map(lambda text: EntryTexts.of(text).gone(withheld=True)),
    )
)


def entry(made: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(made, session_id=ids, number=numbers, **fields)


ENTRIES: dict[str, st.SearchStrategy[Any]] = {
    "event": entry(
        Event, words=words, direction=st.sampled_from(["inbound", "outbound"]), source=maybe(texts), event_id=maybe(texts),
        channel=maybe(texts), account=maybe(texts), peer=maybe(texts), author_iri=maybe(people), time=times,
        mode=maybe(st.sampled_from(["steer", "followup", "collect", "hold"])), received=maybe(times),
        waiting=st.booleans(), turn_iris=turns, exchange=maybe(numbers),
    ),
    "exchange": entry(
        Exchange, words=words, state=st.sampled_from(["pending", "streaming", "completed", "failed"]), agent=names,
        events=some_numbers, queued=times, started=maybe(times), ended=maybe(times), head_before=maybe(texts),
        head_after=maybe(texts), turn_iris=turns, retry_of=maybe(numbers), kept_as=maybe(ids),
    ),
    "delivery": entry(
        Delivery, words=words, turn_iri=turn_iris, event=maybe(numbers), channel=texts,
        outcome=st.sampled_from(["sent", "failed", "skipped"]), attempt=numbers, time=times, reason=maybe(texts),
    ),
    "decision": entry(
        Decision, action=texts, allowed=st.booleans(), rule=texts, agent=names, time=times, used=maybe(ids),
        channel=maybe(texts),
    ),
    "transition": entry(
        Transition, words=words, before=maybe(st.sampled_from(["active", "suspended"])),
        after=st.sampled_from(["active", "suspended", "completed", "failed", "expired"]), by_iri=people, time=times,
        used=some_numbers, kept_as=maybe(ids),
    ),
    "cancellation": entry(Cancellation, words=words, by_iri=people, time=times, ends_by=times),
    "brief": entry(Brief, words=words, what=st.sampled_from(["task", "context"]), by_iri=people, time=times),
    "result": entry(
        Result, words=words, status=st.sampled_from(["completed", "failed", "expired", "cancelled"]), transition=numbers,
        memory_ids=st.lists(texts, unique=True, max_size=3).map(lambda found: tuple(sorted(found))), time=times,
    ),
    "artifact": entry(
        ArtifactEntry, words=words, result=numbers, transition=numbers, uri=texts, sha256=maybe(hexes),
        change=st.sampled_from(["created", "modified", "deleted"]),
    ),
}  # fmt: skip

RUNS = st.builds(
    Run, run_id=names, revision=numbers, child_session_key=maybe(names), requester_session_key=maybe(texts),
    requester_display_key=maybe(texts), cleanup=maybe(st.sampled_from(["delete", "keep"])), label=maybe(texts),
    requester_origin=st.builds(
        RunOrigin, channel=maybe(texts), to=maybe(texts), account_id=maybe(texts), thread_id=maybe(st.one_of(numbers, texts))
    ),
    said=st.one_of(
        st.builds(RunContent.of, maybe(texts), maybe(texts), maybe(st.just('{"a":1}'))),
        texts.map(lambda text: RunContent.of(text).gone()),
    ),
    created=maybe(times), started=maybe(times), ended=maybe(times), archive_at=maybe(times),
    outcome=maybe(st.sampled_from(["ok", "error", "timeout", "unknown"])), cleanup_completed=maybe(times),
    cleanup_handled=maybe(st.booleans()), agent=maybe(names), child_session=maybe(ids), requester_session=maybe(ids),
    model=maybe(texts), thinking=maybe(texts), run_timeout_seconds=st.sampled_from([0, 30]),
    announced_as=maybe(numbers.map(lambda number: iris.ledger_entry(iris.session("s"), number))),
    announced_how=maybe(st.sampled_from(["steered", "queued", "direct"])), kept_because=maybe(texts),
    task_salt=maybe(hexes), task_digest=maybe(hexes), leaf_salt=maybe(hexes),
)  # fmt: skip

ROWS: dict[str, st.SearchStrategy[Any]] = {
    "conversation": st.builds(
        Conversation, key=names, session_id=ids, label=maybe(texts), created=times, revision=st.integers(0, 99)
    ),
    "alias": st.builds(
        Alias, alias=names, key=names, reason=texts, by_iri=people, time=times, from_key=maybe(texts)
    ),
    "move": st.builds(
        Move, operation=st.sampled_from(["0a1b", "ff00"]), number=numbers, session_id=ids, from_key=texts, to_key=texts,
        was_current=st.booleans(), became_current=st.booleans(), reason=texts, by_iri=people, time=times,
        former_label=maybe(texts), undoes=maybe(texts),
    ),
    "tag": st.builds(
        Tag, name=names, session_id=ids, length=st.integers(0, 99), digest=hexes, author_iri=people, time=times
    ),
    "note": st.one_of(
        st.builds(
            Note, id=names, session_id=ids, index=st.integers(0, 99), turn_digest=hexes, text=texts, author_iri=people,
            time=times, digest=hexes, salt=hexes,
        ),
        st.builds(
            Note, id=names, session_id=ids, index=st.integers(0, 99), turn_digest=hexes, text=st.just(""),
            author_iri=people, time=times, digest=hexes, salt=hexes, redacted=st.just(True),
        ),
    ),
    "score": st.builds(
        Score, id=names, session_id=ids, start=maybe(st.integers(0, 99)), end=st.integers(0, 99), turn_digest=hexes,
        name=names, by_iri=people, version=maybe(texts), reason=maybe(texts), time=times, digest=hexes,
        value=st.one_of(
            st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False).map(lambda f: f + 0.0),
            texts,
        ),
    ),
    "document": st.builds(
        ImportedDocument, sha256=hexes, size=numbers, format=st.sampled_from(["provn", "xml"]), statements=numbers,
        valid=st.booleans(), broken=st.lists(texts, unique=True, max_size=3).map(lambda found: tuple(sorted(found))),
        name=maybe(texts), by_iri=people, time=times, digest=hexes, leaf_salt=hexes,
    ),
    "signature": st.builds(
        HeadSignature, session_id=ids, index=st.integers(0, 99), head=hexes, by_iri=names.map(iris.principal), time=times,
        key=texts, signature=texts,
    ),
}  # fmt: skip
