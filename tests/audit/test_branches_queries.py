"""The queries for auditors on branches: answers counted by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import trails
from tests.support.engines import Answer
from tests.support.nine_sessions import day, fill
from trails import Repository

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

NINE: list[Answer] = [
    # solo left dinner at 2, after a turn that dinner inherits from plan; dinner's answers: the last is a tool's, so 4 is it
    ("forks-after", {}, "session index turn fork principal created place answer content", [
        ("dinner", 1, "plan#1", "solo", "principal:bob", day(3), None, None, None),
        ("pi:01", 0, "pi:01#0", "pi:01~b", "principal:anonymous", day(9), 1, "pi:01~b#1", "good day"),
        ("plan", 2, "plan#2", "dinner", "principal:bob", day(2), 4, "dinner#4", "One moment."),
        ("solo", 3, "solo#3", "tail", "principal:bob", day(4), 4, "tail#4", "A walk, then."),
    ]),
    ("forks-after", {"session": "plan"}, "fork", [("dinner",)]),
    ("forks-after", {"index": 3}, "fork", [("tail",)]),
    ("forks-after", {"session": "plan", "index": 3}, "fork", []),
    ("first-difference", {"session": "plan", "other": "dinner"}, "index session_turn session_owner other_turn other_owner", [
        (3, "plan#3", "plan", "dinner#3", "dinner"),
    ]),
    ("first-difference", {"session": "tail", "other": "plan"}, "index session_turn session_owner other_turn other_owner", [
        (2, "solo#2", "solo", "plan#2", "plan"),
    ]),
    ("first-difference", {"session": "solo", "other": "tail"}, "index session_turn other_turn other_owner", [
        (4, None, "tail#4", "tail"),
    ]),
    # nothing is shared: the first turns differ, and of what has no turns there is none
    ("first-difference", {"session": "recipes", "other": "plan"}, "index session_turn session_owner other_turn other_owner", [
        (0, "recipes#0", "recipes", "plan#0", "plan"),
    ]),
    ("first-difference", {"session": "chat", "other": "dinner"}, "index session_turn session_owner other_turn other_owner", [
        (0, None, None, "plan#0", "plan"),
    ]),
    # both inherit the turns 0 and 1 from plan, and dinner 2 as well
    ("first-difference", {"session": "solo", "other": "dinner"}, "index session_turn session_owner other_turn other_owner", [
        (2, "solo#2", "solo", "plan#2", "plan"),
    ]),
    ("first-difference", {"session": "tail", "other": "tail"}, "index", []),
    # 23 + 7 + 4 characters are plan's first three turns, 7 and 21 solo's own two
    ("shared-turns", {}, "session parent at own shared characters", [
        ("dinner", "plan", 3, 3, 3, 34),
        ("pi:01~b", "pi:01", 1, 1, 1, 5),
        ("solo", "dinner", 2, 2, 2, 30),
        ("tail", "solo", 4, 1, 4, 58),
    ]),
    ("shared-turns", {"session": "tail"}, "shared", [(4,)]),
    ("sessions-by-key", {}, "key time session event other by current", [
        ("agent:main:discord:group:dev", day(22), "annex", "began", None, None, True),
        ("agent:main:main", day(21), "hall", "began", None, None, True),
    ]),
    ("forks-for-others", {}, "session principal parent parent_principal at by created", [
        ("dinner", "principal:bob", "plan", "principal:alice", 3, "agent:unknown", day(2)),
    ]),
    ("forks-for-others", {"session": "tail"}, "session", []),
]  # fmt: skip

MINUTE = timedelta(minutes=1)
NINE_O_CLOCK = datetime(2026, 3, 1, 9, tzinfo=UTC)
LOU, MOVED = "agent:main:dm:lou", "agent:main:lou"
KIM, BOSS, CHIEF = "agent:main:dm:kim", "agent:main:boss", "agent:main:chief"

KEYS: list[Answer] = [
    ("sessions-by-key", {"key": LOU}, "time event other by current", [
        (NINE_O_CLOCK, "began", None, None, True),
        (NINE_O_CLOCK + 4 * MINUTE, "left", MOVED, "principal:dave", True),
        (NINE_O_CLOCK + 5 * MINUTE, "came", MOVED, "principal:erin", True),
    ]),
    ("sessions-by-key", {"key": MOVED}, "time event other by current", [
        (NINE_O_CLOCK + 4 * MINUTE, "came", LOU, "principal:dave", False),
        (NINE_O_CLOCK + 5 * MINUTE, "left", LOU, "principal:erin", False),
    ]),
    ("sessions-by-key", {"key": KIM}, "event current", [
        ("began", False),
        ("began", True),
    ]),
    ("moves-and-aliases", {}, "time what from to by reason current", [
        (NINE_O_CLOCK + 1 * MINUTE, "alias", BOSS, KIM, "principal:dave", "manual", None),
        (NINE_O_CLOCK + 3 * MINUTE, "alias removed", CHIEF, KIM, "principal:erin", "manual", None),
        (NINE_O_CLOCK + 4 * MINUTE, "move", LOU, MOVED, "principal:dave", "promotion", True),
        (NINE_O_CLOCK + 5 * MINUTE, "move", MOVED, LOU, "principal:erin", "undo", True),
    ]),
    ("moves-and-aliases", {"key": CHIEF}, "what", [("alias removed",)]),
    ("moves-and-aliases", {"key": MOVED}, "what", [("move",), ("move",)]),
]  # fmt: skip


def keys(store: Repository) -> None:
    """Kim has two names, one of them taken away, and begins anew; lou's session is promoted, and that is undone."""
    now = [NINE_O_CLOCK]
    router = trails.Router(store, config={"session": {"dmScope": "per-peer"}}, clock=lambda: now[0])
    kim, lou = (router.route(trails.Inbound(channel="chat", peer=peer, content="Hello")) for peer in ("kim", "lou"))
    now[0] += MINUTE
    router.alias("boss", kim.key, by="dave")
    now[0] += MINUTE
    router.alias("chief", kim.key, by="dave")
    now[0] += MINUTE
    router.unalias("chief", by="erin")
    now[0] += MINUTE
    moved = router.promote(lou.key, MOVED, by="dave")
    now[0] += MINUTE
    router.undo(moved.operation or "", by="erin")
    router.reset(kim.key)


STORES = {fill: NINE, keys: KEYS}
