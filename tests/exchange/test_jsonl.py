"""Reading lines of JSON: every line is either an object with its number, or a problem with its reason and text."""

from __future__ import annotations

import json
import tracemalloc
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trails.exchange import json_files
from trails.exchange.json_files import MAX_DEPTH, read_lines, read_object, read_values, shared_line_notes


def reasons(data: bytes) -> list[tuple[int, str]]:
    return [(problem.line, problem.reason) for problem in read_lines(data)[1]]


def test_objects_come_with_their_line_numbers_and_blank_lines_count() -> None:
    assert read_lines(b'{"a": 1}\n\n   \n{"b": [2]}') == ([(1, {"a": 1}), (4, {"b": [2]})], [])


def test_a_byte_order_mark_and_windows_line_ends_are_accepted() -> None:
    assert read_lines(b'\xef\xbb\xbf{"a": "\xc3\xa9"}\r\n{"b": 2}\r\n') == ([(1, {"a": "é"}), (2, {"b": 2})], [])


def test_an_empty_file_has_no_lines() -> None:
    assert read_lines(b"") == ([], [])
    assert read_lines(b"\xef\xbb\xbf") == ([], [])


def test_a_line_separator_inside_a_text_does_not_end_the_line() -> None:
    assert read_lines('{"a": "x\u2028y\x85z"}'.encode()) == ([(1, {"a": "x\u2028y\x85z"})], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": "\xff"}', "is not UTF-8 (byte 8 of the line)"),
        (b'{"a": 1', "is not JSON: Expecting ',' delimiter (column 8)"),
        (b'{"a": NaN}', "is not JSON: NaN is no JSON value"),
        (b'{"a": -Infinity}', "is not JSON: -Infinity is no JSON value"),
        (b'{"a": 1e999}', "has a number that is too large: 1e999"),
        (b"[1]", "is not a JSON object but an array"),
        (b'"text"', "is not a JSON object but a string"),
        (b"42", "is not a JSON object but a number"),
        (b"null", "is not a JSON object but null"),
        (b"true", "is not a JSON object but a boolean"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", f"is nested deeper than {MAX_DEPTH} levels"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", f"is nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_a_line_that_cannot_be_used_is_a_problem_and_its_neighbours_are_read(line: bytes, reason: str) -> None:
    objects, problems = read_lines(b'{"before": 1}\n' + line + b'\n{"after": 2}')
    assert objects == [(1, {"before": 1}), (3, {"after": 2})]
    assert [(problem.line, problem.reason) for problem in problems] == [(2, reason)]


def test_a_number_of_too_many_digits_is_a_problem() -> None:
    [(line, reason)] = reasons(b'{"a": ' + b"9" * 5_000 + b"}")
    assert line == 1
    assert reason.startswith("is not JSON that can be read")


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b'{"a": "cut \\ud83d"}', {"a": "cut \ufffd"}),
        (b'{"a": [{"b": "\\udc00 \\ud83c\\udf89"}]}', {"a": [{"b": "\ufffd \U0001f389"}]}),
        (b'{"\\udc00": 1}', {"\ufffd": 1}),
    ],
)
def test_half_of_a_surrogate_pair_becomes_a_replacement_character_and_is_reported(line: bytes, read: object) -> None:
    reason = "has half of a surrogate pair; U+FFFD was read in its place"
    objects, problems = read_lines(b'{"before": 1}\n' + line + b'\n{"after": 2}')
    assert objects == [(1, {"before": 1}), (2, read), (3, {"after": 2})]
    assert [(problem.line, problem.reason) for problem in problems] == [(2, reason)]
    values, problems = read_values(b"[" + line + b"]")
    assert ([value for _, value in values], [problem.reason for problem in problems]) == ([read], [reason])
    notes: list[str] = []
    assert (read_object(line, notes=notes), notes) == (read, [reason])


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert read_lines(b'{"a": "\\ud83c\\udf89"}') == ([(1, {"a": "🎉"})], [])


def test_the_deepest_line_allowed_is_read() -> None:
    line = b'{"a": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    assert reasons(line) == []


def test_a_problem_shows_the_text_as_far_as_it_can_be_read() -> None:
    [problem] = read_lines(b"caf\xc3\xa9 \xff!\r\n")[1]
    assert problem.text == "café \ufffd!"


def test_a_long_text_is_cut_and_says_so() -> None:
    [problem] = read_lines(b"x" * 2_003)[1]
    assert problem.text == "x" * 2_000 + "… (3 more characters)"
    [whole] = read_lines(b"x" * 2_000)[1]
    assert whole.text == "x" * 2_000


def test_a_line_of_fifty_megabytes_is_read() -> None:
    text = "y" * 50_000_000
    [(number, value)], problems = read_lines(b'{"a": "' + text.encode() + b'"}')
    assert (number, len(value["a"]), problems) == (1, 50_000_000, [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=5))
def test_what_was_written_as_objects_is_read_back(values: list[dict[str, object]]) -> None:
    data = "\n".join(json.dumps(value, ensure_ascii=False) for value in values).encode()
    assert read_lines(data) == (list(enumerate(values, start=1)), [])


@given(st.lists(st.binary() | st.sampled_from([b"{}", b"[", b'{"a":1}', b"\r", b"\xef\xbb\xbf{}"])))
def test_every_line_that_is_not_blank_is_an_object_or_a_problem(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    objects, problems = read_lines(data)
    numbers = sorted([number for number, _ in objects] + [problem.line for problem in problems])
    seen = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert numbers == [number for number, line in enumerate(seen, start=1) if line.strip()]


@pytest.mark.parametrize(
    ("data", "lines", "problems"),
    [
        (b'{"a": 1}\n{"a": 2}', [1, 2], []),
        (b'{\n "a": 1\n}\n\n{\n "a": 2\n}\n', [1, 5], []),
        (b'\xef\xbb\xbf[{"a": 1},\n{"a": 2}]', [1, 2], []),
        (b'{"a": \n{"a": 2}', [2], [1]),
        (b'[{"a": 1}, 2, {"a": 3}]', [1, 1], [1]),
        (b'[{"a": 1}', [1], [1]),
        (b'[{"a": 1}, {"a', [1], [1]),
        (b'{"a": "\xff"}\n{"a": 2}', [2], [1]),
        (b'{"a": "\\ud800"}', [1], [1]),
        (b"", [], []),
    ],
)
def test_objects_in_any_layout_are_read_with_their_lines_and_what_is_none_is_a_problem(
    data: bytes, lines: list[int], problems: list[int]
) -> None:
    found, wrong = read_values(data)
    assert [line for line, _ in found] == lines
    assert [problem.line for problem in wrong] == problems


@pytest.mark.parametrize(
    ("line", "found", "wrong"),
    [
        (b'{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}], []),
        (b'{"a": "}{"} {"b": 2}\t{"c": 3}\r', [{"a": "}{"}, {"b": 2}, {"c": 3}], []),
        (b'{"a": 1}{"b": ', [{"a": 1}], ['{"b": ']),
        (b'{"a": 1}{"b": 2}{"c": 1e999}', [{"a": 1}, {"b": 2}], ['{"c": 1e999}']),
        (b'{"a": {"b": 1}{"c": 2}', [], ['{"a": {"b": 1}{"c": 2}']),
        (b'{"a": 1}, {"b": 2}', [], ['{"a": 1}, {"b": 2}']),
        (b'{"a": 1} and more', [], ['{"a": 1} and more']),
        (b'{"a": 1}]', [], ['{"a": 1}]']),
    ],
)
def test_of_several_records_on_one_line_each_is_read_and_what_is_none_is_a_problem(
    line: bytes, found: list[dict[str, Any]], wrong: list[str]
) -> None:
    objects, problems = read_lines(b'{"before": 1}\n' + line + b'\n{"after": 2}')
    assert objects == [(1, {"before": 1}), *((2, each) for each in found), (3, {"after": 2})]
    assert [(problem.line, problem.text) for problem in problems] == [(2, text) for text in wrong]
    several = [f"line 2 holds {len(found)} records; each was read"] if len(found) > 1 else []
    assert shared_line_notes(objects) == several


_PIECES = (
    *(b'{"a": 1}', b'{"b": "x\\u00e9\\ud83d\\ude00"}', '{"c": "é\u2028😀"}'.encode(), b'{"d": [{"e": null}, true]}'),
    *(b'{"cut": "', b'{"f": tru', b'{"g": Infinity}', b'{"h": ' + b"1" * 5000 + b".5}", b'{"i": ' + b"1" * 5000 + b"}"),
    *(b"[", b"]", b", ", b"\n", b"\r\n\n", b"\n{", b" ", b"12", b"-1.5e3", b"x", b"\xff", b"\xc3", b"\xef\xbb\xbf"),
)


class _Slowly(BytesIO):
    """A file that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._step)


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map(b"".join), st.integers(1, 9))
def test_a_file_says_the_same_however_little_of_it_is_read_at_once(data: bytes, step: int) -> None:
    whole, slowly = list(json_files.iter_elements(BytesIO(data))), list(json_files.iter_elements(_Slowly(data, step)))
    assert slowly == whole


def test_of_a_long_file_only_what_is_read_just_now_is_in_memory() -> None:
    data = b'{"text": "' + b"x" * 1_000 + b'"}\n'
    sizes = []
    for count in (2_000, 10_000):
        source = BytesIO(data * count)
        tracemalloc.start()
        assert sum(1 for _ in json_files.iter_elements(source)) == count
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[1] < sizes[0] + 1_000_000  # of 8 MB that are more in the file


TWICE = "has an object in which a name stands more than once ('a', 'b'); the last one was read"


def test_a_name_that_stands_twice_in_an_object_is_told_and_the_last_one_is_read() -> None:
    data = b'{"c": 0}\n{"x": [{"b": 1, "b": 2}], "a": 1, "a": 2}\n{"a": 1}{"a": 3, "b": 4}\n'
    read = [{"c": 0}, {"x": [{"b": 2}], "a": 2}, {"a": 1}, {"a": 3, "b": 4}]
    for reader in (json_files.read_lines, json_files.read_values):
        objects, problems = reader(data)
        assert [each for _, each in objects] == read
        [told] = problems
        assert told.line == 2
        assert told.reason == TWICE.replace("'a', 'b'", "'b', 'a'")  # as they end, those within others first
        assert told.text.startswith('{"x": [{"b": 1, "b": 2}]')


def test_of_an_object_that_is_no_json_in_the_end_no_name_is_told_with_the_next_one() -> None:
    for reader in (json_files.read_lines, json_files.read_values):
        objects, problems = reader(b'{"a": 1, "b": {"a": 1, "a": 2}, broken\n{"a": 3}\n')
        assert [each for _, each in objects] == [{"a": 3}]
        assert [told.line for told in problems] == [1]
        assert "is not JSON" in problems[0].reason


def test_a_file_that_is_one_object_tells_of_names_that_stand_twice_in_a_note() -> None:
    notes: list[str] = []
    assert json_files.read_object(b'{"a": 1, "a": 2, "c": 1}', notes=notes) == {"a": 2, "c": 1}
    assert json_files.read_list(b'[{"b": 1}, {"b": 1, "b": 2}]', notes=notes) == [{"b": 1}, {"b": 2}]
    assert notes == [TWICE.replace("'a', 'b'", each) for each in ("'a'", "'b'")]
