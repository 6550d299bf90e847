"""Queries that take all the time and memory they can get, and what becomes of them: `python -m tests.support.greedy 7 1000`."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trails
from trails import Repository, TrailsError
from trails.store.queries import query_pool

TIMEOUT: Final = 2.0
_ANY: Final = ("?s ?p ?o", "?t prov:value ?x", "?t a trails:Turn", "?t trails:index ?i", "?a prov:wasAttributedTo ?b")


def _cross(chance: random.Random, most: int = 8) -> str:
    """Return patterns that share no variable."""
    return " . ".join(f"?a{n} ?b{n} ?c{n}" for n in range(chance.randint(2, most)))


def _select(body: str, chance: random.Random) -> str:
    wanted = chance.choice(
        ("*", "(COUNT(*) AS ?n)", "DISTINCT *", "(COUNT(DISTINCT ?a0) AS ?n)", "?a0", "(MAX(?c1) AS ?m)")
    )
    return f"SELECT {wanted} {{ {body} }}"


def _ordered(chance: random.Random) -> str:
    keys = " ".join(chance.choice(("?c0", "DESC(?c1)", "STR(?b0)", "RAND()")) for _ in range(chance.randint(1, 4)))
    return f"SELECT * {{ {_cross(chance, 4)} }} ORDER BY {keys}"


def _grouped(chance: random.Random) -> str:
    made = chance.choice(
        ("GROUP_CONCAT(?c0)", "GROUP_CONCAT(DISTINCT STR(?c1); SEPARATOR='xxxxxxxxxx')", "SAMPLE(?a0)", "SUM(?c0)")
    )
    by = chance.choice(("?a0", "?c1", "?a0 ?a1", "?a0 ?b0 ?c0 ?a1 ?b1 ?c1", "(CONCAT(STR(?a0), STR(?c1)) AS ?k)"))
    return f"SELECT ({made} AS ?m) {{ {_cross(chance, 4)} }} GROUP BY {by}"


def _path(chance: random.Random) -> str:
    steps = ["trails:parentSession", "prov:wasAttributedTo", "!<a:b>", "^prov:value", "(!<a:b>|^!<a:b>)", "prov:value"]
    path = chance.choice("/|").join(
        f"({chance.choice(steps)}){chance.choice(('*', '+', '?', '*', '+'))}" for _ in range(chance.randint(1, 12))
    )
    return _select(f"?a0 ({path}){chance.choice(('*', '+', ''))} ?c1", chance)


def _nested(chance: random.Random) -> str:
    depth = chance.randint(1, 95)
    return _select("{ " * depth + _cross(chance, 4) + " }" * depth, chance)


def _chained(chance: random.Random) -> str:
    count = chance.randint(2, 990)
    word = chance.choice(("UNION", "OPTIONAL", "MINUS", "FILTER"))
    if word == "UNION":
        return _select(" UNION ".join(f"{{ {_cross(chance, 3)} }}" for _ in range(count)), chance)
    if word == "FILTER":
        return _select(_cross(chance, 3) + " ".join(f"FILTER(?c0 != {n})" for n in range(count)), chance)
    return _select(
        _cross(chance, 2) + " " + " ".join(f"{word} {{ {_cross(chance, 2)} }}" for _ in range(count % 70)), chance
    )


def _regex(chance: random.Random) -> str:
    pattern = chance.choice(("(a*)*b", "(.*)(.*)(.*)(.*)x", "([a-z]+)+$", "(x{1,1000}){1,1000}", "(?:a|a)*b" * 50))
    text = "CONCAT(" + ",".join(["STR(?c0)"] * chance.randint(1, 200)) + ")"
    return _select(f"{_cross(chance, 3)} FILTER(REGEX({text}, '{pattern}'))", chance)


def _values(chance: random.Random) -> str:
    lists = (
        f"VALUES ?v{n} {{ {' '.join(str(k) for k in range(chance.randint(10, 2500)))} }}"
        for n in range(chance.randint(1, 5))
    )
    return _select(" ".join(lists) + " " + chance.choice(_ANY), chance)


def _construct(chance: random.Random) -> str:
    made = " . ".join(f"?a{n % 2} <a:{n}> ?c{n % 2}" for n in range(chance.randint(1, 200)))
    return f"CONSTRUCT {{ {made} }} WHERE {{ {_cross(chance, 4)} }}"


def _deep(chance: random.Random) -> str:
    depth = chance.randint(10, 190)
    return _select(
        f"{_cross(chance, 3)} FILTER({'(' * depth}?c0{' + 1)' * depth} > {'1+' * chance.randint(1, 900)}1)", chance
    )


def _service(chance: random.Random) -> str:
    return _select(f"SERVICE{chance.choice((' ', ' SILENT'))}<http://127.0.0.1:1/> {{ {_cross(chance)} }}", chance)


def _inner(chance: random.Random) -> str:
    text = _cross(chance, 4)
    for _ in range(chance.randint(1, 30)):
        text = f"{{ SELECT {chance.choice(('*', 'DISTINCT *', '?a0 ?c1'))} {{ {text} }} {chance.choice(('ORDER BY ?c1', ''))} }}"
    return _select(text, chance)


def _bomb(chance: random.Random) -> str:
    steps = chance.randint(2, 40)
    grow = chance.choice(
        ("REPLACE(?v%d, 'x', 'xxxxxxxxxx')", "CONCAT(?v%d, ?v%d, ?v%d)", "ENCODE_FOR_URI(CONCAT(?v%d, '%%%%'))")
    )
    binds = " ".join(f"BIND({grow % ((n,) * grow.count('%d'))} AS ?v{n + 1})" for n in range(steps))
    last = chance.choice((f"?v{steps}", f"(STRLEN(?v{steps}) AS ?n)", f"(SHA512(?v{steps}) AS ?h)"))
    return f"SELECT {last} {{ {chance.choice(('', _cross(chance, 2)))} BIND('xxxxxxxxxx' AS ?v0) {binds} }}"


def _joined(chance: random.Random) -> str:
    return _select(" . ".join(f"?a0 ?p{n} ?c{n}" for n in range(chance.randint(2, 90))), chance)


def _broken(chance: random.Random) -> str:
    text = chance.choice(KINDS[:-1])(chance)
    at = chance.randrange(len(text))
    return text[:at] + chance.choice(("", "{", "}", "'", "\\", "\0", "LOAD", "<")) + text[at + chance.randint(0, 5) :]


def _asked(chance: random.Random) -> str:
    return f"ASK {{ {_cross(chance)} FILTER(?c0 = ?c1 && ?a0 = <a:never>) }}"


KINDS: Final[tuple[Callable[[random.Random], str], ...]] = (
    lambda chance: _select(_cross(chance), chance),
    _ordered, _grouped, _path, _nested, _chained, _regex, _values, _construct, _deep, _service, _inner, _bomb, _joined, _asked,
    _broken,
)  # fmt: skip


def _memory() -> int:
    """Return the bytes that this process and those that it started take."""
    pids = ["self", *(str(each.process.pid) for each in (*query_pool._pool._idle, *query_pool._pool._busy))]
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


class _Gauge:
    """How much memory was taken at most."""

    def __init__(self) -> None:
        self.before = self.most = _memory()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.02):
            with suppress(RuntimeError):  # what is looked at changes
                self.most = max(self.most, _memory())

    def close(self) -> int:
        self._over.set()
        self._thread.join()
        return self.most - self.before


def ask_all(store: Repository, seed: int, count: int, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Ask so many queries; return how each ended, the longest times, and the memory that was taken."""
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    times: list[tuple[float, str]] = []
    gauge = _Gauge()
    for _ in range(count):
        make = chance.choice(KINDS)
        text = make(chance)
        begun = time.monotonic()
        try:
            if chance.random() < 0.1:
                for _row in store.rows(text, timeout=timeout):
                    pass
            else:
                store.query(text, timeout=timeout, max_rows=chance.choice((None, None, 10, 1000)))
            ended = "answered"
        except TrailsError as error:
            ended = type(error).__name__
        outcomes[ended] += 1
        times.append((time.monotonic() - begun, f"{make.__name__} {ended} {text[:200]}"))
    took = gauge.close()
    times.sort(reverse=True)
    return {"outcomes": outcomes, "longest": times[:5], "memory": took >> 20}


def fill(store: Repository, sessions: int, turns: int) -> None:
    """Put sessions into a store that the queries find something in."""
    for number in range(sessions):
        session = store.create(id=f"s{number}", principal=f"user{number % 7}")
        for index in range(turns):
            session.append("user" if index % 2 else "assistant", f"turn {index} of {number}: " + "lorem ipsum " * 5)
        session.persist()


if __name__ == "__main__":
    seed, count = map(int, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        store = trails.open(Path(folder) / "s", create=True, durability="process")
        fill(store, 100, 50)
        told = ask_all(store, seed, count) | {"quads": len(store.store)}
        begun = time.monotonic()
        store.close()
        told["close"] = time.monotonic() - begun
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
