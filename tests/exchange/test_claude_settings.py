"""Hooks in Claude Code's settings: what is put in, what stays, and what is taken out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.support.commands import invoke, ok
from trails.errors import InvalidInput
from trails.exchange.recording.claude_settings import EVENTS, hook_command, is_ours, with_hooks, without_hooks

COMMAND = hook_command(["/opt/trails"], "/home/alice/my store")
OTHER = hook_command(["/opt/trails"], "/home/alice/other store")
THEIRS = """\
{
    "model": "m-1",
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "say done"}]}
        ],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]
    },
    "permissions": {  "allow": [ "Bash(ls:*)" ] }
}
"""
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=8,
)
GROUPS = some.lists(
    some.fixed_dictionaries(
        {
            "hooks": some.lists(
                some.fixed_dictionaries({"type": some.just("command"), "command": some.text()}), max_size=2
            )
        },
        optional={"matcher": some.text()},
    ),
    min_size=1,
    max_size=3,
)
SETTINGS = some.builds(
    lambda other, hooks: {**other, **({"hooks": hooks} if hooks else {})},
    some.dictionaries(some.text().filter(lambda name: name != "hooks"), VALUES, max_size=4),
    some.dictionaries(some.sampled_from([*EVENTS, "Notification"]), GROUPS, max_size=4),
)


def commands(text: str) -> dict[str, list[str]]:
    """The commands of all hooks by their event."""
    hooks = json.loads(text).get("hooks", {})
    return {event: [hook["command"] for group in groups for hook in group["hooks"]] for event, groups in hooks.items()}


def test_each_event_gets_a_hook_behind_those_of_others() -> None:
    after = with_hooks(THEIRS, COMMAND)
    assert commands(after) == {
        "Stop": ["say done", COMMAND],
        "PreToolUse": ["./check.sh"],
        **{event: [COMMAND] for event in EVENTS if event != "Stop"},
    }
    kept = [line for line in THEIRS.splitlines() if line.strip() not in ("}", "]", "},")]
    assert [line.rstrip(",") for line in kept if line.rstrip(",") not in after] == []
    assert '\n            },\n            {\n                "hooks": [' not in THEIRS
    assert (
        '        "SubagentStop": [\n            {\n                "hooks": [' in after
    )  # as their own lines are laid out


def test_settings_that_have_the_hooks_stay_as_they_are() -> None:
    once = with_hooks(THEIRS, COMMAND)
    assert with_hooks(once, COMMAND) == once


def test_another_store_takes_the_place_of_the_first() -> None:
    assert with_hooks(with_hooks(THEIRS, COMMAND), OTHER) == with_hooks(THEIRS, OTHER)


def test_an_empty_file_becomes_settings() -> None:
    assert commands(with_hooks("", COMMAND)) == {event: [COMMAND] for event in EVENTS}
    assert json.loads(without_hooks(with_hooks("", COMMAND))) == {}


def test_a_hook_of_ours_among_those_of_others_in_one_group_goes_alone() -> None:
    group = {"hooks": [{"type": "command", "command": "a"}, {"type": "command", "command": COMMAND}]}
    text = json.dumps({"hooks": {"Stop": [group]}}, indent=2)
    assert commands(without_hooks(text)) == {"Stop": ["a"]}


@pytest.mark.parametrize("command", ["trails list", "./hook --claude-code", "echo 'hook --claude-code trails'", "'"])
def test_a_hook_of_somebody_else_is_not_ours(command: str) -> None:
    assert not is_ours({"type": "command", "command": command})


@pytest.mark.parametrize(
    "text",
    [
        '{"model": ',
        "[]",
        "// settings\n{}",
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"hooks": {"Stop": ["say"]}}',
        '{"hooks": {}, "hooks": {}}',
        '{"hooks": {"Stop": [], "Stop": []}}',
    ],
)
def test_what_are_no_settings_is_refused(text: str) -> None:
    for change in (without_hooks, lambda each: with_hooks(each, COMMAND)):
        with pytest.raises(InvalidInput):
            change(text)


@given(SETTINGS, some.sampled_from([None, 2, 4, "\t"]), some.booleans(), some.sampled_from(["\n", "\r\n"]))
def test_what_was_put_in_and_taken_out_leaves_every_byte(
    settings: dict[str, Any], indent: int | str | None, ascii_only: bool, end: str
) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=ascii_only).replace("\n", end) + end
    after = with_hooks(text, COMMAND)
    told = commands(after)
    assert all(told[event][-1] == COMMAND for event in EVENTS)
    assert without_hooks(after) == text
    assert with_hooks(after, COMMAND) == after
    others = {key: value for key, value in json.loads(after).items() if key != "hooks"}
    assert others == {key: value for key, value in settings.items() if key != "hooks"}


# --- the command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Claude Code's settings."""
    folder = tmp_path / "claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_init_writes_the_settings_shows_them_and_keeps_a_copy(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    file = home / "settings.json"
    file.write_text(THEIRS)
    file.chmod(0o640)
    result = invoke("init", "agents.trails", "--claude-code", "--yes")
    shown = ok(result)
    told = commands(file.read_text())
    assert f"--store {tmp_path}/agents.trails hook --claude-code" in told["Stop"][1]
    assert [line for line in shown.splitlines() if line.startswith("+") and "--store" in line]
    assert (home / "settings.json.before-trails").read_text() == THEIRS
    assert file.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "agents.trails" / "trails.db").is_file()
    again = invoke("init", "agents.trails", "--claude-code", "--yes")
    assert (ok(again), "already; nothing was changed" in again.stderr) == ("", True)
    ok(invoke("init", "--claude-code", "--remove", "--yes"))
    assert file.read_text() == THEIRS


def test_init_asks_and_writes_nothing_without_a_yes(home: Path) -> None:
    result = invoke("init", "agents.trails", "--claude-code")
    assert result.exit_code == 2
    assert "give --yes" in result.stderr
    assert not home.exists()


def test_settings_of_a_project_are_those_for_this_machine_alone(home: Path, tmp_path: Path) -> None:
    ok(invoke("init", "agents.trails", "--claude-code", "--project", "--yes"))
    assert set(commands((tmp_path / ".claude" / "settings.local.json").read_text())) == set(EVENTS)
    assert not home.exists()


def test_broken_settings_are_refused_and_stay(home: Path) -> None:
    home.mkdir()
    (home / "settings.json").write_text('{"model": ')
    result = invoke("init", "agents.trails", "--claude-code", "--yes")
    assert result.exit_code == 2
    assert "is not JSON" in result.stderr
    assert (home / "settings.json").read_text() == '{"model": '
    assert [each.name for each in home.iterdir()] == ["settings.json"]


def test_settings_behind_a_link_are_written_where_they_are(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (tmp_path / "dotfiles.json").write_text("{}\n")
    (home / "settings.json").symlink_to(tmp_path / "dotfiles.json")
    ok(invoke("init", "agents.trails", "--claude-code", "--yes"))
    assert (home / "settings.json").is_symlink()
    assert set(commands((tmp_path / "dotfiles.json").read_text())) == set(EVENTS)


def test_a_url_with_a_password_never_gets_into_settings() -> None:
    from trails.cli.agent_settings import lasting

    with pytest.raises(InvalidInput, match="password"):
        lasting("postgresql://me:geheim@db.example.org/trails?store=team")
