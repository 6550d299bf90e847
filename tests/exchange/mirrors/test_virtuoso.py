"""Virtuoso 7: digests, no default graph, few rows at a time, small requests; and what its compiler makes of the queries."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.exchange.mirrors.test_mirrors import compared, history
from tests.support.sparql_servers import VIRTUOSO_MISSING, check_there
from tests.support.sparql_servers import virtuoso as virtuoso_in
from trails import Mirror, MirrorFailed, Repository
from trails.exchange.remotes.mirror_endpoint import Endpoint

pytestmark = pytest.mark.slow

NOT_THERE = {
    "answers-resting-on",
    "answers-to-no-call",
    "cost",
    "fork-heads",
    "fork-unseen-turns",
    "incomplete-turns",
    "kept-briefly",
    "model-time",
    "open-tool-calls",
    "purposes",
    "score-statistics",
    "shared-turns",
    "tool-approvals",
    "tool-time",
    "token-usage-by-model",  # what is unknown is 0 there, as in the next one
    "token-usage-by-session",
    "two-principals",
    "unanswered-tool-calls",
    "unused-results",
}
"""What its compiler refuses, or answers wrongly. The page on mirrors names them."""


def test_a_mirror_in_virtuoso_has_all_that_its_store_has_after_each_step(memory: Repository, virtuoso: str) -> None:
    for step in history(memory):
        mirror = Mirror(memory, virtuoso)
        mirror.sync()
        report = mirror.verify()
        assert (report.ok, report.triples, mirror.kind) == (True, len(memory.store), "virtuoso"), step


def test_what_virtuoso_cannot_hold_stands_there_as_a_reference(memory: Repository, virtuoso: str) -> None:
    with memory.session("odd") as chat:
        chat.append("user", "a" * 2_000_001)
        chat.append("user", "nul \0 within")
        chat.append("user", "\u2028 \U0001f600 \\ \" ' \r\n\t")
    mirror = Mirror(memory, virtuoso, anew=True)
    assert mirror.sync().references == 2
    assert mirror.verify().ok


def test_two_thousand_sessions_are_held_against_their_mirror(memory: Repository, tmp_path: Path) -> None:
    """Their graphs, asked for by DISTINCT, took Virtuoso more than a minute."""
    for number in range(2_000):
        with memory.session(f"s{number}") as chat:
            chat.append("user", "Hello")
    with virtuoso_in(tmp_path / "db", rows=1_000, seconds=60) as url:
        mirror = Mirror(memory, url)
        mirror.sync()
        report = mirror.verify()
    assert (report.ok, report.graphs) == (True, 2_000)


def test_a_row_more_than_virtuoso_gives_at_a_time_is_not_lost(memory: Repository, virtuoso: str) -> None:
    with memory.session("many") as chat:
        for number in range(30):
            chat.append("user", f"Turn {number}")
    mirror = Mirror(memory, virtuoso, anew=True)
    mirror.sync()
    assert mirror.verify().ok
    Endpoint(virtuoso).update(
        "DELETE WHERE { GRAPH <urn:trails:session:many> { ?t <https://w3id.org/trails#role> ?r } }"
    )
    assert [each.missing for each in mirror.verify().differences] == [30]


def test_a_session_of_more_rows_than_virtuoso_sorts_is_read_to_the_end(memory: Repository, virtuoso: str) -> None:
    with memory.session("long") as chat:
        for number in range(1_100):
            chat.append("user", f"Turn {number}")
    assert len(memory.store) > 10_000
    mirror = Mirror(memory, virtuoso, anew=True)
    mirror.sync()
    report = mirror.verify()
    assert (report.ok, report.triples) == (True, len(memory.store))


def test_virtuoso_that_is_killed_while_it_is_fed_has_all_once_it_is_fed_again(
    memory: Repository, tmp_path: Path
) -> None:
    check_there("virtuoso-t", VIRTUOSO_MISSING)
    for number in range(24):
        with memory.session(f"s{number}") as chat:
            for turn in range(10):
                chat.append("user", f"Turn {turn} of {number}, the secret is 4711")
    for moment in (0.3, 1.0):
        with ThreadPoolExecutor(1) as pool, virtuoso_in(tmp_path / "db") as url:
            feeding = pool.submit(Mirror(memory, url).sync)
            time.sleep(moment)
        with suppress(MirrorFailed):
            feeding.result()
    with virtuoso_in(tmp_path / "db") as url:
        mirror = Mirror(memory, url)
        mirror.sync()
        assert (mirror.position, mirror.verify().ok) == (len(memory.store.log.lines()), True)
        memory.redact_matching("secret is 4711")
        mirror.sync()
        assert mirror.verify().ok
        asked = 'SELECT ?o WHERE { GRAPH ?g { ?s ?p ?o } FILTER (CONTAINS(STR(?o), "secret is")) }'
        assert Endpoint(url).select(asked) == []


def test_all_other_queries_of_the_catalogue_give_the_same_rows_in_virtuoso(memory: Repository, virtuoso: str) -> None:
    list(history(memory))
    Mirror(memory, virtuoso, anew=True).sync()
    found = compared(memory, virtuoso)
    assert {name for name, is_same in found.items() if not is_same} <= NOT_THERE
    assert len(found) - len(NOT_THERE) > 45
