"""Up to which record a copy of the quads goes: by hand, and against a plain search through all states."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from trails.store.frames import BULK, HELD, CommitRecord, Frame
from trails.store.reached import before_held, holds_bulk, quads_in, reached

GRAPHS = ("urn:g", "urn:h")


def line(name: str, graph: str = "urn:g") -> bytes:
    return f"<urn:{name}> <urn:p> <urn:o> <{graph}> .".encode()


def framed(*records: CommitRecord, first: int = 1) -> list[Frame]:
    return [Frame(number, 0, b"", 0, record) for number, record in enumerate(records, first)]


def text(*lines: bytes) -> bytes:
    return b"".join(each + b"\n" for each in lines)


def asked(frames: Sequence[Frame], applied: int, quads: set[bytes]) -> int:
    sizes = {graph: sum(each.endswith(f"<{graph}> .".encode()) for each in quads) for graph in GRAPHS}
    return reached(frames, applied, lambda lines: [each in quads for each in lines], lambda graph: sizes[graph])


def test_a_copy_goes_up_to_the_last_record_whose_quads_are_there() -> None:
    frames = framed(*(CommitRecord(add=text(line(name))) for name in "abc"))
    assert asked(frames, 0, set()) == 0
    assert asked(frames, 1, {line("a"), line("b")}) == 2
    assert asked(frames, 0, {line("a"), line("b"), line("c")}) == 3


def test_what_is_added_removed_and_added_again_is_told_by_what_comes_with_it() -> None:
    frames = framed(
        CommitRecord(add=text(line("a"))),
        CommitRecord(remove=text(line("a")), add=text(line("b"))),
        CommitRecord(add=text(line("a"))),
    )
    assert asked(frames, 0, {line("a")}) == 1
    assert asked(frames, 0, {line("b")}) == 2
    assert asked(frames, 0, {line("a"), line("b")}) == 3


def test_a_dropped_graph_is_told_by_being_empty() -> None:
    frames = framed(CommitRecord(add=text(line("a"), line("b", "urn:h"))), CommitRecord(drop=("urn:g",)))
    assert asked(frames, 1, {line("a"), line("b", "urn:h")}) == 1
    assert asked(frames, 1, {line("b", "urn:h")}) == 2


def test_a_graph_that_is_used_again_after_it_was_dropped_is_known_whole() -> None:
    frames = framed(CommitRecord(drop=("urn:g",)), CommitRecord(add=text(line("a"))))
    assert asked(frames, 0, {line("a"), line("b")}) == 0  # b, which no record speaks of, went with the graph
    assert asked(frames, 0, {line("a")}) == 2


def test_records_without_quads_count_with_the_ones_before_them() -> None:
    assert asked(framed(CommitRecord(leaves=("leaf",)), CommitRecord(leaves=("leaf",))), 0, set()) == 2


def test_a_record_for_the_bulk_loader_is_noticed_where_it_may_be_under_way() -> None:
    frames = framed(CommitRecord(flags=BULK, add=text(line("a"), line("b")), remove=text(line("c"))))
    assert (holds_bulk(frames, 0, 0), holds_bulk(frames, 1, 1)) == (True, False)
    assert quads_in(frames[0].record) == 3


def test_a_record_that_waits_for_others_is_in_doubt_only_where_it_was_loaded_since() -> None:
    frames = framed(*(CommitRecord(flags=HELD, add=text(line(name))) for name in "abc"))
    assert not holds_bulk(frames, 1, 1)
    assert holds_bulk(frames, 1, 2)
    assert not holds_bulk(frames, 2, 2)


def test_frames_from_the_first_that_waits_for_others_on_are_not_looked_for() -> None:
    plain, held = CommitRecord(add=text(line("a"))), CommitRecord(flags=HELD, add=text(line("b")))
    frames = framed(held, plain, held, plain)
    assert before_held(frames, 1) == frames[:2]
    assert before_held(frames, 3) == frames


LINES = [line(name, graph) for name in "abc" for graph in GRAPHS]
RECORDS = st.builds(
    lambda drop, remove, add: CommitRecord(drop=tuple(drop), remove=text(*remove), add=text(*add)),
    st.lists(st.sampled_from(GRAPHS), max_size=1),
    st.lists(st.sampled_from(LINES), max_size=2, unique=True),
    st.lists(st.sampled_from(LINES), max_size=2, unique=True),
)


@given(
    before=st.sets(st.sampled_from(LINES)),
    records=st.lists(RECORDS, max_size=7),
    place=st.integers(0, 7),
    known=st.integers(0, 7),
)
def test_it_is_the_last_record_after_which_the_quads_are_these(
    before: set[bytes], records: list[CommitRecord], place: int, known: int
) -> None:
    states = [before]
    for record in records:
        quads = {
            each for each in states[-1] if not any(each.endswith(f"<{graph}> .".encode()) for graph in record.drop)
        }
        states.append((quads - set(record.remove.split(b"\n"))) | set(record.add.split(b"\n")[:-1]))
    place = min(place, len(records))
    applied = min(known, place)
    last = max(number for number, state in enumerate(states) if number >= applied and state == states[place])
    assert asked(framed(*records), applied, states[place]) == last
