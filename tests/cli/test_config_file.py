"""The config file: defaults and aliases, below the environment and the command line, and refused where it says nonsense."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import trails
from tests.support.commands import invoke, ok, ok_json


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the config file, which is empty."""
    path = tmp_path / "config.toml"
    path.touch()
    monkeypatch.setenv("TRAILS_CONFIG", str(path))
    for name in ("TRAILS_STORE", "TRAILS_ACTOR", "TRAILS_PAGER", "PAGER", "NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder of a store with the sessions a, b and c."""
    path = tmp_path / "some.trails"
    with trails.open(path, create=True, durability="process") as opened:
        for name in "abc":
            opened.create(id=name, label=f"label-{name}").persist()
    return path


def listed(*words: str) -> list[str]:
    return [each["id"] for each in ok_json(invoke(*words, "--json=id"))["sessions"]]


def origins() -> dict[str, tuple[object, str]]:
    return {each["name"]: (each["value"], each["source"]) for each in ok_json(invoke("config", "--json"))["settings"]}


def test_the_file_names_the_store_until_the_environment_or_the_command_line_does(
    config: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f'store = "{store}"\n', "utf-8")
    assert sorted(listed("list")) == ["a", "b", "c"]
    other = tmp_path / "other.trails"
    trails.open(other, create=True).close()
    monkeypatch.setenv("TRAILS_STORE", str(other))
    assert listed("list") == []
    assert len(listed("list", "--store", str(store))) == len(listed("--store", str(store), "list")) == 3


def test_the_file_names_who_does_it_until_the_environment_or_the_command_line_does(
    config: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f'store = "{store}"\nactor = "alice"\n', "utf-8")
    ok(invoke("tag", "one", "a@0"))
    monkeypatch.setenv("TRAILS_ACTOR", "bob")
    ok(invoke("tag", "two", "b@0"))
    ok(invoke("--by", "carol", "tag", "three", "c@0"))
    ok(invoke("tag", "four", "c@0", "--by", "dan"))
    by = {each["name"]: each["by"] for each in ok_json(invoke("tags", "--json=name,by"))["tags"]}
    assert by == {"one": "alice", "two": "bob", "three": "carol", "four": "dan"}


def test_a_limit_holds_for_every_list_and_an_option_of_a_command_goes_before_it(config: Path, store: Path) -> None:
    config.write_text(f'store = "{store}"\nlimit = 2\n', "utf-8")
    assert len(listed("list")) == 2
    assert len(listed("list", "-n", "3")) == 3
    config.write_text(f'store = "{store}"\nlimit = 2\n[command.list]\nlimit = 1\norder = "oldest"\n', "utf-8")
    assert listed("list") == ["a"]
    assert listed("list", "--order", "newest") == ["c"]


def test_options_of_a_command_in_a_group_have_defaults_too(config: Path, store: Path) -> None:
    config.write_text(f'store = "{store}"\n[command.runs.list]\nactive = true\n', "utf-8")
    assert "no active runs" in invoke("runs", "list").stderr
    config.write_text(f'store = "{store}"\n[command.runs.list]\nactive = false\n', "utf-8")
    assert "no runs" in invoke("runs", "list").stderr


def test_colours_are_set_by_the_file_and_the_environment_goes_before_it(
    config: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f'store = "{store}"\ncolor = "always"\n', "utf-8")
    assert "\x1b[" in ok(invoke("tree"))
    assert "\x1b[" not in ok(invoke("tree", "--color", "never"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in ok(invoke("tree"))


def test_an_alias_stands_for_a_command_with_its_options(config: Path, store: Path) -> None:
    aliases = 'ls = "list --limit 2"\nfirst = "ls --order oldest"\nwho = "search \'two words\'"'
    config.write_text(f'store = "{store}"\n[alias]\n{aliases}\n', "utf-8")
    assert len(listed("ls")) == 2
    assert listed("first") == ["a", "b"]
    assert listed("ls", "-n", "1") == ["c"]
    assert "nothing found" in invoke("who").stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stroe = '/x'", "there is no setting 'stroe' (did you mean 'store'?)"),
        ("store = 'here'", "store is a whole path, or one that begins with ~, not 'here'"),
        ("store = 7", "store is a text, not 7"),
        ("limit = 0", "limit is a whole number from 1 to 1000, not 0"),
        ("limit = true", "limit is a whole number from 1 to 1000, not True"),
        ("color = 'blue'", "color is one of auto, always, never, not 'blue'"),
        ("alias = 'x'", "write [alias]"),
        ("[alias]\nlist = 'log'", "the alias 'list' would hide the command of that name"),
        ("[alias]\nls = 'lits'", "the alias 'ls' begins with no command: 'lits' (did you mean 'list'?)"),
        ('[alias]\nls = "list \'x"', "the alias 'ls' cannot be taken apart"),
        ("[alias]\nls = ' '", "the alias 'ls' is a text, such as"),
        ("[command.lits]\nsort = 'turns'", "there is no command for [command.lits] (did you mean 'list'?)"),
        ("[command.inbox.lits]\nlimit = 2", "there is no command for [command.inbox.lits] (did you mean 'list'?)"),
        ("[command.list]\nsotr = 'turns'", "there is no [command.list] sotr (did you mean 'sort'"),
        ("[command.list]\nsort = 'size'", "Invalid value for '--sort'"),
        ("[command.list]\nsort = true", "[command.list] sort is a text or a number, not True"),
        ("[command.list]\ntsv = 'yes'", "[command.list] tsv is true or false, not 'yes'"),
        ("[command.list]\nmeta = 'a=b'", "[command.list] meta is a list of texts, not 'a=b'"),
        ("[command.list]\nstore = '/elsewhere'", "there is no [command.list] store"),
        ("store = '~nobody-of-that-name/x'", "store names the home of a user who is not there"),
        ("store = ", "is no TOML: Invalid value (at end of document)"),
    ],
)
def test_what_the_file_cannot_say_is_refused_with_its_name(config: Path, text: str, problem: str) -> None:
    config.write_text(text, "utf-8")
    done = invoke("list", "--store", ":memory:")
    assert (done.exit_code, done.stdout) == (2, "")
    assert str(config) in done.stderr
    assert problem in done.stderr


def test_aliases_that_go_round_in_a_circle_are_refused(config: Path) -> None:
    config.write_text('[alias]\na = "b"\nb = "a"\n', "utf-8")
    done = invoke("a")
    assert done.exit_code == 2
    assert "the alias a = b = a goes round in a circle" in done.stderr


def test_a_named_file_must_be_there_and_an_empty_name_means_none(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.unlink()
    assert f"TRAILS_CONFIG names {config}, which is not there" in invoke("config").stderr
    monkeypatch.setenv("TRAILS_CONFIG", "")
    assert ok_json(invoke("config", "--json=file")) == {"file": None}


def test_a_file_in_the_folder_that_one_works_in_sets_nothing(
    config: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAILS_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("config.toml", "trails.toml", ".trails.toml", "trails/config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'store = "{store}"\n', "utf-8")
    assert origins()["store"] == ("./.trails", "default")
    home = tmp_path / "home" / "trails"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'store = "{store}"\n', "utf-8")
    assert origins()["store"] == (str(store), str(home / "config.toml"))


def test_config_shows_every_setting_and_where_it_came_from(
    config: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(
        'store = "postgresql://me:hidden@localhost/db?store=team"\nactor = "alice"\nlimit = 7\n'
        '[alias]\nls = "list"\n[command.list]\nsort = "turns"\n',
        "utf-8",
    )
    monkeypatch.setenv("TRAILS_ACTOR", "bob")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = ok_json(invoke("--keys", "/keys", "config", "--json"))
    assert shown["file"] == str(config)
    assert [(each["name"], each["value"], each["source"]) for each in shown["settings"]] == [
        ("store", "postgresql://localhost/db?store=team", str(config)),
        ("actor", "bob", "TRAILS_ACTOR"),
        ("keys", "/keys", "command line"),
        ("color", "never", "NO_COLOR"),
        ("pager", "less", "default"),
        ("limit", 7, str(config)),
        ("list --sort", "turns", str(config)),
        ("alias ls", "list", str(config)),
    ]
    assert "TRAILS_ACTOR" in ok(invoke("config"))


def test_config_finds_what_is_wrong_with_the_options_of_any_command(config: Path) -> None:
    config.write_text("[command.cost]\nmodle = 'm'\n", "utf-8")
    assert invoke("list", "--store", os.devnull).stderr.count("modle") == 0
    assert "there is no [command.cost] modle" in invoke("config").stderr


def test_the_file_in_the_guide_is_accepted_whole(config: Path) -> None:
    page = ok(invoke("guide", "command-line"))
    config.write_text(page.split("```toml\n")[1].split("```")[0], "utf-8")
    shown = origins()
    assert shown["limit"] == (20, str(config))
    assert shown["inbox events --limit"] == (5, str(config))
    assert shown["alias recent"] == ("list --since 7d", str(config))
    assert len(shown) == 6 + 2 + 1


def test_a_config_file_that_is_no_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        monkeypatch.setenv("TRAILS_CONFIG", str(path))
        done = invoke("list", "--store", ":memory:")
        assert done.exit_code == 2
        assert f"the config file {path} is no file" in done.stderr
