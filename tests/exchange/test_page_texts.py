"""What a person sees of texts on the HTML page: titles, folded output, thoughts, calls, pictures, a verdict."""

from __future__ import annotations

import base64
import re

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from tests.exchange.test_page import page
from trails import Repository
from trails.display import markdown
from trails.rdf import vocab
from trails.store.contract import Change

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


def turns(text: str) -> list[str]:
    """What stands between the head of each turn and the next turn."""
    return [each.split("</ol>")[0] for each in text.split("<li\n")[1:]]


def test_a_session_is_called_by_its_label_its_title_what_a_user_said_or_its_id_in_this_order(
    memory: Repository,
) -> None:
    plan = memory.create(id="plan", principal="ann")
    plan.append("assistant", "hello")
    plan.append("user", "Plan\na trip")
    plan.persist()
    for number, (label, meta) in enumerate(
        (("The *label*", {"title": "no"}), (None, {"title": "The <title>"}), (None, {}))
    ):
        plan.fork(id=f"f{number}", label=label, meta=meta).persist()
    answer = plan.fork(id="f3")
    answer.append("assistant", "said")
    answer.persist()
    text, _ = page(memory)
    names = re.findall(r"<h2>(.+?)</h2>", text)
    assert names == [
        "<bdi>Plan a trip</bdi> <small><bdi>plan</bdi></small>",
        "<bdi>The *label*</bdi> <small><bdi>f0</bdi></small>",
        "<bdi>The &lt;title&gt;</bdi> <small><bdi>f1</bdi></small>",
        "<bdi>f2</bdi>",
        "<bdi>said</bdi> <small><bdi>f3</bdi></small>",
    ]
    assert re.findall(r"<nav.*?</nav>", text, re.DOTALL)[0].count("Plan a trip") == 1


def test_what_users_and_models_say_is_laid_out_and_what_tools_say_is_not(memory: Repository) -> None:
    plan = memory.create(id="plan")
    for role in ("user", "assistant", "summary", "tool"):
        plan.append(role, "*a*")
    plan.persist()
    text, _ = page(memory)
    laid_out = "<div class=M><p><em>a</em></p>\n</div>"
    assert [each.rpartition("Z")[2][-len(laid_out) :] for each in turns(text)[:3]] == [laid_out] * 3
    assert turns(text)[3].endswith("<p>*a*")


def test_without_the_extra_texts_stand_as_they_are_and_the_report_says_how_to_lay_them_out(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "*a*")
    plan.persist()
    assert "how Markdown is laid out" not in page(memory)[1].left_out[-1]
    monkeypatch.setattr(markdown, "is_installed", lambda: False)
    text, report = page(memory)
    assert turns(text)[0].endswith("<p>*a*")
    assert (
        report.left_out[-1]
        == "how Markdown is laid out, which takes `pip install 'trails[html]'`: texts are shown as they are"
    )


def test_long_output_and_long_thoughts_are_folded_below_a_count(memory: Repository) -> None:
    plan = memory.create(id="plan")
    lines = "\n".join(f"line {number}" for number in range(13))
    plan.append("assistant", [{"type": "thinking", "thinking": "short"}, {"type": "thinking", "thinking": lines}])
    plan.append("tool", "\n".join(["x"] * 12))
    plan.append("tool", lines)
    plan.append("tool", "y" * 1001)
    plan.append("user", "z" * 8001)
    plan.append("assistant", "z" * 8001)
    plan.persist()
    shown = turns(page(memory)[0])
    assert "<p class=h>short" in shown[0]
    assert "<details class=h><summary><b>Thought</b> <bdi>line 0 line 1" in shown[0]
    assert "<i>13 lines</i></summary><p class=h>line 0\nline 1" in shown[0]
    assert "<details" not in shown[1]
    assert "<i>13 lines</i></summary><p>line 0\n" in shown[2]
    assert "<i>1,001 characters</i></summary><p>yyy" in shown[3]
    assert "<i>8,001 characters</i></summary><p>zzz" in shown[4]
    assert "<details" not in shown[5]


def test_a_short_call_is_a_line_and_a_long_one_an_argument_a_line_as_it_is(memory: Repository) -> None:
    plan = memory.create(id="plan")
    given = (
        {"q": "<a>"},
        {"command": "one\ntwo", "why": "w" * 80, "n": [1, 2]},
        {"text": "\n".join(["row"] * 20)},
    )
    for number, arguments in enumerate(given):
        plan.append("assistant", "", tool_calls=[{"id": str(number), "name": "run", "arguments": arguments}])
    twice = '{"a": "' + "x" * 80 + '", "a": "y"}'
    plan.append("assistant", "", tool_calls=[{"id": "3", "name": "run", "arguments": twice}])
    plan.persist()
    shown = turns(page(memory)[0])
    assert shown[0].endswith('<p class=c>→ <b>run</b> {"q":"&lt;a&gt;"}')
    rows = f"<p class=a><b>command</b> one\ntwo<p class=a><b>why</b> {'w' * 80}<p class=a><b>n</b> [1, 2]"
    assert shown[1].endswith(f"<p class=c>→ <b>run</b>{rows}")
    assert "<details class=c><summary><b>→ run</b> <bdi>row row" in shown[2]
    assert "<i>20 lines</i></summary><p class=a><b>text</b> row\nrow" in shown[2]
    assert twice in shown[3]  # an argument that is given twice would be seen once


def image(data: bytes, kind: str = "image/png") -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}}


def test_a_picture_stands_in_the_page_with_words_for_those_who_cannot_see_it(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", [{"type": "text", "text": "see"}, image(PNG), image(PNG[:8], "image/jpeg")])
    plan.append("user", [{"type": "image_url", "image_url": {"url": 'https://a.example/"x.png'}}])
    plan.append("user", [image(b"<svg onload=x()>", "image/svg+xml"), image(b"\0" * (1 << 20) + b"\0")])
    plan.persist()
    text, report = page(memory)
    first, second, third = turns(text)
    assert (
        f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}" alt="Picture 1 of turn 0: png, 48 bytes">'
        in first
    )
    assert 'alt="Picture 2 of turn 0: jpeg, 8 bytes">' in first
    assert second.endswith('<p class="f">Picture 1 of turn 1, which is not kept here: https://a.example/&quot;x.png')
    assert third.count("is not shown") == 2
    assert "<img" not in second + third
    assert report.left_out[-1].startswith("2 pictures: of a kind that is not shown, or too large")


def test_pictures_stand_in_the_page_up_to_eight_megabytes_in_all(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", [image(bytes([number]) + b"\0" * ((1 << 20) - 1)) for number in range(9)])
    plan.persist()
    text, report = page(memory)
    assert text.count("<img") == 8
    assert report.left_out[-1].startswith("1 picture: ")


def test_the_page_has_the_verdict_of_verify_and_the_digest_of_the_last_turn(memory: Repository) -> None:
    plan = memory.create(id="plan")
    turn = plan.append("user", "go")
    plan.persist()
    text, _ = page(memory)
    assert '<b class="good">Verified</b> when this page was written: nothing is wrong.' in text
    assert f"digest of its last turn, and so of all: <code>{turn.digest}</code>" in text
    (stored,) = memory.store.quads((NamedNode(turn.iri), vocab.VALUE, None, NamedNode(plan.iri)))
    changed = Quad(stored.subject, stored.predicate, Literal("gone"), stored.graph_name)
    memory.store.commit(Change(remove=[stored], add=[changed]))
    text, _ = page(memory)
    assert "Verified" not in text
    assert '<b class="bad">' in text
    assert "when this page was written:" in text


def test_the_verdict_on_a_family_is_of_its_sessions_alone(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "go")
    plan.persist()
    plan.fork(id="other").persist()
    lone = memory.create(id="lone")
    turn = lone.append("user", "go")
    lone.persist()
    (stored,) = memory.store.quads((NamedNode(turn.iri), vocab.VALUE, None, NamedNode(lone.iri)))
    memory.store.commit(
        Change(remove=[stored], add=[Quad(stored.subject, stored.predicate, Literal("x"), stored.graph_name)])
    )
    assert '<b class="good">Verified</b>' in page(memory, "plan")[0]
    assert '<b class="bad">' in page(memory, "lone")[0]
