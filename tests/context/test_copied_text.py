"""Ranges of texts that stand verbatim in others: counted by hand, held against a plain search, and never slow."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trails.context.copied_text import CopiedText, Source, common_length

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def ranges(text: str, *sources: str, shortest: int = 12) -> list[tuple[int, int, int, int]]:
    """Return (start, end, number of the source, place) of what a text has of sources that are all before it."""
    copied = CopiedText([text], [Source(each, 0) for each in sources], shortest)
    return [(each.start, each.end, each.source, each.place) for each in copied.ranges(text, 1)]


@pytest.mark.parametrize(
    ("text", "sources", "found"),
    [
        ("abcdefghijkl", ["abcdefghijkl"], [(0, 12, 0, 0)]),
        ("abcdefghijk", ["abcdefghijk"], []),  # 11 characters
        ("--abcdefghijklm--", ["123abcdefghijklm456"], [(2, 15, 0, 3)]),
        ("abcdefghijklX", ["Xabcdefghijkl"], [(0, 12, 0, 1)]),
        # two outputs that overlap in the text: each range is given whole
        ("abcdefghijklmnopqrst", ["abcdefghijklmn", "ghijklmnopqrst"], [(0, 14, 0, 0), (6, 20, 1, 0)]),
        # what stands within a longer one is left out
        ("abcdefghijklmnop", ["abcdefghijklmnop", "cdefghijklmn"], [(0, 16, 0, 0)]),
        # the same text in two outputs is given for both
        ("abcdefghijkl", ["abcdefghijkl", "xx abcdefghijkl"], [(0, 12, 0, 0), (0, 12, 1, 3)]),
        # of one that stands twice in an output, the longest
        ("abcdefghijklmn", ["abcdefghijklXabcdefghijklmnX"], [(0, 14, 0, 13)]),
        # repeated text
        ("ab" * 10, ["ab" * 8], [(0, 16, 0, 0), (4, 20, 0, 0)]),
        ("a" * 30, ["a" * 40], [(0, 30, 0, 0)]),
        # by code points: an emoji is one, and a letter with its accent apart is two
        ("Straße 🚆 Zürich", ["nach Straße 🚆 Zürich?"], [(0, 15, 0, 5)]),
        ("Cafe\u0301 de Paris", ["Café de Paris"], []),  # "de Paris" has 9 characters with its space
        ("Cafe\u0301 de la Gare de Paris", ["Café de la Gare de Paris"], [(5, 25, 0, 4)]),
        ("ABCDEFGHIJKL", ["abcdefghijkl"], []),  # no case is folded
        ("abcdef ghijkl", ["abcdef  ghijkl"], []),  # nor space
        ("YWJjZGVmZ2hpamts", ["abcdefghijkl"], []),  # Base64 of it
        ("a%20bc%20defghij", ["a bc defghij"], []),  # URL-encoded
        ("", ["abcdefghijkl"], []),
        ("abcdefghijkl", [""], []),
        ("abcdefghijkl", [], []),
    ],
)
def test_the_ranges_that_a_text_has_of_others(
    text: str, sources: list[str], found: list[tuple[int, int, int, int]]
) -> None:
    assert ranges(text, *sources) == found


def test_only_what_stands_in_an_earlier_source_is_copied() -> None:
    copied = CopiedText([ALPHABET], [Source(ALPHABET[:13], 3), Source(ALPHABET, 5)])
    assert [tuple(each) for each in copied.ranges(ALPHABET, 3)] == []
    assert [tuple(each) for each in copied.ranges(ALPHABET, 4)] == [(0, 13, 0, 0)]
    assert [tuple(each) for each in copied.ranges(ALPHABET, 6)] == [(0, 26, 1, 0)]


def test_how_long_two_texts_are_the_same() -> None:
    text = ALPHABET * 10
    for length in (0, 1, 31, 32, 33, 95, 96, 97, 200):
        assert common_length("--" + text, 2, text[:length] + "#" + text[length:], 0) == length
    assert common_length(text, 0, text, 0) == 260
    assert common_length(text, 260, text, 0) == 0


texts = st.text(alphabet="ab", max_size=40)


@given(text=texts, sources=st.lists(texts, max_size=4))
def test_each_character_that_a_plain_search_finds_in_a_common_text_is_in_a_range(text: str, sources: list[str]) -> None:
    found = ranges(text, *sources, shortest=4)
    covered = {at for start, end, _, _ in found for at in range(start, end)}
    runs = [at for at in range(len(text) - 3) if any(text[at : at + 4] in source for source in sources)]
    assert covered == {at + more for at in runs for more in range(4)}
    for start, end, number, place in found:
        assert text[start:end] == sources[number][place : place + end - start]


WINDOWED = "".join(random.Random(7).choices(ALPHABET, k=2_000))
HOSTILE = {
    "one letter": ("a" * 50_000, ["a" * 50_000] * 3),
    "two letters in turn": ("ab" * 25_000, ["ba" * 25_000, "ab" * 25_000 + "c"]),
    "a block again and again": (("abcdefghijkl" + "#") * 2_000, [("abcdefghijkl" + "%") * 2_000] * 9),
    "each window of a text": (
        WINDOWED,
        [WINDOWED[at : at + 60] for at in range(1_940)],
    ),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_text_takes_no_longer_than_its_length(how: str) -> None:
    """A search that compares each place with each takes hours for these; the bound is loose, for busy machines."""
    text, sources = HOSTILE[how]
    began = time.process_time()
    found = ranges(text, *sources)
    assert time.process_time() - began < 8
    assert found
