"""The config file: what holds where neither the command line nor the environment says otherwise.

It is the file that TRAILS_CONFIG names, or `trails/config.toml` in the user's folder of such files. A folder that one works in
has none: a project from elsewhere could otherwise choose the store.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from trails.cli import options, terminal
from trails.errors import InvalidInput
from trails.suggestions import did_you_mean

VARIABLE: Final = "TRAILS_CONFIG"
CONFIG: Final = "trails.config"
"""Where a run keeps its config file."""
_ALIAS, _COMMAND, _LIMIT = "alias", "command", "limit"


@dataclass(frozen=True, slots=True)
class Setting:
    """What the file can set for all commands."""

    key: str
    """Where a run keeps its value."""
    variables: tuple[str, ...] = ()
    """The variables of the environment that go before the file."""
    default: str = ""


SETTINGS: Final = {
    "store": Setting(options.STORE, ("TRAILS_STORE",), options.DEFAULT_STORE),
    "actor": Setting(options.ACTOR, ("TRAILS_ACTOR",), "unknown"),
    "keys": Setting(options.KEYS, ("TRAILS_KEYS",)),
    "color": Setting(terminal.COLOUR, ("NO_COLOR", "CLICOLOR_FORCE"), "auto"),
    "pager": Setting(terminal.PAGER, ("TRAILS_PAGER", "PAGER"), "less"),
    _LIMIT: Setting("trails.config.limit"),
}
_NEVER: Final = ("store", "by", "keys", "color", "json")
"""Options that are no command's own, or change what a program reads."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a config file says, checked but for the options of commands, which are checked when these run."""

    path: Path | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, Any] = field(default_factory=dict)

    def defaults(self, name: str, made: click.Command) -> dict[str, Any]:
        """Return the defaults of a command's options by parameter, or raise `InvalidInput` for one that it does not have.

        `name` is what is typed for it: `inbox list`.
        """
        section: Any = self.commands
        for word in name.split():
            section = section.get(word, {})
        own = {_long(each): each for each in made.params if isinstance(each, click.Option)}
        own = {word: each for word, each in own.items() if word and each.name not in _NEVER}
        limited = {_LIMIT: self._limit(own[_LIMIT])} if _LIMIT in self.settings and _LIMIT in own else {}
        place = f"[{_COMMAND}.{'.'.join(name.split())}]"
        return {str(own[word].name): value for word, value in limited.items()} | {
            str(self._option(place, word, own).name): self._checked(place, word, value, own[word])
            for word, value in section.items()
        }

    def _limit(self, option: click.Option) -> Any:
        most = getattr(option.type, "max", None)
        return self.settings[_LIMIT] if most is None else min(self.settings[_LIMIT], most)

    def _option(self, place: str, word: str, own: Mapping[str, click.Option]) -> click.Option:
        return own[word] if word in own else refuse_key(self.path, f"{place} {word}", word, own)

    def _checked(self, place: str, word: str, value: Any, option: click.Option) -> Any:
        is_flag = isinstance(value, bool)
        fits = is_flag if option.is_flag else isinstance(value, str | int | float) and not is_flag
        if option.multiple:
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if not fits:
            wanted = (
                "true or false" if option.is_flag else "a list of texts" if option.multiple else "a text or a number"
            )
            raise InvalidInput(f"{self.path}: {place} {word} is {wanted}, not {value!r}")
        return value

    def expanded(self, words: list[str]) -> list[str]:
        """Return a command line with the alias that it begins with replaced by what that stands for."""
        seen = list[str]()
        while words[0] in self.aliases:
            if words[0] in seen:
                raise InvalidInput(f"{self.path}: the alias {' = '.join([*seen, words[0]])} goes round in a circle")
            seen.append(words[0])
            words = [*shlex.split(self.aliases[words[0]]), *words[1:]]
        return words


def _long(option: click.Parameter) -> str:
    return next((each[2:] for each in option.opts if each.startswith("--")), "")


def refuse_key(path: Path | None, shown: str, word: str, there: Iterable[str]) -> NoReturn:
    """Raise `InvalidInput` for a key that a config file cannot have, with the nearest and all that it can."""
    names = list(there)
    raise InvalidInput(
        f"{path}: there is no {shown}{did_you_mean(word, names)}; there are: {', '.join(names) or 'none'}"
    )


def config_path() -> Path | None:
    """Return where the config file is, if there is one; None if TRAILS_CONFIG is empty."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return _from_home(named, VARIABLE) if named else None
    import platformdirs

    return platformdirs.user_config_path("trails", appauthor=False) / "config.toml"


def _from_home(path: str, what: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(f"{what} names the home of a user who is not there: {path!r}") from None


def read(places: Mapping[str, Any], moved: Iterable[str]) -> ConfigFile:
    """Return what the config file says; nothing where there is none.

    `places` are the commands, those of groups as mappings, and `moved` are old names of commands. Raises `InvalidInput` with
    the file and the key for what it cannot say.
    """
    path = config_path()
    try:
        if path is not None and path.exists() and not path.is_file():
            raise InvalidInput(f"the config file {path} is no file; {VARIABLE} may name another one")
        text = None if path is None else path.read_text("utf-8")
    except FileNotFoundError:
        if VARIABLE in os.environ:
            raise InvalidInput(f"{VARIABLE} names {path}, which is not there") from None
        text = None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"the config file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if path is None or text is None:
        return ConfigFile(path)
    import tomllib  # most runs have no file to read

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the config file {path} is no TOML: {error}") from None
    return _checked(path, found, places, moved)


def _checked(path: Path, found: dict[str, Any], places: Mapping[str, Any], moved: Iterable[str]) -> ConfigFile:
    for name in found:
        if name not in (*SETTINGS, _ALIAS, _COMMAND):
            refuse_key(path, f"setting {name!r}", name, [*SETTINGS, f"[{_ALIAS}]", f"[{_COMMAND}.NAME]"])
    aliases, commands = found.pop(_ALIAS, {}), found.pop(_COMMAND, {})
    for section, name in ((aliases, _ALIAS), (commands, _COMMAND)):
        if not isinstance(section, dict):
            raise InvalidInput(f"{path}: {name} is a table; write [{name}]")
    for name, value in found.items():
        found[name] = _setting(path, name, value)
    for name, value in aliases.items():
        _check_alias(path, name, value, [*places, *moved], aliases)
    _check_commands(path, commands, places, "")
    return ConfigFile(path, found, aliases, commands)


def _setting(path: Path, name: str, value: Any) -> Any:
    if name == _LIMIT:
        if type(value) is not int or not 1 <= value <= 1000:
            raise InvalidInput(f"{path}: {name} is a whole number from 1 to 1000, not {value!r}")
        return value
    if not isinstance(value, str):
        raise InvalidInput(f"{path}: {name} is a text, not {value!r}")
    if name == "color" and value not in terminal.WHEN:
        raise InvalidInput(f"{path}: {name} is one of {', '.join(terminal.WHEN)}, not {value!r}")
    if name in ("store", "keys") and "://" not in value:
        place = _from_home(value, f"{path}: {name}")
        if not place.is_absolute():
            raise InvalidInput(f"{path}: {name} is a whole path, or one that begins with ~, not {value!r}")
        return str(place)
    return value


def _check_alias(path: Path, name: str, value: Any, names: Iterable[str], aliases: Mapping[str, Any]) -> None:
    if name in names:
        raise InvalidInput(f"{path}: the alias {name!r} would hide the command of that name; take another")
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{path}: the alias {name!r} is a text, such as 'list --limit 5', not {value!r}")
    try:
        first = shlex.split(value)[0]
    except ValueError as error:
        raise InvalidInput(f"{path}: the alias {name!r} cannot be taken apart: {error}") from None
    if first not in {*names, *aliases}:
        raise InvalidInput(f"{path}: the alias {name!r} begins with no command: {first!r}{did_you_mean(first, names)}")


def _check_commands(path: Path, section: Mapping[str, Any], places: Mapping[str, Any], before: str) -> None:
    names = [name for name in places if name]
    for name, value in section.items():
        shown = f"[{_COMMAND}.{before}{name}]"
        if name not in names:
            refuse_key(path, f"command for {shown}", name, names)
        if not isinstance(value, dict):
            raise InvalidInput(f"{path}: {shown} is a table of options, not {value!r}")
        if isinstance(places[name], Mapping):
            _check_commands(path, value, places[name], f"{before}{name}.")


def apply(config: ConfigFile, meta: dict[str, Any]) -> None:
    """Keep for a run what a config file sets, where the command line and the environment leave it open."""
    meta[CONFIG] = config
    for name, value in config.settings.items():
        setting = SETTINGS[name]
        if _variable(setting) is None:
            meta.setdefault(setting.key, value)


_SAYS: Final = {"NO_COLOR": "never", "CLICOLOR_FORCE": "always"}


def _variable(setting: Setting) -> str | None:
    """Return the variable of the environment that decides a setting; an empty one says something of a pager alone."""
    empty = setting.key == terminal.PAGER
    return next((each for each in setting.variables if os.environ.get(each) or (empty and each in os.environ)), None)


def sources(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each setting with its value and where that comes from, for a run."""
    config: ConfigFile = meta[CONFIG]
    rows = []
    for name, setting in SETTINGS.items():
        variable = _variable(setting)
        given = meta.get(setting.key)
        in_file = config.settings.get(name)
        if given is not None and not (variable and given == os.environ[variable]) and (given != in_file or variable):
            value, source = given, "command line"
        elif variable is not None:
            value, source = _SAYS.get(variable, os.environ[variable]), variable
        elif in_file is not None:
            value, source = in_file, str(config.path)
        else:
            value, source = setting.default or None, "default"
        rows.append({"name": name, "value": value, "source": source})
    return rows


def command_rows(config: ConfigFile, commands: Mapping[str, click.Command]) -> list[dict[str, Any]]:
    """Return the defaults of options and the aliases that a config file has, all checked; `commands` are all there are."""
    rows = [
        {"name": f"{name} --{_long(each)}", "value": value, "source": str(config.path)}
        for name, made in commands.items()
        for parameter, value in (config.defaults(name, made) if config.commands else {}).items()
        for each in made.params
        if each.name == parameter and not (_long(each) == _LIMIT and value == config.settings.get(_LIMIT))
    ]
    return rows + [
        {"name": f"alias {name}", "value": value, "source": str(config.path)} for name, value in config.aliases.items()
    ]
