"""Queries from outside: none reaches another server, none ends the process, and each mistake is told with its place."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import pytest

import trails
from tests.support.commands import invoke
from tests.support.hostile import CHAINS, Listener
from tests.support.machines import Size
from tests.support.places import ROOT
from tests.support.sessions import say
from trails import InvalidInput, Repository, TrailsError
from trails.rdf import query_guard
from trails.runtime.routing import Router
from trails.runtime.routing.access_rules import View


def python(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: what is tested here would end this one."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout)


@pytest.fixture
def view(memory: Repository) -> View:
    """A view of a store of one session."""
    router = Router(memory)
    session = router.session("main")
    session.append("user", "mine")
    session.persist()
    return router.view("main")


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


# --- which graphs


GRAPHS = {name: f"urn:trails:session:{name.lower()}" for name in ("NOWHERE", "FIRST", "SECOND")}


def asked(text: str, home: str = "") -> str:
    """A query with what stands behind its dollars."""
    return Template(text).substitute(GRAPHS, SAID="{ ?t prov:value ?x }", HOME=home)


@pytest.fixture
def two(store: Repository) -> Repository:
    """Two sessions of one turn each: "one" and "two"."""
    say(store.create(id="first"), "one")
    say(store.create(id="second"), "two")
    return store


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT ?x $SAID", ["one", "two"]),
        ("SELECT ?x FROM <$NOWHERE> $SAID", []),
        ("SELECT ?x FROM <$FIRST> $SAID", ["one"]),
        ("SELECT*FROM<$FIRST>$SAID", ["one"]),
        ("PREFIX s: <urn:trails:session:> SELECT ?x fRoMs:second $SAID", ["two"]),
        ("SELECT ?x FROM <$FIRST> FROM <$SECOND> $SAID", ["one", "two"]),
        ("SELECT ?x FROM NAMED <$FIRST> $SAID", []),
        ("SELECT ?x FROM NAMED <$FIRST> { GRAPH ?g $SAID }", ["one"]),
        ("SELECT ?x FROM <$FIRST> { GRAPH <$SECOND> $SAID }", []),
        ("SELECT ?x { ?from prov:value ?x FILTER(?x != 'FROM <$FIRST>') } # FROM <$NOWHERE>", ["one", "two"]),
        ("PREFIX FROM: <urn:x:> SELECT ?x $SAID ORDER BY FROM:a", None),
        ("SELECT ?x { ?t prov:value ?x OPTIONAL { ?t prov:wasDerivedFrom ?o } }", ["one", "two"]),
    ],
)
def test_from_says_which_graphs_a_query_is_over(two: Repository, text: str, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(InvalidInput, match="not valid SPARQL"):
            two.query(asked(text))
        return
    assert sorted(row["x"] for row in two.query(asked(text)).to_dicts()) == found  # type: ignore[union-attr] # a SELECT


def test_from_counts_in_ask_and_construct_and_in_a_view(two: Repository) -> None:
    assert two.query(asked("ASKFROM<$NOWHERE>{?s ?p ?o}")) is False
    assert two.query(asked("ASK FROM <$FIRST> { ?t prov:value 'one' }")) is True
    assert two.query(asked("CONSTRUCT WHERE $SAID")) != []
    assert two.query(asked("CONSTRUCT FROM <$NOWHERE> WHERE $SAID")) == []
    router = Router(two)
    say(router.session("main"), "three")
    home = router.session("main").iri
    view = router.view("main")
    assert view.query(asked("SELECT ?x $SAID")).to_dicts() == [{"x": "three"}]  # type: ignore[union-attr] # a SELECT
    assert view.query(asked("SELECT ?x FROM <$HOME> $SAID", home)).to_dicts() == [{"x": "three"}]  # type: ignore[union-attr]
    assert view.query(asked("ASKFROM<$FIRST>$SAID")) is False
    assert view.query(asked("ASKFROM<$HOME>$SAID", home)) is True


# --- reaching out


@pytest.mark.parametrize(
    "text",
    [
        "SELECT*{SERVICESILENT<U>{?s ?p ?o}}",
        "PREFIX :<U> SELECT*{SERVICE:x{}}",
        "PREFIX :<U> PREFIX SERVICE:<U> SELECT*{SERVICE:x{}}",
        "SELECT*{?s ?p trueSERVICE <U>{}}",
        "SELECT*{?s ?p 1e5SERVICE <U>{}}",
        "SELECT*{?s ?p 1.5sErViCe<U>{}}",
        "SELECT*{FILTER(1<2)SERVICE#>\n<U>{}}",
        "SELECT*{FILTER(1<2)SERVICE SILENT#>'\n<U>{}#'\n}",
        'SELECT*{FILTER(1<2#>"""\n)SERVICE<U>{}}#"""',
        "ASK{FILTER EXISTS{SERVICESILENT<U>{}}}",
        "SELECT*{VALUES ?t{<U>}SERVICE?t{}}",
        "SELECT(EXISTS{SERVICESILENT<U>{}}AS ?e){}",
        "CONSTRUCT{<a:a><a:b><a:c>}WHERE{SERVICESILENT<U>{}}",
        "# service\nSELECT ?SERVICE {SERVICESILENT<U>{}}",
        "SELECT*{\\u0053ERVICE <U>{}}",
        "LOAD<U>",
        "#\nLOAD SILENT <U> INTO GRAPH <a:b>",
        "INSERT{<a:a><a:b><a:c>}WHERE{SERVICESILENT<U>{}}",
    ],
)
def test_whatever_reaches_another_server_is_refused_and_nothing_connects(
    memory: Repository, view: View, listener: Listener, text: str
) -> None:
    before = listener.connections
    for asked in (memory, view):
        with pytest.raises(InvalidInput, match=r"SERVICE|LOAD|begins an update|line 1, column \d"):
            asked.query(text.replace("<U>", f"<{listener.url}>"))
    assert listener.connections == before


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT('SERVICE <http://a/> {}' AS ?a) ('''LOAD 'it' ''' AS ?b){}", ("a", "b")),
        ("SELECT ?service ?SERVICE ?Load ?load {}", ("service", "SERVICE", "Load", "load")),
        ("SELECT ?o { ?s <http://example.org/service/LOAD> ?o } # SERVICE <http://a/> {}", ("o",)),
        ("PREFIX load: <http://a/> PREFIX service: <http://b/> SELECT ?o { service:x load:service ?o }", ("o",)),
        ("SELECT('x'@service AS ?a) ('x'@en-service AS ?b){}", ("a", "b")),
        ("SELECT ?o { _:service a ?o . _:load a ?o }", ("o",)),
        ("SELECT ?qaaaaaa ?service { VALUES(?qaaaaaa ?service){(1 2)} }", ("qaaaaaa", "service")),
        ("#service\nSELECT ?a {} #\\u0053ERVICE", ("a",)),
    ],
)
def test_the_words_are_fine_in_texts_names_iris_and_comments(
    memory: Repository, view: View, text: str, columns: tuple[str, ...]
) -> None:
    for asked in (memory, view):
        assert asked.query(text).variables == columns  # type: ignore[union-attr] # a SELECT


def test_a_query_with_the_word_in_a_text_finds_that_text(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", "call the SERVICE desk")
    session.persist()
    rows = memory.query("SELECT ?t { ?t prov:value ?c FILTER(CONTAINS(?c, 'SERVICE desk')) }")
    assert len(rows) == 1  # type: ignore[arg-type] # a SELECT


# --- staying alive


@pytest.mark.slow
def test_every_chain_lives_on_a_quarter_of_the_stack_that_it_gets() -> None:
    done = python("-m", "tests.support.hostile", "stack", "4")
    assert done.returncode == 0, done.stderr[-200:]
    assert json.loads(done.stdout).keys() == CHAINS.keys()


@pytest.mark.slow
def test_the_worst_chain_ends_a_process_that_has_too_little_stack() -> None:
    """The test before, which runs with --all, sees what it is to see: a stack that runs out."""
    assert python("-m", "tests.support.hostile", "stack", "16").returncode == -signal.SIGSEGV


_ON_A_SMALL_STACK = """
import threading, trails
from tests.support.machines import Size
store = trails.open(":memory:")
texts = ["SELECT*{FILTER(" + "||".join(["1"] * 700) + ")}", "SELECT*{?x " + "/".join(["<a:b>"] * 60) + " ?y}",
         "SELECT*{" + "{" * 190 + "}" * 190 + "}", "SELECT*{FILTER(" + "/".join(["1"] * 32_000) + ")}"]
said = []
threading.stack_size(256 * 1024)
for text in texts:
    thread = threading.Thread(target=lambda: said.append(store.query(text)))
    thread.start()
    thread.join()
assert threading.stack_size() == 256 * 1024
print(len(said))
"""


def test_long_queries_live_on_a_thread_with_a_small_stack_and_its_size_stays() -> None:
    done = python("-c", _ON_A_SMALL_STACK)
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done.stderr[-300:]


@pytest.mark.parametrize(
    "text", ["1-" * 32_000, "a-" * 32_000, "<" * 65_000, "'\"" * 32_000, "#a:" * 21_000, "BASE<a:>" * 8000]
)
def test_a_text_is_looked_through_in_no_time(text: str) -> None:
    before = time.process_time()
    with contextlib.suppress(InvalidInput):
        query_guard.check_text(text)
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    ("counted", "one"),
    [
        (64, "?s <a:%d> ?o%d ."),
        (64, "{ ?a%d ?b%d ?c }"),
        (64, "GRAPH ?g { ?s <a:%d> ?c%d }"),
        (64, "VALUES ?v%d { 1 2.5 %d }"),
        (64, "[ <a:%d> ?o%d ] ."),
        (64, "{ SELECT * { ?s <a:%d> ?o%d } }"),
        (64, "OPTIONAL { ?s <a:%d> ?o%d . ?s a ?c }"),
        (32, "{ ?s <a:%d> ?o%d } UNION { ?s ?p ?o }"),
        (32, "?s <a:%d>/<a:b> ?o%d ."),
        (16, "{ { ?s <a:%d> ?o%d } UNION { ?s ?p ?o . ?a ?b ?c ; ?d ?e , ?f } }"),
    ],
)
def test_so_many_patterns_may_be_joined_and_no_more(memory: Repository, counted: int, one: str) -> None:
    def joined(count: int) -> str:
        return f"ASK {{ {' '.join(one % (number, number) for number in range(count))} }}"

    before = time.process_time()
    memory.ask(joined(counted))
    query_guard.check_text(joined(counted))
    assert time.process_time() - before < 1
    with pytest.raises(InvalidInput, match="joins more than 64 patterns in one group"):
        memory.ask(joined(counted + 1))


@pytest.mark.parametrize(
    "one",
    [
        "MINUS { ?s <a:%d> ?o%d }",
        "FILTER NOT EXISTS { ?s <a:%d> ?o%d }",
        "FILTER(?o > %d.%d)",
        "BIND(%d.5 AS ?v%d)",
    ],
)
def test_what_is_planned_by_itself_counts_by_itself(memory: Repository, one: str) -> None:
    text = f"ASK {{ ?s ?p ?o {' '.join(one % (number, number) for number in range(200))} }}"
    assert memory.ask(text) is False
    many = " ".join(f"?s <a:{number}> 1 ." for number in range(200))
    assert memory.construct(f"CONSTRUCT {{ {many} }} WHERE {{ ?s ?p ?o }}") == []
    assert memory.ask(" UNION ".join(["ASK { { ?s ?p ?o }", *(["{ ?s ?q ?r . ?r ?p ?o }"] * 200)]) + "}") is False


def test_triples_of_triples_in_a_result_are_bounded(memory: Repository, view: View) -> None:
    def nested(depth: int) -> str:
        steps = "".join(f"BIND(TriplE#\n(:,:,?v{number})AS?v{number + 1})" for number in range(depth))
        return f"PREFIX : <a:> SELECT ?v{depth} {{BIND(:a AS?v0){steps}}}"

    for asked in (memory, view):
        (row,) = asked.query(nested(50))  # type: ignore[misc] # a SELECT
        assert str(row[0]).count("<<") == 49  # the outermost one is written bare
        with pytest.raises(InvalidInput, match="more than 50 triples of triples"):
            asked.query(nested(51))
        with pytest.raises(InvalidInput, match="more than 50 triples of triples"):
            asked.query("SELECT*{?a ?b " + "<<(?a ?b " * 51 + "1" + ")>>" * 51 + "}")


@pytest.mark.slow
def test_hostile_queries_by_the_thousand_reach_nothing_show_nothing_and_end_nothing(size: Size) -> None:
    count = {"quick": 100, "all": 300, "long": 10_000}[size]
    done = python("-m", "tests.support.hostile", "queries", "7", str(count), timeout=3000)
    assert done.returncode == 0, done.stderr[-300:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["connections"], told["shown"]) == (0, [])
    assert told["store tells"], "the secret was never there"
    assert told["listener hears"], "the listener is deaf"
    assert sum(told["outcomes"].values()) == 2 * count
    assert told["outcomes"]["prying: answered"] > count / 4


def test_a_stack_that_cannot_be_had_is_told_with_what_to_do(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = threading.stack_size()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(TrailsError, match=r"no room for a thread with a stack of \d+ MiB.*ulimit -v"):
        memory.query("forest")
    assert threading.stack_size() == before


# --- threads


def test_what_a_failed_query_held_is_freed_on_the_thread_that_made_it() -> None:
    freed: list[str] = []

    class Held:
        def __del__(self) -> None:
            freed.append(threading.current_thread().name)

    def work() -> None:
        held = Held()
        try:
            raise ValueError(f"first {held is None}")
        except ValueError as error:
            raise TrailsError("then") from error

    with pytest.raises(TrailsError, match="then"):
        query_guard.on_thread(work, 10)
    assert freed == ["trails-query"]


def test_an_interrupt_is_raised_at_once_and_the_query_ends_with_its_next_row() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    ended = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                time.sleep(0.001)
                yield 1
        finally:
            ended.set()

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            query_guard.guard_answer("ASK {}", lambda: query_guard.rows(endless()))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended.wait(10)


_ENDLESS = "SELECT (COUNT(*) AS ?n) { " + " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(12)) + " }"


def test_ctrl_c_ends_a_command_whose_query_gives_no_row(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True) as store:
        session = store.create(id="s")
        for number in range(20):
            session.append("user", str(number))
        session.persist()
    command = [sys.executable, "-m", "trails", "query", "--store", str(tmp_path / "s.trails"), _ENDLESS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            _wait_for_query(running.pid)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=30)
        finally:
            running.kill()
    assert (running.returncode, out, err.strip()) == (130, "", "error: interrupted")


def _wait_for_query(pid: int) -> None:
    """Wait until a process that a process started has computed for a while: the query is under way."""
    for _ in range(600):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            ticks = int(Path(f"/proc/{child}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11])
            if ticks > 30:
                return
        time.sleep(0.1)
    raise AssertionError("the query never began")


# --- errors


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELCT * {}", "line 1, column 1, at 'SELCT * {}'; a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"),
        ("PREFIX a: <a:>\n  not SPARQL", "line 2, column 3, at 'not SPARQL'; a query begins with"),
        ("SELECT * {\n  ?s ?p ?o .\n  FITLER(?o > 1)\n}", "line 3, column 3, at 'FITLER(?o > 1)'"),
        ("SELECT * { ?s ?p ?o } LIMIT x", "line 1, column 29, at 'x'"),
        ("ASK { ?s ?p ?o } }", "at '} }'"),
        ("SELECT ?x WHERE { ?s ?p ?o", "it ends too early, at line 1, column 27"),
        ("SELECT * {\n ?s ?p 'abc }", "it ends too early, at line 2, column 14"),
        ("SELECT * { ?s foo:x ?o }", "Prefix not found (before line 1, column 20)"),
        ("SELECT (COUNT(?x) AS ?n) ?y { ?x ?p ?y }", "The SELECT contains a variable that is unbound"),
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("INSERT DATA { <a:a> <a:b> <a:c> }", "INSERT (line 1, column 1) begins an update"),
        ("# tidy\nPREFIX a: <b:>\n drop ALL", "DROP (line 3, column 2) begins an update"),
        ("BASE<a:>WITH <a:b> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", "WITH (line 1, column 9) begins an update"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_an_update_as_one(
    memory: Repository, view: View, text: str, told: str
) -> None:
    for asked in (memory, view):
        with pytest.raises(InvalidInput, match=r"^the query is not valid SPARQL") as refused:
            asked.query(text)
        assert told in str(refused.value)
        assert "expected" not in str(refused.value)


def test_a_refused_service_is_told_with_its_place(memory: Repository) -> None:
    with pytest.raises(InvalidInput, match=r"uses SERVICE \(line 2, column 2\), which reaches other servers"):
        memory.query("SELECT * {\n serviceSILENT <http://127.0.0.1:9/> {} }")


def test_an_error_of_another_form_is_told_as_it_is() -> None:
    assert query_guard.syntax_mistake("ASK", "something else") == "the query is not valid SPARQL: something else"


def test_asking_gives_yes_or_no(memory: Repository, view: View) -> None:
    for asked in (memory, view):
        assert asked.query("ASK { ?s ?p 'nowhere' }") is False
        assert asked.query("ASK {}") is True


def test_a_command_prints_the_answer_of_ask_whatever_it_is(tmp_path: Path) -> None:
    place = str(tmp_path / "s.trails")
    trails.open(place, create=True).close()

    def run(*arguments: str) -> tuple[int, str, str]:
        result = invoke("query", "--store", place, *arguments)
        return result.exit_code, result.stdout, result.stderr

    no, yes = "ASK { ?s ?p 'nowhere' }", "ASK {}"
    assert (run(no), run(yes)) == ((1, "false\n", ""), (0, "true\n", ""))
    code, out, _ = run(no, "--json")
    assert (code, json.loads(out)) == (1, {"head": {}, "boolean": False})
    for form, kind in (("csv", "rows"), ("tsv", "rows"), ("turtle", "CONSTRUCT"), ("ntriples", "CONSTRUCT")):
        code, out, told = run(no, "--format", form)
        assert (code, out) == (2, "")
        assert told.startswith(f"error: {form} is for {kind}")
        assert "ASK gives yes or no (here: false): use table or json" in told
    for text, expected in (("SELCT *", "line 1, column 1, at 'SELCT *'"), ("DROP ALL", "begins an update")):
        code, out, told = run(text)
        assert (code, out) == (2, "")
        assert expected in told


def test_a_query_name_that_there_is_not_is_told_with_those_there_are(memory: Repository, view: View) -> None:
    for asked in (memory, view):
        with pytest.raises(InvalidInput, match=r"'forrest' \(did you mean 'forest'.*\?\); `trails queries` lists"):
            asked.query("forrest")


@pytest.mark.parametrize("text", [[], None, 1, b"ASK {}", "ASK { ?s ?p '\ud800' }"])
def test_what_is_no_text_is_refused(memory: Repository, view: View, text: Any) -> None:
    for asked in (memory, view):
        with pytest.raises(InvalidInput, match="the query"):
            asked.query(text)


def test_a_panic_of_the_engine_is_an_error_of_ours() -> None:
    class PanicException(BaseException):
        pass

    def panic() -> None:
        raise PanicException("index out of bounds")

    with pytest.raises(TrailsError, match="gave up on the query: index out of bounds"):
        query_guard.guard_answer("ASK {}", panic)


class Rows:
    """An answer that is written piece by piece, and is as good as endless."""

    def __init__(self, written: threading.Event) -> None:
        self._written = written

    def serialize(self, sink: Any, **_options: Any) -> None:
        for _ in range(10_000_000):
            sink.write(b"1\n")
            self._written.set()


def test_an_answer_that_is_being_written_ends_once_nobody_waits_for_it() -> None:
    begun, left, raised = threading.Event(), threading.Event(), list[str]()
    answer: Any = Rows(begun)

    def ask() -> None:
        query_guard.left.set(left)
        with pytest.raises(TrailsError) as error:
            query_guard.on_thread(lambda: query_guard.written(answer), 1)
        raised.append(str(error.value))

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(30)
    left.set()
    asking.join()
    assert "nobody waits" in raised[0]
