"""What every handle on an open store has in common: it cannot be copied or pickled, and says how it is to be used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, SupportsIndex, TypeVar

from trails.errors import NoSuchName, TrailsError
from trails.suggestions import check_methods, nearest, synonyms

_SYNONYMS: Final = synonyms("""
    messages: turns; get_messages get_history conversation: turns context; history transcript: turns replay;
    add: append add place; add_message send say write insert update: append; save save_session commit: persist;
    flush: persist close; name: label id; title: label; rename: set_label; parent: parent_session_id;
    child children forks: branches; get get_session load_session open: load; new new_session
    create_session add_session: create; sessions list_sessions all ls keys ids: list; find: search list; grep: search; remove
    drop delete_session: delete; sparql execute run: query; on: checkout; branch: checkout fork; undo: pop rewind
    discard_pending; pop revert: discard_pending fork; provenance: prov; rollback: discard_pending; copy clone fork_session: fork;
    tree: forest;
    log: turns changes; merge: take cherry_pick; rebase reset: fork; status describe: info; show view: load turns; create: add;
    cursor fetchall: query; loc iloc df to_df dataframe groupby: to_pandas list; log_metric log_param evaluate: score;
    search_runs runs: list; exists: resolve; tokens usage: stats; metadata: meta; digest hash: head
""")
"""What people look for that has another name here, where the handle has one of those."""
_ELSEWHERE: Final = {
    "push": "trails.push(store, sessions, other) copies sessions to another store",
    "pull": "trails.pull(store, other, sessions) copies sessions from another store",
    "export": "trails.exchange.file_import.export_session(store, session, format, file) writes one",
    "import_": "trails.exchange.file_import.import_path(store, path) reads files",
    "rerun": "trails.rerun(session, agent) runs an agent again over a session",
    "branch": "session.fork(at=N) makes a branch, with session = store.load(id)",
    **dict.fromkeys(
        ("ablate", "ablation", "counterfactual", "withhold"),
        "trails.replay.withholding.withhold_turns(session, turn, answer) asks again without single turns",
    ),
}
"""What handles do not do themselves, and what does."""
_REACHED: Final[dict[type, str]] = {}
"""How one gets to the handles that most is done with."""


_P = ParamSpec("_P")
_Result = TypeVar("_Result")


def verb(
    function: Callable[Concatenate[Any, _P], _Result], of: str = "workspace"
) -> Callable[Concatenate[Any, _P], _Result]:
    """Return a method that calls a function with an attribute of its handle, and then what the method is given."""

    @wraps(function)
    def method(self: Any, /, *args: _P.args, **options: _P.kwargs) -> _Result:
        return function(getattr(self, of), *args, **options)

    first, *others = inspect.signature(function).parameters.values()
    method.__signature__ = inspect.Signature([first.replace(name="self"), *others])  # type: ignore[attr-defined] # read by `inspect`
    del method.__wrapped__
    return method


class Handle:
    """Something that works on an open store: a second one made behind its back would close the store when it goes.

    A subclass that is declared with `public=True` says of calls that do not fit what is wrong with them (`suggestions.checked`).
    Other handles point to one that is `reached` by an expression for the names that it has and they do not.
    """

    __slots__ = ()

    def __init_subclass__(cls, *, public: bool = False, reached: str | None = None, **extra: Any) -> None:
        for name, member in vars(cls).items():
            if public and hasattr(member, "__signature__"):  # a verb
                member.__name__, member.__qualname__ = name, f"{cls.__qualname__}.{name}"
        super().__init_subclass__(**extra)
        if public:
            check_methods(cls)
        if reached is not None:
            _REACHED[cls] = reached

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> NoReturn:
            """Say what there is instead of an attribute that is not there."""
            kind = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self)
            if hasattr(kind, name):  # a property raised an AttributeError of its own
                return object.__getattribute__(self, name)
            raise NoSuchName(f"a {kind.__name__} has no {name!r}{_instead(kind, name)}")

        def __getitem__(self, key: object) -> NoReturn:
            """Say that this is no mapping, of a handle that is none."""
            raise NoSuchName(f"a {type(self).__name__} has no items, so no [{key!r:.40}]{_instead(type(self), 'get')}")

        def __setitem__(self, key: object, value: object) -> NoReturn:
            """Say that nothing is replaced in a store."""
            raise NoSuchName(
                f"nothing of a {type(self).__name__} can be set by [{key!r:.40}]: turns never change, and new ones come by "
                "session.append(role, content); session.fork(at=N) goes on from an earlier one"
            )

        def __delitem__(self, key: object) -> NoReturn:
            """Say how things are removed."""
            raise NoSuchName(
                f"nothing of a {type(self).__name__} is removed by `del`, and not [{key!r:.40}]: store.delete(session) removes "
                "a session, store.redact(session, index) what a turn says, session.discard_pending() what is not persisted"
            )

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        """Refuse `copy.copy`, `copy.deepcopy` and `pickle`, all of which ask here."""
        raise TrailsError(
            f"{self!r} cannot be copied or pickled: it works on an open store; pass it on as it is, ask the store for "
            "another one (as by `load`), or hand over an id or the store's location"
        )


def _instead(kind: type, name: str) -> str:
    there = [each for each in dir(kind) if not each.startswith("_")]
    words = _SYNONYMS.get(name.lower(), ())
    if name.lower() in _ELSEWHERE:
        return f": {_ELSEWHERE[name.lower()]}"
    found = [each for each in words if each in there]
    for other, reached in _REACHED.items():
        if not found and (word := next((each for each in (name, *words) if hasattr(other, each)), None)):
            return f" (a {other.__name__} has {word!r}: {reached}.{word})"
    found = found or nearest(name, there)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else f"; it has: {', '.join(there)}"
