"""`trails mirror` and `trails verify --mirror`, as somebody types them, and killed at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

import trails
from tests.support.commands import Run, ok
from tests.support.machines import Size
from tests.support.sparql_servers import StandIn
from trails.cli.commands import moving
from trails.exchange.remotes.mirror import Mirrored
from trails.exchange.remotes.mirror_endpoint import Away, Endpoint
from trails.store.postgres.link import Unreachable

Make = Callable[..., StandIn]


def fill(place: Path, turns: int = 3) -> None:
    with trails.open(place, create=True) as store, store.session("chat") as chat:
        for number in range(turns):
            chat.append("user", f"Turn {number}")


def test_a_mirror_is_made_gone_on_with_and_compared(run: Run, place: Path, stand_in: Make) -> None:
    url = stand_in().url
    fill(place)
    first = json.loads(ok(run("mirror", str(place), url, "--json")))
    assert (first["mirror"], first["server"], first["sessions"]) == (url, "oxigraph", 1)
    assert first["triples"] > 30
    assert ok(run("mirror", str(place), url)).startswith("nothing new: ")
    with trails.open(place) as store:
        store.load("chat").fork(id="fork").persist()
    assert " sent: " in ok(run("mirror", str(place), url))
    assert ok(run("verify", "--mirror", url)).startswith("the same: ")


def test_what_differs_is_named_and_the_exit_code_is_one(run: Run, place: Path, stand_in: Make) -> None:
    server = stand_in()
    fill(place)
    ok(run("mirror", str(place), server.url))
    server.store.update("DROP GRAPH <urn:trails:session:chat>")
    told = run("verify", "--mirror", server.url)
    assert (told.exit_code, told.stdout.splitlines()[0].startswith("chat: lacks ")) == (1, True)
    report = json.loads(run("verify", "--mirror", server.url, "--json").stdout)
    assert (report["ok"], [each["session"] for each in report["differences"]]) == (False, ["chat"])


def test_what_cannot_be_is_said(run: Run, place: Path, stand_in: Make) -> None:
    fill(place)
    gone = run("mirror", str(place), "http://127.0.0.1:9")
    assert (gone.exit_code, "did not answer" in gone.stderr) == (1, True)
    odd = run("mirror", str(place), "http://ann:s3cret@")
    assert (odd.exit_code, "s3cret" in odd.stderr + odd.stdout) == (2, False)
    url = stand_in().url
    both = run("verify", "chat", "--mirror", url)
    assert (both.exit_code, "leave the others out" in both.stderr) == (2, True)
    ok(run("mirror", str(place), url))
    assert run("mirror", str(place.parent / "none"), url).exit_code == 2


def test_following_waits_for_a_store_that_is_away_as_for_a_mirror_that_is(
    memory: trails.Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds: list[Exception | Mirrored | None] = [
        Unreachable("the store's server is away"),
        Away("the mirror's server is away"),
        Mirrored(position=7, sessions=1, triples=12, dropped=0, references=0),
        None,
    ]

    class Told(trails.Mirror):
        def __init__(self, *_: object, **__: object) -> None:
            pass

        location = "http://localhost:7878"

        def follow(self, interval: float = 0.5) -> Iterator[Mirrored]:
            while isinstance(done := rounds.pop(0), Mirrored):
                yield done
            raise done or KeyboardInterrupt

    waited = list[float]()
    monkeypatch.setattr(trails, "Mirror", Told)
    monkeypatch.setattr(time, "sleep", waited.append)
    with click.Context(click.Command("mirror")), pytest.raises(KeyboardInterrupt):
        moving._follow(memory, "http://localhost:7878", {}, interval=0.5)
    told = capsys.readouterr()
    assert waited == [1.0, 2.0]
    assert "12 triples of 1 session sent" in told.out
    assert told.err.count("trying again") == 2


def test_a_store_in_postgresql_is_mirrored_and_what_others_commit(url: str, run: Run, stand_in: Make) -> None:
    server = stand_in()
    with trails.open(url, create=True) as store, store.session("chat") as chat:
        chat.append("user", "Hello")
        chat.persist()
        ok(run("mirror", url, server.url))
        there = trails.Mirror(store, server.url)
        with trails.open(url) as other, other.session("else") as elsewhere:
            elsewhere.append("user", "From elsewhere")
            elsewhere.persist()
        assert next(iter(there.follow())).sessions == 1
        assert there.verify().ok
    assert len(Endpoint(server.url).select('SELECT ?s WHERE { GRAPH ?g { ?s ?p "From elsewhere" } }')) == 1


@contextmanager
def following(place: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A follower, which is killed at the end where it still runs."""
    command = [sys.executable, "-m", "trails", "mirror", str(place), url, "--follow", "--interval", "0.05", "--json"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_follower_that_is_killed_again_and_again_ends_equal(place: Path, oxigraph: str, size: Size) -> None:
    kills = {"quick": 2, "all": 5, "long": 50}[size]
    rng = random.Random(7)
    with trails.open(place, create=True) as store:
        chat = store.create(id="chat")
        number = 0
        for kill in range(kills):
            with following(place, oxigraph) as process:
                until = time.monotonic() + 0.6 + rng.random()
                while time.monotonic() < until:
                    for _ in range(20):
                        chat.append("user", f"Turn {number}")
                        number += 1
                    chat.persist()
                if kill % 2:
                    store.redact("chat", number - 1, by="alice")
                    chat.fork(id=f"fork-{kill}").persist()
                process.send_signal(signal.SIGKILL)
                process.communicate()
        mirror = trails.Mirror(store, oxigraph)
        mirror.sync()
        assert mirror.verify().ok
        text = "SELECT (COUNT(*) AS ?n) WHERE { GRAPH <urn:trails:session:chat> { ?t <https://w3id.org/trails#index> ?i } }"
        assert int(Endpoint(oxigraph).select(text)[0]["n"].value) == number


def test_a_follower_ends_well_with_ctrl_c_and_waits_for_a_server_that_went_away(place: Path, stand_in: Make) -> None:
    server = stand_in()
    fill(place)
    with following(place, server.url) as process:
        until = time.monotonic() + 30
        while not any("position" in text for text in server.updates) and time.monotonic() < until:
            time.sleep(0.02)
        server.fail_after = len(server.updates)
        with trails.open(place) as store:
            store.load("chat").fork(id="while-away").persist()
        assert process.stderr is not None
        assert b"trying again" in process.stderr.readline()
        server.fail_after = None
        while not any("while-away" in text for text in server.updates) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
    with trails.open(place) as store:
        assert trails.Mirror(store, server.url).verify().ok


def test_the_variables_of_name_and_password_are_those_that_the_help_names(run: Run) -> None:
    said = " ".join(ok(run("mirror", "--help")).split())
    assert "TRAILS_MIRROR_USER and TRAILS_MIRROR_PASSWORD" in said
    assert "TRAILS_MIRROR_USER" not in os.environ


def test_a_follower_waits_for_a_server_that_is_away_as_it_begins(place: Path, stand_in: Make) -> None:
    server = stand_in()
    server.fail_after = 0
    fill(place)
    with following(place, server.url) as process:
        assert process.stderr is not None
        assert b"trying again" in process.stderr.readline()
        server.fail_after = None
        until = time.monotonic() + 30
        while not any("position" in text for text in server.updates) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert any("position" in text for text in server.updates)
