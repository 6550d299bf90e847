"""Sessions as one HTML page: each turn once, forks at their turns, and no text that steers it."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from string import ascii_lowercase
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Quad

import trails
from tests.support.commands import Run, ok, ok_json
from tests.support.pages import HOSTILE, grown
from trails import IndexGap, InvalidInput, Repository
from trails.exchange.exporters.session_family import SessionExport
from trails.exchange.file_import import export_session, import_path
from trails.rdf import vocab
from trails.store.contract import Change


class Read(HTMLParser):
    """What a parser finds: the elements, and the texts of each turn by its anchor; the next tag ends a text, as in a browser."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: dict[str, list[str]] = {}
        self.turn, self.inside = "", False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append((tag, told))
        self.inside = False
        if tag == "li" and "id" in told:
            self.turn = told["id"] or ""
            self.said[self.turn] = []
        if tag == "p" and self.turn:
            self.inside = True
            self.said[self.turn].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False
        if tag == "ol":
            self.turn = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.said[self.turn][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [told for name, told in self.tags if name == tag]


def page(store: Repository, session: str = "plan", *, forks: bool = True) -> tuple[str, SessionExport]:
    out = io.BytesIO()
    report = export_session(store, session, "html", out, forks=forks)
    return out.getvalue().decode(), report


def test_each_turn_stands_once_in_the_section_of_the_session_that_owns_it(store: Repository) -> None:
    grown(store)
    text, report = page(store)
    assert Read(text).said == {
        "b0-0": ["a"],
        "b0-1": ["b"],
        "b0-2": ["c"],
        "b1-2": ["x"],
        "b2-1": ["y"],
    }
    assert (report.format, report.sessions, report.turns) == ("html", ("plan", "other", "deep"), 5)


def test_a_fork_is_named_at_the_last_turn_that_it_shares_whoever_owns_that(memory: Repository) -> None:
    grown(memory)
    text, _ = page(memory)
    after = {
        anchor: text.split(f"<li\nid={anchor}")[1].split("<li\n")[0] for anchor in ("b0-0", "b0-1", "b0-2", "b1-2")
    }
    assert "1 fork from here" in after["b0-0"]
    assert 'href="#b2"' in after["b0-0"]
    assert "1 fork from here" in after["b0-1"]
    assert 'href="#b1"' in after["b0-1"]
    assert "from here" not in after["b0-2"].split("<section")[0]
    assert 'to <a href="#b0-1">turn 1</a>' in text
    assert 'to <a href="#b0-0">turn 0</a>' in text


def test_a_session_alone_comes_with_what_it_inherits_and_with_no_more(memory: Repository) -> None:
    grown(memory)
    text, report = page(memory, "deep", forks=False)
    assert Read(text).said == {"b0-0": ["a"], "b1-1": ["y"]}
    assert (report.sessions, report.turns) == (("deep",), 2)
    assert "Only the turns that are inherited stand here" in text


def test_what_a_session_spawned_stands_below_it_with_its_forks(memory: Repository) -> None:
    main = trails.Tree(memory).main("alice", "web")
    main.append("user", "go")
    main.persist()
    child = main.spawn("branch", "look", id="child")
    child.append("user", "looking")
    child.persist()
    memory.load("child").fork(id="again").persist()
    text, report = page(memory, main.id)
    assert report.sessions == (main.id, "child", "again")
    assert (text.count("<p>looking"), report.turns) == (
        1,
        memory.record("child").starts_at + len(memory.load("child")) + 1,
    )
    assert 'Spawned by <a href="#b0"><bdi>go</bdi></a>' in text
    nested = "".join(re.findall(r"</?(?:ol|li)>", text.split("<nav")[1].split("</nav>")[0]))
    assert nested == "<ol><li><ol><li><ol><li></li></ol></li></ol></li></ol>"


def test_a_fork_at_the_first_turn_that_its_parent_owns_is_named_where_that_one_left(memory: Repository) -> None:
    grown(memory)
    memory.load("other").fork(at=2, id="twin").persist()
    text, _ = page(memory)
    after = text.split("<li\nid=b0-1")[1].split("<li\n")[0]
    assert "2 forks from here" in after


def test_sessions_that_are_said_to_have_spawned_each_other_stand_on_the_page_once(memory: Repository) -> None:
    main = trails.Tree(memory).main("alice", "web")
    main.append("user", "go")
    main.persist()
    main.spawn("branch", "look", id="child")
    circle = Quad(
        NamedNode(memory.record(main.id).iri), vocab.SPAWNED_BY, NamedNode(memory.record("child").iri), vocab.CATALOG
    )
    memory.store.commit(Change(add=[circle]))
    text, report = page(memory, main.id)
    assert report.sessions == (main.id, "child")
    assert text.count('<section id="b') == 2


def test_a_sub_agent_that_began_with_a_copy_shares_it_on_the_page_too(memory: Repository, shared: Path) -> None:
    import_path(memory, shared / "data" / "research" / "atif" / "embedded_v17.json")
    root = next(twig.node.id for twig in memory.forest() if twig.node.relation == "root")
    text, report = page(memory, root, forks=False)
    read = Read(text)
    assert len(read.named("section")) == 2 + 4  # search, comparison; the run and its three sub-agents
    assert len(read.said) == report.turns == sum(twig.node.own_turns for twig in memory.forest())


def test_no_text_becomes_markup_or_turns_what_stands_beside_it(memory: Repository) -> None:
    session = memory.create(
        id="plan", label=HOSTILE[3] + "</script>", principal="<b>alice", meta={"<i>": HOSTILE[5]}, system=HOSTILE[0]
    )
    for text in HOSTILE:
        session.append("user", text)
    session.append("<script>:own", [{"type": "text", "text": HOSTILE[0]}, {"type": "image", "url": HOSTILE[1]}])
    session.append("assistant", "", tool_calls=[{"id": "c", "name": HOSTILE[1], "arguments": {"q": HOSTILE[0]}}])
    session.persist()
    memory.notes.add("plan", 0, HOSTILE[2])
    memory.tags.add("v1", "plan@1")
    text, _ = page(memory)
    read = Read(text)
    assert len(read.named("script")) == 1
    assert len(read.named("style")) == 1
    assert read.named("img") == []
    assert [
        told for _, told in read.tags if any(name.startswith("on") or name in ("style", "src") for name in told)
    ] == []
    assert len(read.named("h1")) == 1
    assert [read.said[f"b0-{index}"][0] for index in (0, 1, 2, 3, 6, 7)] == [HOSTILE[i] for i in (0, 1, 2, 3, 6, 7)]
    assert read.said["b0-4"] == ["\\u202eright to left\\u2066 and more"]
    assert read.said["b0-5"] == ["a␀b␛[31m"]
    assert "\u202e" not in text
    assert "\x00" not in text


@given(
    st.lists(
        st.text(alphabet=st.sampled_from("<>&\"'/!-=`\n\r\t\x00\u202e aA;#x]"), min_size=1), min_size=2, max_size=2
    )
)
def test_whatever_is_said_the_page_has_the_same_elements(texts: list[str]) -> None:
    assert elements(texts) == elements(["x", "x"])


def elements(texts: list[str]) -> list[tuple[str, list[str]]]:
    """The elements of a page, with the names of their attributes, on which two texts stand in different places."""
    said, told = texts
    plain = patch("trails.display.markdown.is_installed", lambda: False)  # tests/exchange/test_markdown.py has Markdown
    with plain, trails.open(":memory:") as store:
        session = store.create(id="plan", meta={"told": told}, system=told)
        session.append("user", said)
        session.append(
            "assistant", [{"type": "text", "text": said}, {"type": "thinking", "thinking": told}], model="m-1"
        )
        session.append("assistant", "a", tool_calls=[{"id": "c", "name": "ls", "arguments": {"a": said}}])
        session.persist()
        store.notes.add("plan", 0, f"n{told}")
        text, _ = page(store)
    return [(tag, sorted(told)) for tag, told in Read(text).tags]


def test_the_page_forbids_every_script_and_style_but_its_own_two(memory: Repository) -> None:
    grown(memory)
    text, _ = page(memory)
    (policy,) = [told["content"] for told in Read(text).named("meta") if "http-equiv" in told]
    rules = dict(rule.split(" ", 1) for rule in str(policy).split("; "))
    assert (rules["default-src"], rules["base-uri"], rules["form-action"]) == ("'none'", "'none'", "'none'")
    for rule, tag in (("script-src", "script"), ("style-src", "style")):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert rules[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', text) == []


def test_only_names_that_could_turn_what_stands_beside_them_stand_in_a_box_of_their_own(memory: Repository) -> None:
    plan = memory.create(id="plan", principal="ann-1.b")
    plan.append("user", "go")
    plan.append("user", "go", author="\u05d0\u05dc")
    plan.append("user", "go", author="(ann")
    plan.append("assistant", "gone", author="2nd")
    plan.persist()
    heads = re.findall("<li\n.*?>(?=<a).*?>(.*?), ", page(memory)[0])
    assert heads == [
        "0 user</a> ann-1.b",
        "1 user</a> <bdi>\u05d0\u05dc</bdi>",
        "2 user</a> <bdi>(ann</bdi>",
        "3 assistant</a> <bdi>2nd</bdi>",
    ]


def test_a_turn_has_little_beside_its_text_and_its_day_only_where_that_is_another(memory: Repository) -> None:
    day = datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC)
    plan = memory.create(id="plan", principal="ann", agent="bot")
    for number, (role, text) in enumerate((("user", "go"), ("assistant", "where?"), ("tool", "sea"), ("user", "on"))):
        plan.append(role, text, time=day + timedelta(seconds=number), model="m-1" if number == 1 else None)
    plan.persist()
    text, _ = page(memory)
    assert text.split("<ol start=0>")[1].split("</ol>")[0].split("<li\n") == [
        "",
        "id=b0-0 class=u><a href=#b0-0>0 user</a> ann, 2026-03-01 23:59:58<p>go",
        "id=b0-1><a href=#b0-1>1 assistant</a> bot, m-1, 23:59:59<p>where?",
        "id=b0-2 class=t><a href=#b0-2>2 tool</a> bot, 2026-03-02 00:00:00<p>sea",
        "id=b0-3 class=u><a href=#b0-3>3 user</a> ann, 00:00:01<p>on",
    ]


@pytest.mark.slow
def test_fifty_branches_of_two_hundred_turns_that_share_nothing_are_less_than_five_megabytes(
    memory: Repository,
) -> None:
    draw = random.Random(5)
    words = ["".join(draw.choices(ascii_lowercase, k=7)) for _ in range(2000)]
    plan = memory.create(id="plan", principal="alice", agent="planner")
    plan.persist()
    for branch in (plan, *(plan.fork(at=0, id=f"fork-{number}") for number in range(49))):
        for index in range(200):
            branch.append(("user", "assistant")[index % 2], " ".join(draw.choices(words, k=50)) + "!")
        branch.persist()
    text, report = page(memory)
    assert report.turns == 10_000
    assert 10_000 * 400 < len(text.encode()) < 5_000_000


def test_blank_lines_at_the_beginning_of_a_text_are_kept(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("user", "\n\nspaced")
    session.persist()
    text, _ = page(memory)
    assert "<p>\n\nspaced</ol>" in text


def test_a_redacted_turn_shows_nothing_of_its_text(memory: Repository) -> None:
    grown(memory)
    memory.redact("plan", 1)
    text, _ = page(memory)
    assert Read(text).said["b0-1"] == ["(redacted)"]


def test_scores_stand_with_what_was_scored_and_those_of_sessions_in_the_table_too(memory: Repository) -> None:
    grown(memory)
    memory.score("plan", "accuracy", 0.25, by="agent:judge")
    memory.score("plan", "accuracy", 0.75, by="agent:judge", version="2", reason="<b>better</b>")
    memory.score("other#2", "kind", "short", by="alice")
    text, _ = page(memory)
    assert '<th scope="col"><bdi>accuracy</bdi></th>' in text
    head = text.split('<section id="b0"')[1].split("<li\n")[0]
    assert "Score <bdi>accuracy</bdi>: <b><bdi>0.75</bdi></b> by <bdi>judge</bdi> <bdi>2</bdi>" in head
    assert "&lt;b&gt;better&lt;/b&gt;" in head
    turn = text.split("<li\nid=b1-2")[1].split("</ol>")[0]
    assert "Score <bdi>kind</bdi>: <b><bdi>short</bdi></b> by <bdi>alice</bdi>" in turn


def test_a_truth_value_is_shown_as_it_is_written_everywhere(memory: Repository) -> None:
    grown(memory)
    memory.score("plan", "right", True, by="ann")
    text, _ = page(memory)
    assert "Score <bdi>right</bdi>: <b><bdi>true</bdi></b> by" in text
    assert "<bdi>true</bdi></td>" in text
    assert "True" not in text


def test_the_same_sessions_give_the_same_bytes(memory: Repository) -> None:
    grown(memory)
    assert page(memory) == page(memory)


def test_a_transcript_that_is_not_whole_makes_no_page(memory: Repository) -> None:
    grown(memory)
    (turn,) = memory.reader.turns_at("plan", [1])
    gone = memory.store.quads((NamedNode(turn.iri), None, None, NamedNode("urn:trails:session:plan")))
    memory.store.commit(Change(remove=gone))
    with pytest.raises(IndexGap, match="turn 1"):
        page(memory)


def test_a_part_that_is_no_text_is_cut_and_the_report_says_so(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append("user", [{"type": "chart", "data": "x" * 5000}])
    session.persist()
    text, report = page(memory)
    assert report.left_out[-1] == "1 part: no text, and longer than the 2,000 characters that are shown"
    assert len(Read(text).said["b0-0"][0]) == 2001


def test_a_format_that_holds_one_session_refuses_forks(memory: Repository) -> None:
    grown(memory)
    with pytest.raises(InvalidInput, match="holds one session, without its forks; those that hold them are: html"):
        export_session(memory, "plan", "pi", io.BytesIO(), forks=True)


@pytest.mark.slow
def test_five_hundred_forks_of_one_turn_are_folded(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "a")
    plan.persist()
    for number in range(500):
        plan.fork(at=1, id=f"f{number}").persist()
    text, report = page(memory)
    assert len(report.sessions) == 501
    assert "<details class=k><summary>500 forks from here</summary>" in text
    assert text.count('<section id="b') == 501


def test_the_command_writes_the_page_and_names_what_is_left_out(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        grown(store)
    file = tmp_path / "plan.html"
    told = ok_json(run("export", "plan", "--format", "html", "--forks", "-o", file, "--json"))
    assert (told["sessions"], told["turns"], told["format"]) == (["plan", "other", "deep"], 5, "html")
    assert Read(file.read_text()).said["b2-1"] == ["y"]
    alone = run("export", "deep", "--format", "html", "-o", tmp_path / "deep.html")
    assert ok(alone) == ""
    assert "left out: salts" in alone.stderr


def test_what_a_turn_has_that_the_page_does_not_show_is_named(memory: Repository) -> None:
    session = memory.create(id="plan")
    session.append(
        "assistant",
        [{"type": "thinking", "thinking": "hm", "signature": "unseen"}],
        model="m",
        stop_reason="unseen",
        usage={"input_tokens": 1, "tier": "unseen"},
        tool_calls=[{"id": "unseen", "name": "ls", "arguments": "{}"}],
        meta={"unseen": "unseen"},
    )
    ran = {"call_id": "unseen", "approved_by": "unseen", "server": "unseen", "version": "unseen"}
    session.append("tool", "bin", tool_results=[ran])
    session.persist()
    text, report = page(memory)
    assert "unseen" not in text
    for named in ("stop reasons", "metadata of turns", "usage beyond tokens", "ids of calls", "approved", "thoughts"):
        assert named in report.left_out[1]


def test_on_stdout_the_page_is_the_same(run: Run, place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        grown(store)
        text, _ = page(store)
    assert ok(run("export", "plan", "--format", "html", "--forks")) == text


@pytest.mark.parametrize(("form", "lines"), [("html", 2), ("pi", 2), ("nquads", 0)])
def test_what_is_left_out_is_named_on_stderr_for_stdout_too(run: Run, place: Path, form: str, lines: int) -> None:
    with trails.open(place, create=True) as store:
        grown(store)
    assert run("export", "plan", "--format", form).stderr.count("left out: ") == lines


def told(text: str) -> list[str]:
    """The rows of all comparisons of a page, as they stand there."""
    return re.findall("<div class=((?:changed|left|right)>.*?)</div>", text)


def grow_apart(store: Repository) -> None:
    """plan: go, four words, yes; slow leaves it at 1 with other words, a call and an end; late leaves slow at 1."""
    plan = store.create(id="plan", label="<The plan>")
    for role, said in (("user", "go"), ("assistant", "by the <fast> train"), ("user", "yes")):
        plan.append(role, said)
    plan.persist()
    slow = plan.fork(at=1, id="slow")
    slow.append("assistant", "by the <slow> train")
    slow.append("user", "yes")
    slow.append("assistant", "", tool_calls=[{"id": "1", "name": "book", "arguments": {"seat": "<4>"}}])
    slow.persist()
    late = slow.fork(at=2, id="late")
    late.append("user", "no")
    late.persist()


def test_a_fork_says_where_it_differs_from_its_parent_with_links_and_marked_words(memory: Repository) -> None:
    grow_apart(memory)
    text, _ = page(memory)
    assert "<summary>Where it differs from <bdi>&lt;The plan&gt;</bdi></summary>" in text
    assert told(text) == [
        (
            "changed><p><a href=#b0-1>1 assistant</a> by the &lt;<del>fast</del>&gt; train"
            "<p><a href=#b1-1>1 assistant</a> by the &lt;<ins>slow</ins>&gt; train"
        ),
        'right><p><p><a href=#b1-3>3 assistant</a> → book {"seat":"&lt;4&gt;"}',
        ("changed><p><a href=#b1-2>2 user</a> <del>yes</del><p><a href=#b2-2>2 user</a> <ins>no</ins>"),
        'left><p><a href=#b1-3>3 assistant</a> → book {"seat":"&lt;4&gt;"}<p>',
    ]
    assert text.count('<div class="e">1 turn equal</div>') == 1


def test_what_a_parent_inherits_is_compared_where_its_owner_has_it(memory: Repository) -> None:
    grown(memory)
    text, _ = page(memory)
    assert [row.partition(">")[0] for row in told(text)] == ["left", "right", "changed", "left"]
    # deep leaves other at 1: other has b of plan there, and then its own x
    assert "href=#b0-1>1 user</a> <del>b</del>" in told(text)[2]
    assert "href=#b1-2>2 assistant</a> x" in told(text)[3]


def test_a_fork_that_differs_in_much_shows_the_beginning_of_that_and_counts_the_rest(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "go")
    for number in range(50):
        plan.append("user", f"left {number} " + "x" * 500)
    plan.persist()
    other = plan.fork(at=1, id="other")
    for number in range(45):
        other.append("assistant", f"right {number} " + "y" * 500)
    other.persist()
    text, _ = page(memory)
    assert len(told(text)) == 10
    assert '<div class="e">70 turns more that differ, 15 turns not compared here</div>' in text
    assert max(map(len, told(text))) < 300


def test_a_fork_is_not_compared_where_one_ends_at_its_beginning_or_its_parent_is_not_there_as_a_whole(
    memory: Repository,
) -> None:
    grown(memory)
    memory.load("plan").fork(id="bare").persist()
    with memory.load("plan").fork(id="on") as on:
        on.append("user", "and on")
    assert "Where it differs" not in page(memory, "other", forks=False)[0]
    text, _ = page(memory)
    assert re.findall("Where it differs from <bdi>(.*?)</bdi>", text) == ["a", "x"]
