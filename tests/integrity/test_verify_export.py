"""The verifier that ships with an export: what it says of whole ones, and of each that was altered."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.support.full_export import SESSIONS, exported, fill_all
from tests.support.machines import Size
from trails import Repository
from trails.integrity.verifier import answers, export, joined, quads
from trails.rdf import vocab

_ALONE = joined.standalone_verifier()
_BESIDE = frozenset({vocab.SYSTEM_PROMPT, vocab.TAG, vocab.NOTE, vocab.SCORE})


def checked(data: bytes, *heads: str) -> dict[str, Any]:
    return answers.report(export.Export(io.BytesIO(data)), heads)


def codes(data: bytes) -> set[str]:
    return {each["code"] for each in checked(data)["findings"]}


def written(quads: list[Quad]) -> bytes:
    return ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b""


def read(data: bytes) -> list[Quad]:
    return list(ox.parse(data, format=ox.RdfFormat.N_QUADS))


@pytest.fixture(scope="module")
def exports() -> dict[str, bytes]:
    import trails

    with trails.open(":memory:") as store:
        fill_all(store)
        return {session: exported(store, session) for session in SESSIONS}


# --- whole ones


@pytest.mark.parametrize("session", SESSIONS)
def test_an_export_of_everything_holds(exports: dict[str, bytes], session: str) -> None:
    said = checked(exports[session])
    assert said["findings"] == []
    assert said["ok"]


def test_the_heads_lengths_and_places_are_those_of_the_store(store: Repository) -> None:
    fill_all(store)
    said = {each["session"]: each for each in checked(exported(store, "tail"))["sessions"]}
    assert {name: (each["turns"], each["own_turns"]) for name, each in said.items()} == {
        "plan": (5, 5),
        "dinner": (6, 3),
        "solo": (4, 2),
        "tail": (5, 1),
    }
    assert [(said[name]["parent"], said[name]["forked_at"]) for name in ("plan", "dinner", "solo", "tail")] == [
        (None, None),
        ("plan", 3),
        ("dinner", 2),
        ("solo", 4),
    ]
    assert {name: each["head"] for name, each in said.items()} == {name: store.load(name).head for name in said}


def test_what_was_taken_out_and_what_no_digest_covers_is_said(exports: dict[str, bytes]) -> None:
    [worn] = checked(exports["worn"])["sessions"]
    assert worn["redacted"] == [0, 1, 6]  # a text; the model's name; what a summary was asked for
    assert worn["stands_by_redaction"] == [0, 4]  # an author's name, a role
    assert worn["not_covered"] == {}  # its summaries are of its own turns, which the file holds
    [alone] = checked(exports["alone"])["sessions"]
    copied = "by which copying it came, and where, for whom and as which calls those that it repeats were made"
    assert alone["not_covered"] == {
        copied: 4,
        "a copy from urn:trails:session:worn": 4,
        "an answer to a call of urn:trails:session:worn": 2,  # of a turn that came before the fork was detached
    }
    [picks] = checked(exports["picks"])["sessions"]
    assert picks["not_covered"] == {copied: 1, "picked from urn:trails:session:dinner": 1}


def test_comments_blank_lines_escapes_and_other_line_ends_change_nothing(exports: dict[str, bytes]) -> None:
    lines = exports["tail"].decode().splitlines()
    spaced = "\r\n".join(["# an export", "", *(line.replace("Plan a", "Pl\\u0061n\\U00000020a") for line in lines)])
    assert checked(spaced.encode())["ok"]
    assert "\\u0061" in spaced


# --- altered ones


def other_value(term: Any) -> Any:
    """Return a term of the same kind that stands for something else."""
    if isinstance(term, NamedNode):
        return NamedNode(term.value + "0")
    if term.datatype == vocab.DATE_TIME:
        return Literal(term.value.replace("20", "21", 1), datatype=vocab.DATE_TIME)
    if term.datatype == vocab.BOOLEAN:
        return Literal(term.value != "true")
    if term.datatype in (vocab.INTEGER, vocab.DECIMAL):
        return Literal(term.value + "1" if term.value != "0" else "7", datatype=term.datatype)
    if term.datatype == vocab.JSON:
        return Literal(term.value.replace("{", '{"x":1,', 1).replace(",}", "}"), datatype=vocab.JSON)
    return Literal(term.value + "x", datatype=term.datatype)


def other_kind(term: Any) -> Any:
    if isinstance(term, NamedNode):
        return Literal(term.value)
    kind = vocab.STRING if term.datatype == NamedNode("urn:example:kind") else NamedNode("urn:example:kind")
    return Literal(term.value, datatype=kind)


def alterations(quads: list[Quad], at: int) -> Iterator[tuple[str, list[Quad]]]:
    """Yield an export in which one statement was taken out, has another value or kind, or stands beside another."""
    quad = quads[at]
    rest = [*quads[:at], *quads[at + 1 :]]
    yield "took out", rest
    for how, made in (("altered", other_value(quad.object)), ("retyped", other_kind(quad.object))):
        changed = Quad(quad.subject, quad.predicate, made, quad.graph_name)
        yield how, [*rest, changed]
        if changed not in quads:
            yield f"{how} and kept", [*quads, changed]


def is_covered(quad: Quad, catalog: dict[Any, set[Any]]) -> bool:
    """Tell whether the verifier vouches for a statement: all of a turn, and of prompts, tags, notes and scores what they say."""
    if isinstance(quad.graph_name, NamedNode):
        return (
            "/" not in quad.graph_name.value
            and quad.predicate not in (vocab.ALTERNATE_OF, vocab.CALL_DIGEST, vocab.CALLED_IN, vocab.CALLED_FOR)
            and not (quad.predicate == vocab.GENERATED_BY and "/act/" in str(quad.object))
        )
    if quad.predicate in (vocab.PARENT_SESSION, vocab.FORKED_AT_INDEX, vocab.FORK_HEAD):
        return True
    if not catalog.get(quad.subject, set()) & _BESIDE:
        return False
    return quad.predicate not in (vocab.ATTRIBUTED_TO, vocab.TIME, vocab.TAG_NAME, vocab.TYPE)


@pytest.mark.parametrize("session", SESSIONS)
def test_each_statement_of_each_turn_that_is_altered_is_found(
    exports: dict[str, bytes], session: str, size: Size
) -> None:
    quads = read(exports[session])
    catalog: dict[Any, set[Any]] = {}
    for quad in quads:
        if quad.predicate == vocab.TYPE:
            catalog.setdefault(quad.subject, set()).add(quad.object)
    twice = {quad.subject for quad in quads if quad.predicate == vocab.TOOL_RESULT_OF}  # they name the call itself, too
    places = [
        at
        for at, quad in enumerate(quads)
        if is_covered(quad, catalog) and not (quad.predicate == vocab.ANSWERS_COPY and quad.subject in twice)
    ]
    if size == "quick":
        places = random.Random(7).sample(places, min(6, len(places)))
    for at in places:
        for how, altered in alterations(quads, at):
            assert not checked(written(altered))["ok"], f"{how} {quads[at]}"


@pytest.mark.parametrize(
    ("session", "predicate", "was", "now"),
    [
        ("alone", vocab.ALTERNATE_OF, "worn", "a copy from urn:trails:session:else"),
        ("picks", vocab.QUOTED_FROM, "dinner", "picked from urn:trails:session:else"),
        ("scan", vocab.DERIVED_FROM, "count", "a result of urn:trails:session:else"),
        ("tail", vocab.TOOL_RESULT_OF, "plan", "an answer to a call of urn:trails:session:else"),
    ],
)
def test_another_session_in_a_link_shows_where_it_is_said_that_no_digest_covers_it(
    exports: dict[str, bytes], session: str, predicate: NamedNode, was: str, now: str
) -> None:
    quads = read(exports[session])
    at = next(
        at
        for at, quad in enumerate(quads)
        if quad.predicate == predicate and isinstance(quad.graph_name, NamedNode) and was in str(quad.object)
    )
    quad = quads[at]
    assert isinstance(quad.object, NamedNode)
    moved = NamedNode(quad.object.value.replace(f"session:{was}/", "session:else/"))
    quads[at] = Quad(quad.subject, quad.predicate, moved, quad.graph_name)
    said = checked(written(quads))
    assert any(now in each["not_covered"] for each in said["sessions"])
    assert now not in exports[session].decode()


def _without_turn(quads: list[Quad], session: str, index: int) -> list[Quad]:
    start = f"urn:trails:session:{session}/{index}-"
    return [quad for quad in quads if start not in str(quad.subject)]


def test_a_turn_that_is_missing_in_between_is_named(exports: dict[str, bytes]) -> None:
    said = checked(written(_without_turn(read(exports["tail"]), "plan", 1)))
    assert ("index-gap", "plan", 1) in [(each["code"], each["session"], each["index"]) for each in said["findings"]]


def test_a_fork_without_the_turn_that_it_began_after_does_not_hold(exports: dict[str, bytes]) -> None:
    said = checked(written(_without_turn(read(exports["tail"]), "solo", 3)))
    assert ("index-gap", "tail", 3) in [(each["code"], each["session"], each["index"]) for each in said["findings"]]


def test_a_session_without_its_parent_does_not_hold(exports: dict[str, bytes]) -> None:
    kept = [quad for quad in read(exports["tail"]) if "urn:trails:session:plan" not in str(quad.subject)]
    kept = [quad for quad in kept if "urn:trails:session:plan" not in str(quad.graph_name)]
    assert codes(written(kept)) >= {"bad-lineage"}


def test_a_turn_cut_off_the_end_shows_by_a_head_that_was_kept(exports: dict[str, bytes]) -> None:
    [worn] = checked(exports["worn"])["sessions"]
    cut = written(_without_turn(read(exports["worn"]), "worn", 6))
    assert checked(cut)["ok"]  # as it says that it cannot show
    assert [each["code"] for each in checked(cut, worn["head"])["findings"]] == ["head-missing"]
    assert checked(exports["worn"], worn["head"])["ok"]


def test_a_fork_from_a_turn_with_another_digest_is_named(exports: dict[str, bytes]) -> None:
    head = next(each["head"] for each in checked(exports["tail"])["sessions"] if each["session"] == "solo")
    line = b'<https://w3id.org/trails#forkHead> "' + head.encode()
    assert line in exports["tail"]  # the tail was forked from the end of solo
    said = checked(exports["tail"].replace(line, line[:-8] + b"00000000"))
    assert [(each["code"], each["session"], each["index"]) for each in said["findings"]] == [("fork-head", "tail", 3)]


def test_turns_in_another_order_do_not_hold(exports: dict[str, bytes]) -> None:
    def other(quad: Quad) -> Quad:
        if quad.predicate != vocab.INDEX or str(quad.graph_name) != "<urn:trails:session:plan>":
            return quad
        now = {"0": "1", "1": "0"}.get(quad.object.value, quad.object.value)  # type: ignore[union-attr] # a number
        return Quad(quad.subject, quad.predicate, vocab.integer(int(now)), quad.graph_name)

    assert codes(written([other(quad) for quad in read(exports["tail"])])) >= {"digest-mismatch", "wrong-iri"}


@pytest.mark.parametrize("part", ["", "/model", "/call/0", "/result/0"])
def test_nothing_is_said_of_a_turn_outside_of_its_graph(exports: dict[str, bytes], part: str) -> None:
    turn = next(
        str(q.subject)[1:-1]
        for q in read(exports["tail"])
        if q.predicate == vocab.DIGEST and q.graph_name != vocab.CATALOG
    )
    forged = f'<{turn}{part}> <http://www.w3.org/ns/prov#value> "I never said so" .\n'.encode()
    assert codes(exports["tail"] + forged) == {"stray"}


@pytest.mark.parametrize("word", ["1", "0", "TRUE", "yes", ""])
def test_whether_a_tool_failed_is_said_in_one_way(exports: dict[str, bytes], word: str) -> None:
    said = b'isError> "false"'
    assert exports["tail"].count(said)
    altered = exports["tail"].replace(said, f'isError> "{word}"'.encode())
    assert {"stray", "missing"} <= codes(altered)


@pytest.mark.parametrize("author", ["urn:trails:principal:al%69ce", "principal:alice", "urn:trails:agent:alice"])
def test_an_author_under_an_iri_that_is_not_the_one_of_the_name_is_found(
    exports: dict[str, bytes], author: str
) -> None:
    """`al%69ce` and `alice` are one name to a digest, and two to whoever asks for what alice wrote."""
    changed = [
        Quad(quad.subject, quad.predicate, NamedNode(author), quad.graph_name)
        if str(quad.graph_name) == "<urn:trails:session:plan>" and "principal:alice" in str(quad.object)
        else quad
        for quad in read(exports["tail"])
    ]
    assert not checked(written(changed))["ok"]


def test_a_redaction_that_nothing_says_does_not_hold(exports: dict[str, bytes]) -> None:
    kept = [quad for quad in read(exports["worn"]) if "/deletion" not in str(quad.subject)]
    assert codes(written(kept)) >= {"unsaid", "digest-mismatch"}


# --- the program


def run(*arguments: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        file.write(_ALONE)
        file.flush()
        # no site-packages: nothing but the standard library
        command = [sys.executable, "-I", "-S", file.name, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_the_program_answers_in_text_and_json_and_by_its_exit_code(exports: dict[str, bytes], tmp_path: Path) -> None:
    whole, bad, none = tmp_path / "whole.nq", tmp_path / "bad.nq", tmp_path / "none.nq"
    whole.write_bytes(exports["tail"])
    bad.write_bytes(exports["tail"].replace(b"Thanks", b"No thanks"))
    none.write_text("<urn:a> <urn:b> <urn:c> .\n")
    good = run(whole)
    assert good.returncode == 0, good.stderr
    assert b"tail, a fork of solo at 4: holds: 5 turns, 1 its own" in good.stdout
    assert b"were true when they were written" in good.stdout
    found = run(bad, "--json")
    assert found.returncode == 1
    [finding] = json.loads(found.stdout)["findings"]
    assert (finding["code"], finding["session"], finding["index"]) == ("digest-mismatch", "plan", 4)
    assert b"plan: DOES NOT HOLD" in run(bad).stdout
    assert run("-", stdin=exports["tail"]).returncode == 0
    assert [run(none).returncode, run(tmp_path / "absent.nq").returncode, run().returncode] == [2, 2, 2]


@pytest.mark.parametrize(
    "line",
    [
        b'<urn:a> <urn:b> "\\q" .',
        b'<urn:a> <urn:b> "\\uD800" .',
        b'<urn:a> <urn:b> "\xff" .',
        b"<urn:a> <urn:b> _:c .",
        b"<urn:a> <urn:b> <urn:c>",
        b'<urn:a> <urn:b> "' + b"\\" * 5000,
        b'<urn:a> <urn:b> "\\UFFFFFFFF" .',
    ],
)
def test_a_line_that_is_no_statement_is_named_and_the_file_refused(exports: dict[str, bytes], line: bytes) -> None:
    with pytest.raises(quads.Unreadable, match="line 1 "):
        checked(line + b"\n" + exports["tail"])


def test_control_characters_of_a_file_do_not_reach_the_terminal(exports: dict[str, bytes]) -> None:
    evil = exports["tail"].replace(b"<urn:trails:session:plan>", b"<urn:trails:session:plan\xc2\x9b2J\xe2\x80\xae>")
    answer = run("-", stdin=evil)
    assert answer.returncode in (1, 2)
    assert all(32 <= byte < 127 or byte == 10 for byte in answer.stdout + answer.stderr)


def test_the_verifier_imports_nothing_but_the_standard_library_of_python_3_9() -> None:
    import ast

    tree = ast.parse(_ALONE, feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - {"__future__"} <= sys.stdlib_module_names
    assert not any(isinstance(node, ast.Match) for node in ast.walk(tree))


@pytest.mark.slow
def test_the_time_grows_with_the_number_of_turns_and_not_with_its_square(memory: Repository) -> None:
    """Sixteen times the turns would take 256 times as long by the square: the bound lies far from both."""
    spent = []
    for number in (250, 4000):
        session = memory.create(id=f"long-{number}")
        for index in range(number):
            session.append("user", f"turn {index}")
        session.persist()
        data = exported(memory, f"long-{number}")
        spent.append(min(_seconds_to_check(data) for _ in range(3)))
    assert spent[1] < 64 * spent[0]


def _seconds_to_check(data: bytes) -> float:
    start = time.process_time()
    assert checked(data)["ok"]
    return time.process_time() - start
