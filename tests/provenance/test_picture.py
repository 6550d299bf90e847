"""Pictures of provenance: their nodes and edges, where they stand, and what is left out."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest

from tests.support.histories import History
from trails.provenance import Statement, Value
from trails.provenance.drawing import (
    HEIGHT,
    MAX_NODES,
    WIDTH,
    draw_mermaid,
    draw_png,
    draw_svg,
    lay_out_picture,
    picture,
)
from trails.provenance.statements import EVIDENCE

DERIVED = ((EVIDENCE, Value("derived")),)
SAID = [
    Statement("entity", "urn:x:report"),
    Statement("entity", "urn:x:draft"),
    Statement("activity", "urn:x:writing", (None, None)),
    Statement("agent", "urn:x:alice"),
    Statement("wasGeneratedBy", None, ("urn:x:report", "urn:x:writing", None)),
    Statement("used", None, ("urn:x:writing", "urn:x:draft", None)),
    Statement("wasAssociatedWith", None, ("urn:x:writing", "urn:x:alice", None), DERIVED),
]


def test_each_element_is_a_node_and_each_relation_an_arrow_to_what_came_first() -> None:
    shown = picture(SAID)
    assert [(node.name, node.kind) for node in shown.nodes] == [
        ("alice", "agent"),
        ("draft", "entity"),
        ("report", "entity"),
        ("writing", "activity"),
    ]
    names = [node.name for node in shown.nodes]
    assert {(names[edge.source], edge.label, names[edge.target], edge.is_derived) for edge in shown.edges} == {
        ("report", "wasGeneratedBy", "writing", False),
        ("writing", "used", "draft", False),
        ("writing", "wasAssociatedWith", "alice", True),
    }
    points, width, height = lay_out_picture(shown)
    tops = dict(zip(names, (point.y for point in points), strict=True))
    assert tops["draft"] == tops["alice"] < tops["writing"] < tops["report"]
    assert all(0 < point.x < width and 0 < point.y < height for point in points)


@pytest.mark.parametrize("seed", range(5))
def test_no_two_nodes_overlap_and_the_order_of_statements_changes_nothing(seed: int) -> None:
    statements = History(seed).statements
    shown = picture(statements)
    points, _, _ = lay_out_picture(shown)
    for number, one in enumerate(points):
        assert all(abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT for other in points[:number])
    mixed = list(statements)
    random.Random(seed).shuffle(mixed)
    assert draw_svg(picture(mixed)) == draw_svg(shown)
    assert draw_mermaid(picture(mixed)) == draw_mermaid(shown)


def test_turns_are_sorted_by_their_numbers_and_named_shortly() -> None:
    iris = [f"urn:trails:session:plan/{number}-{number:016x}" for number in (10, 2)]
    shown = picture(Statement("entity", iri) for iri in iris)
    assert [node.name for node in shown.nodes] == ["plan #2", "plan #10"]


def test_a_name_with_colons_is_drawn_whole() -> None:
    shown = picture([Statement("agent", "urn:trails:principal:x:alice", ())])
    assert [node.name for node in shown.nodes] == ["x:alice"]


def test_past_200_nodes_a_note_says_how_many_are_left_out() -> None:
    shown = picture(Statement("entity", f"urn:x:{number}") for number in range(MAX_NODES + 7))
    assert (len(shown.nodes), shown.nodes[-1].name) == (200, "199")
    assert shown.note == "7 more nodes are left out; the first 200 are shown"
    assert shown.note.encode() in draw_svg(shown)
    assert b"7 more nodes are left out" in draw_mermaid(shown)
    assert picture(SAID).note == ""


def test_a_circle_and_nothing_at_all_can_be_drawn() -> None:
    pairs = [("urn:x:a", "urn:x:b"), ("urn:x:b", "urn:x:a"), ("urn:x:a", "urn:x:a")]
    shown = picture(Statement("wasDerivedFrom", None, (*pair, None, None, None)) for pair in pairs)
    assert len(shown.edges) == 3
    for drawn in (draw_svg(shown), draw_svg(picture([]))):
        ElementTree.fromstring(drawn)  # noqa: S314 - our own


def test_a_hostile_name_stays_text() -> None:
    name = 'urn:x/"]<script>alert(1)</script>&\u202e\x1b'
    shown = picture([Statement("entity", name)])
    drawn = draw_svg(shown)
    ElementTree.fromstring(drawn)  # noqa: S314 - our own
    assert b"<script" not in drawn
    assert drawn.isascii()
    assert b"\x1b" not in drawn
    assert not {"<script", "\u202e", '"]<'} & set(draw_mermaid(shown).decode().split())


def test_a_long_chain_is_drawn_without_recursion() -> None:
    chain = [Statement("wasDerivedFrom", None, (f"urn:x:{n + 1}", f"urn:x:{n}", None, None, None)) for n in range(199)]
    points, _, _ = lay_out_picture(picture(chain))
    assert len({point.y for point in points}) == 200


@pytest.mark.filterwarnings("error")
def test_a_name_that_the_font_has_no_letters_for_is_drawn_without_a_warning() -> None:
    pytest.importorskip("matplotlib")
    assert draw_png(picture([Statement("agent", "urn:trails:principal:計画", ())])).startswith(b"\x89PNG")


def test_png_needs_no_other_program_and_is_the_same_each_time() -> None:
    pytest.importorskip("matplotlib")
    drawn = draw_png(picture(SAID))
    assert drawn.startswith(b"\x89PNG")
    assert draw_png(picture(SAID)) == drawn
