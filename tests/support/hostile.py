"""Hostile queries by the thousand, in a process of their own: it must live, nothing may connect, nothing may show.

`python -m tests.support.hostile queries SEED COUNT` asks them of a store and of a sandboxed view;
`python -m tests.support.hostile stack SHARE` runs every chain at its full length with so small a share of the stack that
queries get. Both write what they saw as JSON.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pyoxigraph as ox

import trails
from trails import Repository, TrailsError
from trails.rdf import query_guard
from trails.runtime.routing import Router

HIDDEN: Final = "what a stranger said"

_WHERE: Final = "SELECT*{%s}"
_FILTER: Final = "SELECT*{FILTER(%s)}"
_PATH: Final = "SELECT*{<a:x> %s ?y}"


def _repeated(frame: str, member: str, joint: str = "") -> Callable[[int], str]:
    return lambda n: frame % joint.join([member] * n)


def _nested(frame: str, opening: str, inside: str, closing: str) -> Callable[[int], str]:
    return lambda n: frame % (opening * n + inside + closing * n)


def _numbered(frame: str, member: str) -> Callable[[int], str]:
    return lambda n: frame % "".join(member % number for number in range(n))


CHAINS: Final[dict[str, tuple[Callable[[int], str], int]]] = {
    "||": (_repeated(_FILTER, "1", "||"), 1500),
    "&&": (_repeated(_FILTER, "1", "&&"), 1500),
    "*": (_repeated(_FILTER, "1", "*"), 1500),
    "/": (_repeated(_FILTER, "1", "/"), 32_000),
    "+": (_repeated(_FILTER, "1", "+"), 1500),
    "-": (_repeated(_FILTER, "1", "-"), 32_000),
    "!": (_repeated("SELECT*{FILTER(%s 1)}", "!"), 65_000),
    "=": (_nested(_FILTER, "(1=", "1", ")"), 2000),
    "(": (_nested(_FILTER, "(", "1", ")"), 32_000),
    "( behind <": (_nested("SELECT*{FILTER(1<%s)}", "(", "1", ")"), 32_000),
    "( between < and >": (_nested("SELECT*{FILTER(1<%s>2)}", "(", "1", ")"), 32_000),
    "( open": (_repeated("SELECT*{FILTER(%s", "("), 65_000),
    "{": (_nested(_WHERE, "{", "", "}"), 32_000),
    "{ open": (_repeated("SELECT*%s", "{"), 65_000),
    "{ in what looks like a text": (_nested('SELECT*{FILTER(1<2#>"""\n)%s}#"""', "{", "", "}"), 32_000),
    "{} in a row": (_repeated(_WHERE, "{}"), 32_000),
    "[ open": (_repeated(_WHERE, "[?a"), 20_000),
    "[]": (_nested(_WHERE, "[<a:b>", "[]", "]"), 50),
    "collections": (_repeated("SELECT*{(%s)<a:b> ?o}", "1 "), 50),
    "collections in collections": (_nested("SELECT*{%s<a:b> ?o}", "(", "1", ")"), 50),
    "GRAPH in GRAPH": (_nested(_WHERE, "GRAPH?g{", "", "}"), 7000),
    "GRAPH": (_repeated(_WHERE, "GRAPH?g{?a<a:b>?c}"), 50),
    "OPTIONAL in OPTIONAL": (_nested(_WHERE, "OPTIONAL{", "", "}"), 6500),
    "OPTIONAL": (_repeated(_WHERE, "OPTIONAL{}"), 6500),
    "UNION": (_repeated(_WHERE, "{?a<a:b>?c}", "UNION"), 900),
    "MINUS": (_repeated(_WHERE, "MINUS{}"), 9000),
    "MINUS in MINUS": (_nested(_WHERE, "MINUS{", "", "}"), 9000),
    "FILTER": (_repeated(_WHERE, "FILTER(1)"), 1500),
    "EXISTS in EXISTS": (_nested(_WHERE, "FILTER EXISTS{", "", "}"), 4300),
    "sub-SELECTs": (_nested(_WHERE, "{SELECT*{", "", "}}"), 5900),
    "triples": (_repeated(_WHERE, "?a<a:b>?c."), 50),
    "objects": (_repeated("SELECT*{?a<a:b> %s}", "?c", ","), 50),
    "predicates": (_repeated("SELECT*{?a %s}", "<a:b>?c", ";"), 50),
    "BIND": (_numbered(_WHERE, "BIND(1 AS?v%d)"), 700),
    "VALUES": (_repeated(_WHERE, "VALUES?a{1}"), 40),
    "projections": (_numbered("SELECT %s{}", "(1 AS?v%d)"), 900),
    "aggregates": (_numbered("SELECT %s{}", "(COUNT(*)AS?v%d)"), 500),
    "DESCRIBE": (_repeated("PREFIX :<a:>DESCRIBE%s", " :"), 1200),
    "HAVING": (_repeated("SELECT(1 AS?x){}HAVING%s", "(1)"), 2000),
    "GROUP BY": (_numbered("SELECT(1 AS?x){}GROUP BY%s", "(1 AS?v%d)"), 900),
    "ORDER BY": (_repeated("SELECT*{}ORDER BY%s", "(1)"), 1800),
    "a/a": (_repeated(_PATH, "<a:b>", "/"), 100),
    "a|a": (_repeated(_PATH, "<a:b>", "|"), 1500),
    "a*/a*": (_repeated(_PATH, "<a:b>*", "/"), 40),
    "(a)*": (_nested(_PATH, "(", "<a:b>", ")*"), 7000),
    "(a/": (_nested(_PATH, "(<a:b>/", "<a:b>", ")"), 100),
    "(a|": (_nested(_PATH, "(<a:b>|", "<a:b>", ")"), 1500),
    "!(a|a)": (_repeated("SELECT*{<a:x> !(%s)?y}", "<a:b>", "|"), 8000),
    "IN": (_repeated("SELECT*{FILTER(1 IN(%s))}", "1", ","), 30_000),
    "IN in IN": (_nested(_FILTER, "1 IN(", "1", ")"), 1500),
    "functions": (_nested(_FILTER, "STR(", "1", ")"), 13_000),
    "IF": (_nested(_FILTER, "IF(1,1,", "1", ")"), 8000),
    "aggregates in aggregates": (_nested("SELECT(%sAS?x){}", "COUNT(", "1", ")"), 8000),
    "quoted triples": (_nested("SELECT*{?a<a:b> %s}", "<<(?a<a:b> ", "1", ")>>"), 3000),
    "triples of triples": (_nested(_FILTER, "TRIPLE(<a:a>,<a:b>,", "1", ")"), 2500),
    "annotations": (_nested("SELECT*{?a<a:b>?c%s}", "{|<a:b>?c", "", "|}"), 40),
}
"""What makes a query long: its text for a number of members, and a number up to which the engine plans it in a second or so.
(Joins take time with the fourth power of their members; brackets and operators reach the 64 KiB.)"""

_LEFT: Final = (
    "", "1", "1.5", "1e5", "true", "'a'", "'a'@en", '"""a"""', "<a:b>", "?v", "$v", "_:b", "a:b", ":", ".", ";", ",",
    "{}", "FILTER(1)", "FILTER(1<2)", "FILTER true", "FILTER(1<2)#>\n", "BIND(1 AS ?w)", "VALUES ?w{1}", "OPTIONAL{}",
    "MINUS{}", "GRAPH ?g{}", "{}UNION{}", "?s ?p ?o", "?s ?p 1", "?s ?p 1e5", "?s ?p true", "?s ?p ?o.", "?s a",
    "?s a []", "[]", "()", "(1)<a:b>1", "FILTER EXISTS{}", "FILTER NOT EXISTS", "FILTER(1<2#>'''\n)", "\\u0020",
    "\ufeff", "#\n", "# '\n", '# """\n', "#<\n", "LATERAL{}", "?s ?p 1.", "?s ?p .5", "FILTER(?v=1||true)",
    "<<?s ?p ?o>>?q 1", "?s ?p ?o{|?q 1|}",
)  # fmt: skip
_WORDS: Final = (
    "SERVICE", "service", "SeRvIcE", "SERVICESILENT", "SERVICE SILENT", "service#\nsilent", "\\u0053ERVICE",
    "\\U00000053ERVICE", "S\\u0045RVICE", "LOAD", "SERV\u0131CE", "\u017fERVICE",
)  # fmt: skip
_BETWEEN: Final = ("", " ", "\n", "\t", "\r", "#>\n", "#\\u000A", "\u00a0", "\\u0020", "#'''\n")
_TARGETS: Final = ("<U>", ":x", "x:x", "?t", "SERVICE:x", "<U#>")
_AFTER: Final = ("{}", "{?s ?p ?o}", "{{}}", "#\n{}", " {VALUES ?z{1}}", "{SELECT*{}}")
_FRAMES: Final = (
    "SELECT*{%s}", "ASK{%s}", "SELECT*{{%s}}", "SELECT*{OPTIONAL{%s}}", "SELECT*{FILTER EXISTS{%s}}",
    "SELECT*{FILTER(EXISTS{%s}||true)}", "SELECT*{{SELECT*{%s}}}", "CONSTRUCT{<a:s><a:p><a:o>}WHERE{%s}",
    "DESCRIBE*{%s}", "SELECT*{BIND(EXISTS{%s}AS ?e)}", "SELECT*{GRAPH?h{%s}}", "SELECT*{{}UNION{%s}}",
    "SELECT*{MINUS{%s}}", "SELECT(EXISTS{%s}AS ?e){}", "SELECT*{}ORDER BY EXISTS{%s}", "SELECT*{VALUES ?t{<U>}%s}",
    "INSERT{<a:s><a:p><a:o>}WHERE{%s}", "SELECT*{FILTER(1<2)%s FILTER(2>1)}", "SELECT*{?q ?r '%s'}", "SELECT*{#%s\n}",
)  # fmt: skip
_PRYING: Final = (
    "SELECT*{%s}", "SELECT*{GRAPH ?g{%s}}", "SELECT*{GRAPH <G>{%s}}", "SELECT* FROM <G>{%s}",
    "SELECT* FROM NAMED <G>{GRAPH <G>{%s}}", "CONSTRUCT{?s ?p ?o}{%s}", "CONSTRUCT{?s ?p ?o}FROM <G>{%s}",
    "DESCRIBE ?s{%s}", "DESCRIBE <G>", "SELECT*FROM<G>FROM NAMED<G>{{%s}UNION{GRAPH ?g{%s}}}",
    "SELECT*{<G>(!<a:b>)*?o}", "SELECT(GROUP_CONCAT(?o)AS?all){%s}",
    "SELECT*{FILTER EXISTS{GRAPH <G>{?a ?b ?c}}BIND('" + HIDDEN + "?'AS ?x)}", "SELECT*{?s(<a:b>|!<a:b>)?o}",
)  # fmt: skip


def _glued(chance: random.Random, url: str) -> str:
    """Return a query in which a word that reaches out stands against other things."""
    pick = chance.choice
    inside = pick(_LEFT) + pick(_BETWEEN[:3]) + pick(_WORDS) + pick(_BETWEEN) + pick(_TARGETS) + pick(_AFTER)
    prologue = pick(("", "PREFIX :<U>", "PREFIX :<U>PREFIX x:<U>PREFIX SERVICE:<U>", "#SERVICE\n", "BASE<U>"))
    return (prologue + pick(_FRAMES).replace("%s", inside)).replace("U>", url + ">").replace("U#>", url + "#>")


def _chained(chance: random.Random) -> str:
    """Return a chain of any length that its text may have, most of them short."""
    make, longest = CHAINS[chance.choice(tuple(CHAINS))]
    return make(int(longest ** chance.random()) if chance.random() < 0.9 else longest)


def _prying(chance: random.Random, graph: str) -> str:
    pattern = chance.choice(
        ("?s ?p ?o", "?s prov:value ?o", "?s a trails:Turn;?p ?o", "?s ?p ?o FILTER(ISLITERAL(?o))")
    )
    return chance.choice(_PRYING).replace("%s", pattern).replace("G>", graph + ">")


class Listener:
    """A socket of this machine that counts whoever connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self.connections = 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            visitor, _ = self._socket.accept()
            self.connections += 1
            visitor.close()


def ask_all(seed: int, count: int) -> dict[str, Any]:
    """Ask queries of a store and of a view of it that must not show what a stranger's session holds."""
    chance = random.Random(seed)
    listener = Listener()
    outcomes: Counter[str] = Counter()
    shown: list[str] = []
    with trails.open(":memory:") as store:
        router, graph = _two_families(store)
        view = router.view("main")
        for _ in range(count):
            kind = chance.choice(("glued", "glued", "chained", "prying"))
            text = {
                "glued": lambda: _glued(chance, listener.url),
                "chained": lambda: _chained(chance),
                "prying": lambda: _prying(chance, graph),
            }[kind]()
            for name, asked in (("view", view), ("store", store)):
                try:
                    result = asked.query(text)
                except TrailsError:
                    outcomes[f"{kind}: refused"] += 1
                    continue
                outcomes[f"{kind}: answered"] += 1
                if name == "view" and kind == "prying" and HIDDEN + "!" in _written(result):
                    shown.append(text)
        seen = listener.connections
        told = HIDDEN + "!" in _written(store.query("SELECT ?o {?s ?p ?o}"))
    with contextlib.suppress(OSError):  # the bare engine reaches out: the listener must notice, or it proves nothing
        list(ox.Store().query(f"SELECT*{{SERVICESILENT<{listener.url}>{{}}}}"))  # type: ignore[arg-type] # a SELECT
    return {"outcomes": outcomes, "connections": seen, "shown": shown, "store tells": told,
            "listener hears": listener.connections > seen}  # fmt: skip


def _two_families(store: Repository) -> tuple[Router, str]:
    router = Router(store)
    for name, text in (("main", "mine"), ("slack:group:strange", HIDDEN + "!")):
        session = router.session(name)
        session.append("user", text)
        session.persist()
    return router, f"urn:trails:session:{router.session('slack:group:strange').id}"


def _written(result: object) -> str:
    rows = result if isinstance(result, list) else list(result) if hasattr(result, "__iter__") else [result]
    return " ".join(str([str(term) for term in row]) if hasattr(row, "__iter__") else str(row) for row in rows)


def run_on_a_share(share: int) -> dict[str, Any]:
    """Run every chain, with nothing refused, on a stack of which only one part in `share` is left."""
    query_guard.STACK_PER_BYTE //= share  # type: ignore[misc]
    query_guard.STACK_FOR_ALL //= share  # type: ignore[misc]
    engine = ox.Store()
    graph, link = ox.NamedNode("a:g"), ox.NamedNode("a:b")
    engine.add(ox.Quad(ox.NamedNode("a:x"), link, ox.NamedNode("a:x"), graph))

    def ask(text: str) -> str:
        try:
            result = engine.query(text, use_default_graph_as_union=True)
            if not isinstance(result, ox.QueryBoolean):
                next(iter(result), None)
        except (SyntaxError, RuntimeError, ValueError, OSError) as error:
            return type(error).__name__
        return "answered"

    outcomes = {}
    for name, (make, longest) in CHAINS.items():
        text = make(longest)
        sys.stderr.write(f"{name}\n")  # the last one is what it died of
        sys.stderr.flush()
        outcomes[name] = query_guard.on_thread(lambda text=text: ask(text), len(text))  # type: ignore[misc]
    return outcomes


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    told = ask_all(*map(int, numbers)) if what == "queries" else run_on_a_share(int(numbers[0]))
    sys.stdout.write(json.dumps(told) + "\n")
