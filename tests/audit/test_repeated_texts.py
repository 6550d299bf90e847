"""Near copies of a text: which turns are candidates, and how often that is right.

All texts below were written for this test by its author, and not taken from real use: the figures are of this set. Of each
text there are two with few changes, one in other words, and one on the same matter that repeats nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import trails
from tests.support.commands import invoke, ok, ok_json
from trails import InvalidInput, Repository
from trails.audit import find_near_copies

SETS: list[tuple[str, list[str], str, str]] = [
    (
        "The code of the safe in the hall is 4711 and nobody else may know it.",
        ["As agreed: the code of the safe in the hall is 4711, nobody else may know it!",
         "Remember that the code of the safe in the hall is 4712 and nobody may know it."],
        "Four seven one one opens the strongbox by the entrance; keep that to yourself.",
        "Has anybody moved the safe out of the hall? Nobody told me where it may stand.",
    ),
    (
        "Mrs Adams was diagnosed with diabetes in March and takes two pills every morning.",
        ["In short, Mrs Adams was diagnosed with diabetes in March; she takes two pills every morning.",
         "Mrs Adams was diagnosed with diabetes in April and takes three pills every morning before breakfast."],
        "Since spring we know that our patient's blood sugar is ill; she gets medicine after she rises.",
        "Diabetes is diagnosed by a test of the blood that is taken in the morning.",
    ),
    (
        "Our offer to the city is 1.2 million euros for the old harbour, valid until the end of June.",
        ["The offer to the city is 1.2 million euros for the old harbour, valid until the end of July.",
         "They wrote: our offer to the city is 1.2 million euros for the old harbour. Valid until June."],
        "We bid twelve hundred thousand for the docks; the council may accept before summer.",
        "The city celebrates the old harbour with boats and music until the end of June.",
    ),
    (
        "Peter's number is 030 555 0199, he lives at 12 Lime Street on the third floor.",
        ["Call him: Peter's number is 030 555 0199. He lives at 12 Lime Street, third floor.",
         "Peter lives at 12 Lime Street on the third floor, and his number is 030 555 0199."],
        "You reach our man by phone in Berlin; his flat is up three stairs in the road of lime trees.",
        "Lime Street is closed to cars from Monday on, take the road on the left.",
    ),
    (
        "The board will dismiss the head of sales on Friday and tell the press one week later.",
        ["Confidential: the board will dismiss the head of sales on Friday and tell the press a week later.",
         "On Friday the board will dismiss the head of sales, and it will tell the press one week later."],
        "Whoever leads the sellers loses that post before the weekend; newspapers hear of it afterwards.",
        "The board meets on Friday, and the head of sales will show the figures of the quarter.",
    ),
    (
        "Use the password blue-horse-river for the staging server and change it every ninety days.",
        ["Please use the password blue-horse-river for the staging server, and change it every thirty days.",
         "For the staging server use the password blue-horse-river; change it every ninety days."],
        "A coloured animal and some water let you in to where we try releases; renew that each quarter.",
        "You should change the password of a server every ninety days, and use a long one.",
    ),
]  # fmt: skip


def fill(store: Repository) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """Store all texts but the originals; return the turns that repeat one with few changes, and those in other words."""
    close, reworded = set(), set()
    for number, (_, copies, other_words, same_matter) in enumerate(SETS):
        for name, text in (
            *((f"copy-{at}", text) for at, text in enumerate(copies)),
            ("words", other_words),
            ("matter", same_matter),
        ):
            session = store.create(id=f"{number}-{name}")
            session.append("user", text)
            session.persist()
            if name.startswith("copy"):
                close.add((number, session.id))
            if name == "words":
                reworded.add((number, session.id))
    return close, reworded


def test_candidates_are_the_near_copies_of_a_text_and_texts_in_other_words_are_missed(memory: Repository) -> None:
    close, reworded = fill(memory)
    found = {
        (number, each.session_id)
        for number, (original, *_) in enumerate(SETS)
        for each in find_near_copies(memory, original)
    }
    right = found & (close | reworded)
    assert (len(close), len(reworded)) == (12, 6)
    # precision 12 of 12; recall 12 of 12 of those with few changes, and 12 of all 18
    assert (len(found), len(right), found & reworded) == (12, 12, set())
    assert found == close


def test_the_likeliest_candidate_comes_first_and_a_redacted_turn_is_none(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", "one two three four five six seven")
    session.append("user", [{"type": "text", "text": "One, two, three, four; five. Eight"}])
    session.append("user", "ONE TWO THREE FOUR FIVE SIX SEVEN, and more")
    session.append("user", "two three four and five six seven")
    session.persist()
    memory.redact("s", 0)
    # the text has 5 runs: turn 2 has all of them, turn 1 the first three, turn 3 two: "two three four", "five six seven"
    found = find_near_copies(memory, "One two three four five six seven", share=0.4)
    assert [(each.index, each.share) for each in found] == [(2, 1.0), (1, 0.6), (3, 0.4)]
    assert [each.index for each in find_near_copies(memory, "One two three four five six seven", share=0.5)] == [2, 1]


@pytest.mark.parametrize(("text", "share"), [("five words are too few", 0.3), (SETS[0][0], 0), (SETS[0][0], 1.5)])
def test_a_text_of_few_words_and_a_share_out_of_range_are_refused(memory: Repository, text: str, share: float) -> None:
    with pytest.raises(InvalidInput, match=r"at least six|above 0, at most 1"):
        find_near_copies(memory, text, share=share)


def test_the_command_lists_candidates_of_a_file_and_of_stdin(tmp_path: Path) -> None:
    place, file = tmp_path / "store", tmp_path / "text"
    with trails.open(place, create=True) as store:
        session = store.create(id="s")
        session.append("user", SETS[0][1][0])
        session.persist()
    file.write_text(SETS[0][0])
    (row,) = ok_json(invoke("audit", "near-copies", file, "--json", store=place))
    assert (row["session_id"], row["index"]) == ("s", 0)
    assert "s@0" in ok(invoke("audit", "near-copies", "-", store=place, stdin=SETS[0][0]))
    none = invoke("audit", "near-copies", file, "--share", "1", store=place)
    assert (none.exit_code, none.stderr) == (1, "no turn is a candidate\n")
