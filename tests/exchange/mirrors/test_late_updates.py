"""What a mirroring process sent before it ended, or without waiting for an answer, may arrive late, and brings nothing back."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.sparql_servers import StandIn
from trails import Mirror, MirrorFailed, Repository

pytestmark = pytest.mark.slow

Make = Callable[..., StandIn]
PRIVATE = "it is of nobody else"


@pytest.fixture
def server(memory: Repository, stand_in: Make) -> StandIn:
    """A server whose mirror was to get a turn with a secret, in an update that is late: the process that sent it has ended."""
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
        chat.persist()
        dead = Mirror(memory, server.url)
        dead.sync()
        chat.append("user", PRIVATE)
    send(server, dead)
    return server


def send(server: StandIn, mirror: Mirror) -> None:
    """Let a mirror send what is late then."""
    server.fail_after = len(server.updates)
    with pytest.raises(MirrorFailed):
        mirror.sync()
    server.fail_after = None
    assert any(PRIVATE in each for each in server.late)


def deliver(server: StandIn) -> None:
    for update in server.late:
        server.store.update(update)
    server.late.clear()


def private(server: StandIn) -> int:
    return sum(PRIVATE in str(quad) for quad in server.store)


def test_a_late_update_of_a_dead_process_brings_no_redacted_text_back(memory: Repository, server: StandIn) -> None:
    memory.redact("chat", 1, by="alice")
    living = Mirror(memory, server.url)
    living.sync()
    deliver(server)
    with memory.session("chat") as chat:
        chat.append("user", "More")
    living.sync()
    assert (private(server), living.verify().ok) == (0, True)


def test_a_late_update_takes_nothing_out_either(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", PRIVATE)
    Mirror(memory, server.url).sync()
    server.fail_after = len(server.updates) + 1  # once it is said who feeds it
    with pytest.raises(MirrorFailed):
        Mirror(memory, server.url, anew=True)
    server.fail_after = None
    living = Mirror(memory, server.url, anew=True)
    living.sync()
    assert any("urn:trails:session:chat" in each for each in server.late)
    deliver(server)
    living.sync()
    assert (private(server), living.verify().ok) == (1, True)


def test_a_late_update_of_the_same_process_brings_no_redacted_text_back(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    mirror = Mirror(memory, server.url)
    mirror.sync()
    with memory.session("chat") as chat:
        chat.append("user", PRIVATE)
    send(server, mirror)
    memory.redact("chat", 0, by="alice")
    mirror.sync()
    deliver(server)
    mirror.sync()
    assert (private(server), mirror.verify().ok) == (0, True)


def test_a_late_update_that_arrives_before_another_process_begins_is_made_good_by_that(
    memory: Repository, server: StandIn
) -> None:
    memory.redact("chat", 1, by="alice")
    deliver(server)
    assert private(server) == 1
    Mirror(memory, server.url).sync()
    assert private(server) == 0
    assert Mirror(memory, server.url).verify().ok


def test_a_process_that_another_one_displaces_while_it_sends_says_so(
    memory: Repository, stand_in: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
    first = Mirror(memory, server.url)
    send_on = type(first)._reach

    def displaced(mirror: Mirror, lines: list[str]) -> None:
        if mirror is first:
            Mirror(memory, server.url)
        send_on(mirror, lines)

    monkeypatch.setattr(Mirror, "_reach", displaced)
    with pytest.raises(MirrorFailed, match="another process feeds"):
        first.sync()


def test_an_erasure_that_something_in_front_of_the_server_answers_is_sent_again(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", PRIVATE)
    mirror = Mirror(memory, server.url)
    mirror.sync()
    memory.redact("chat", 0, by="alice")
    server.portal, server.fail_after = True, len(server.updates)
    with pytest.raises(MirrorFailed, match="answered and not carried out"):
        mirror.sync()
    server.fail_after = None
    mirror.sync()
    assert (private(server), mirror.verify().ok) == (0, True)


def test_a_mirror_that_is_not_known_to_be_fed_is_not_begun(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    server.portal, server.fail_after = True, 0
    with pytest.raises(MirrorFailed, match="answered and not carried out"):
        Mirror(memory, server.url)


def test_a_mirror_whose_first_word_comes_late_goes_on(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
    server.fail_after = 0
    with pytest.raises(MirrorFailed):
        Mirror(memory, server.url)
    server.fail_after = None
    living = Mirror(memory, server.url)
    deliver(server)
    with pytest.raises(MirrorFailed, match="got late what this process had sent"):
        living.sync()
    living.sync()
    assert living.verify().ok
    Mirror(memory, server.url)
    with pytest.raises(MirrorFailed, match="another process feeds"):
        living.sync()


def test_an_update_that_arrives_twice_is_carried_out_once(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
    mirror = Mirror(memory, server.url)
    mirror.sync()
    with memory.session("chat") as chat:
        chat.append("user", "More")
    server.lose_answers, server.fail_after = True, len(server.updates)
    with pytest.raises(MirrorFailed):
        mirror.sync()
    server.fail_after = None
    mirror.sync()
    server.store.update(server.updates[-1])
    mirror.sync()
    assert mirror.verify().ok


def test_what_is_being_sent_keeps_no_process_from_ending(memory: Repository, stand_in: Make) -> None:
    server = stand_in()
    with memory.session("chat") as chat:
        chat.append("user", "Hello")
    mirror = Mirror(memory, server.url)
    sending, looked = threading.Event(), threading.Event()

    def begun() -> None:
        sending.set()
        looked.wait(10)

    server.on_update = begun
    syncing = threading.Thread(target=mirror.sync)
    syncing.start()
    assert sending.wait(10)
    senders = [each for each in threading.enumerate() if each.name.startswith("trails-mirror")]
    looked.set()
    syncing.join()
    assert [each.daemon for each in senders] == [True]
