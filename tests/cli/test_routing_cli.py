"""`trails keys list` and `trails keys policy check`: what they print of sessions by key."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

import trails
from tests.support.commands import Run, ok

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a main session, one that it spawned, and a group's, whose channel a configuration denies."""
    path = tmp_path_factory.mktemp("filled") / "store.trails"
    with trails.open(path, create=True, durability="process") as store:
        router = trails.Router(store, clock=lambda: NOON)
        router.route(trails.Inbound(channel="telegram", peer="7", content="Hello"))
        router.patch("main", {"label": "desk"})
        router.count("main", {"input_tokens": 1200, "output_tokens": 34})
        router.patch("agent:main:subagent:1", {"spawnedBy": "agent:main:main"})
        router.route(trails.Inbound(channel="discord", kind="group", peer="dev", content="Hello"))
    return path


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.json"
    rules = [{"action": "deny", "match": {"channel": "discord"}}]
    session = {"sendPolicy": {"rules": rules}, "resetByType": {"group": {"mode": "idle", "idleMinutes": 90}}}
    file.write_text(json.dumps({"session": session}), "utf-8")
    return str(file)


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in ok(result).splitlines()]


def test_sessions_lists_keys_with_kind_label_agent_activity_tokens_and_state(run: Run) -> None:
    assert "agent:main:main main desk main 2026-03-01 12:00 1,234 active" in lines(run("keys", "list"))
    assert "agent:main:subagent:1 subagent - main 2026-03-01 12:00 0 active" in lines(run("keys", "list"))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--label", "desk"), ["agent:main:main"]),
        (("--spawned-by", "main"), ["agent:main:subagent:1"]),
        (("--search", "SUBAGENT"), ["agent:main:subagent:1"]),
        (("--agent", "ops"), []),
        (("--active", "5"), []),
    ],
)
def test_sessions_shows_what_is_asked_for(run: Run, options: tuple[str, ...], found: list[str]) -> None:
    listed = json.loads(run("keys", "list", "--json", *options).stdout)["sessions"]
    assert [each["key"] for each in listed] == found


def test_sessions_gives_whole_entries_as_json(run: Run) -> None:
    [desk] = json.loads(run("keys", "list", "--json", "--label", "desk").stdout)["sessions"]
    assert (desk["entry"]["inputTokens"], desk["total_tokens"], desk["updated"]) == (
        1200,
        1234,
        "2026-03-01T12:00:00+00:00",
    )


def test_a_store_without_keys_says_so_on_stderr(run: Run, tmp_path: Path) -> None:
    with trails.open(tmp_path / "empty", create=True):
        pass
    result = run("keys", "list", "--store", str(tmp_path / "empty"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no key names a session" in result.stderr


def test_a_check_says_what_would_happen_and_which_rule_decides(run: Run, config: str, place: Path) -> None:
    with trails.open(place) as store:
        before = len(store.store)
    said = lines(run("keys", "policy", "check", "discord:group:new", "--config", config))
    assert said[0] == "agent:main:discord:group:new (no session yet)"
    for line in (
        "send denied session.sendPolicy.rules[0]",
        "answer when mentioned default",
        "begin anew after 90 minutes without a message session.resetByType.group",
        "next message begins the session session.resetByType.group",
        "spawn allowed key",
        "delete by key allowed key",
    ):
        assert line in said
    assert "next message begins anew session.resetByType.group" in lines(
        run("keys", "policy", "check", "discord:group:dev", "--config", config)
    )
    with trails.open(place) as store:
        assert len(store.store) == before


def test_a_check_of_a_main_session_and_a_sub_agents(run: Run) -> None:
    said = lines(run("keys", "policy", "check", "main"))
    assert "next message begins anew default" in said
    assert "delete by key refused key" in said
    assert "spawn refused key" in lines(run("keys", "policy", "check", "agent:main:subagent:1"))


def test_a_check_as_json(run: Run, config: str) -> None:
    found = json.loads(run("keys", "policy", "check", "main", "--json", "--config", config).stdout)
    assert found["send"] == {"allowed": True, "rule": "session.sendPolicy.default"}
    assert found["reset"] == {"mode": "daily", "at_hour": 4, "idle_minutes": None}
    assert found["freshness"]["fresh"] is False


@pytest.mark.parametrize(("text", "message"), [("[]", "holds no object"), ("{", "is not JSON")])
def test_a_configuration_that_is_none_is_wrong_usage(run: Run, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text, "utf-8")
    result = run("keys", "list", "--config", str(file))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_wrong_setting_is_named_by_its_path(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"session": {"dmScope": "everybody"}}', "utf-8")
    result = run("keys", "policy", "check", "main", "--config", str(file))
    assert result.exit_code == 2
    assert "session.dmScope" in result.stderr
