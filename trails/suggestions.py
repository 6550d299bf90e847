"""Suggest what a caller meant: near names and corrected calls.

`checked` wraps a public function or method. If Python cannot bind the arguments, the error names the parameter that was
probably meant and shows the right call. If an argument has a wrong type, the error names the type. Types are checked only after
a call has failed: one that works costs one more Python call, about 0.1 us.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from heapq import nlargest
from importlib import import_module
from pathlib import Path
from types import FunctionType, MappingProxyType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from trails.errors import InvalidInput, TrailsError, WrongCall

_LONGEST_NAME: Final = 100
"""Of longer names, so much is compared."""
_MOST_NAMES: Final = 1_000
"""Of more candidates, the first so many are compared: at most some 10 ms."""


def nearest(name: str, candidates: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return up to `most` of the candidates that look like a name, the nearest first; upper and lower case are alike.

    A candidate looks like it where their similarity (`difflib`'s ratio, 0 to 1) is at least `cutoff`, or where it holds
    the name (of 3 characters or more).

    >>> nearest("promt", ["prompt", "answer", "prompts"]), nearest("plan", ["claude-code:release-plan"])
    (['prompt', 'prompts'], ['claude-code:release-plan'])
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - only errors need it

    wanted = name.lower()[:_LONGEST_NAME]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    scored: list[tuple[float, str]] = []
    for candidate in list(dict.fromkeys(candidates))[:_MOST_NAMES]:
        plain = candidate.lower()[:_LONGEST_NAME]
        matcher.set_seq1(plain)
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
            score = matcher.ratio()
            if score >= cutoff:
                scored.append((score, candidate))
                continue
        if len(wanted) > 2 and wanted in plain:
            scored.append((len(wanted) / len(plain) * cutoff, candidate))
    return [candidate for _, candidate in nlargest(most, scored, key=lambda found: found[0])]


def did_you_mean(
    name: str,
    candidates: Iterable[str],
    *,
    most: int = 3,
    cutoff: float = 0.6,
    meant: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Return what an error message says after a name that is not there: the nearest in brackets, or nothing.

    Where `meant` has the name in lower case, those of its words that are candidates come before any that look alike.

    >>> did_you_mean("promt", ["prompt", "answer"]), did_you_mean("x", ["answer"])
    (" (did you mean 'prompt'?)", '')
    """
    known = list(candidates)
    words = [each for each in meant.get(name.lower(), ()) if each in known]
    found = [repr(each) for each in words or nearest(name, known, most=most, cutoff=cutoff)]
    return f" (did you mean {' or '.join(found)}?)" if found else ""


_Function = TypeVar("_Function", bound=Callable[..., Any])
_PACKAGE: Final = f"{Path(__file__).parent}/"


def synonyms(table: str) -> Mapping[str, tuple[str, ...]]:
    """Return words by what people write instead, from lines of `WRITTEN WRITTEN: WORD WORD; WRITTEN: ...`.

    >>> synonyms("why: reason; n most: limit count")
    {'why': ('reason',), 'n': ('limit', 'count'), 'most': ('limit', 'count')}
    """
    pairs = (each.partition(":") for each in table.split(";"))
    return {each: tuple(words.split()) for written, _, words in pairs for each in written.split()}


_SYNONYMS: Final = synonyms("""
    text: content label query; message: content; body: content; name: label id agent; title: label; user: principal
    author; owner: principal; metadata: meta; index: at up_to_index; position: at; timestamp: time created; date:
    time created; session_id: id session; session: id; tools: tool_calls; system_prompt: system; prompt: system
    request; persona: system; tokens: max_tokens usage; budget max_length: max_tokens; why: reason; who: by;
    actor: by; count max_results k top_k size per_page: limit; n: limit count; limit: max_tokens max_rows count;
    start after: since; end before: until up_to_index; path: location; tag: name; cascade force: children;
    mode readonly: read_only create; query q pattern keyword: text; parent parent_id: spawned_by session;
    offset skip page: cursor; where filter: text meta; order_by: order sort; cost prompt_tokens: usage;
    id: tool_call_id session; tokenizer: counter
""")
"""What people write for a parameter that has another name here, where the function has one of those."""
_OTHER_CALLS: Final = {
    ("Repository.load", "create"): "store.session(id) loads a session or creates it",
    ("Repository.create", "messages"): "session.extend(messages) appends them",
    ("Repository.create", "history"): "session.extend(messages) appends them",
    ("Session.persist", "message"): "store.notes.add(session, index, text) says something of a turn",
    ("Session.context", "model"): "max_tokens= is the budget, and counter= counts tokens as the model does",
    ("Session.append", "parent"): "session.fork(at=N) goes on from an earlier turn",
    ("Session.fork", "n"): "a fork is one session: fork once for each, or see trails.rerun_many",
    ("Proofs.verify", "deep"): "every digest is recomputed in any case",
    ("Repository.graph", "format"): "session.prov() gives W3C PROV, and trails.provenance.export writes files",
}
"""What does what people want of a call by a parameter that it does not have, by the call and the parameter."""


def checked(function: _Function) -> _Function:
    """Return a function that does the same, and says what is wrong with a call that it cannot take.

    It raises `WrongCall` for arguments that do not fit its signature. If it fails otherwise than by an error of Trails, and
    an argument is not of its parameter's type, it raises `InvalidInput` that names this argument.
    """

    notes = function.__annotations__
    flags = [name for name in function.__kwdefaults__ or () if notes.get(name) == "bool"]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for name in flags:  # Python takes any value for one of them, "no" for True
            if name in options and options[name] is not True and options[name] is not False:
                raise InvalidInput(f"{_name(function)}(): {name!r} must be True or False, not {options[name]!r:.80}")
        try:
            return function(*args, **options)
        except Exception as error:
            is_meant = isinstance(error, TrailsError) and not hasattr(error, "argument")
            wrong = None if is_meant else _wrong_argument(function, args, options)
            if wrong is None:
                raise
            raise wrong from None

    call.is_checked = True  # type: ignore[attr-defined] # read by `check_methods`
    return call  # type: ignore[return-value] # it is called as the function is


def _unchecked(members: Mapping[str, Any]) -> list[tuple[str, FunctionType]]:
    functions = [pair for pair in members.items() if pair[0] == "__init__" or not pair[0].startswith("_")]
    return [
        (name, each) for name, each in functions if isinstance(each, FunctionType) and not hasattr(each, "is_checked")
    ]


def check_methods(kind: type) -> None:
    """Put `checked` around the constructor and all public methods that a class itself defines."""
    for name, method in _unchecked(vars(kind)):
        setattr(kind, name, checked(method))


def check_functions(module: dict[str, Any]) -> None:
    """Put `checked` around the functions of this package that a module offers; what it offers otherwise stays."""
    package = __name__.partition(".")[0]
    ours = [pair for pair in _unchecked(module) if pair[1].__module__.partition(".")[0] == package]
    module.update({name: checked(function) for name, function in ours})


def _wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
) -> InvalidInput | None:
    """Return the error for a call that does not fit a function, or for its first argument of a wrong type; else None."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **options)
    except TypeError as wrong:
        return WrongCall(wrong_call(function, signature, args, options, str(wrong)))
    names = _Names(vars(sys.modules[function.__module__]))
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.annotation is not parameter.empty and _is_fixed(parameter):
            hint = eval(parameter.annotation, {}, names)  # noqa: S307 - an annotation of this package
            if not _is_of(value, hint):
                types = re.sub(r"(?:\w+\.)+", "", inspect.formatannotation(hint))
                error = InvalidInput(f"{_name(function)}(): {name!r} must be {types}, not {value!r:.80}")
                error.argument = name  # type: ignore[attr-defined] # the function that called this one has a name for it, too
                return error
    return None


class _Names(dict[str, Any]):
    """The names of a module, those that it imports for type checkers alone too. Any other name stands for any type."""

    def __missing__(self, name: str) -> Any:
        for node in ast.walk(ast.parse(Path(self["__file__"]).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
                return getattr(import_module(str(node.module)), name)
        return getattr(builtins, name, Any)


def _is_of(value: object, hint: Any) -> bool:
    from pydantic import ConfigDict, TypeAdapter, ValidationError  # noqa: PLC0415 - only errors need it

    if get_origin(hint) in (Union, UnionType):
        return any(_is_of(value, each) for each in get_args(hint))
    if getattr(hint, "_is_protocol", False) and not getattr(hint, "_is_runtime_protocol", False):
        return True  # which values it takes, only type checkers can tell
    if isinstance(hint, type) and get_origin(hint) is None and hint not in (Any, float):
        return isinstance(value, hint)
    try:
        given = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True, strict=True)).validate_python(value)
        if isinstance(value, Collection) and isinstance(given, Iterator):
            list(given)  # its items are looked at only now
    except ValidationError:
        return False
    return True


def wrong_call(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    otherwise: str,
) -> str:
    """Return what is wrong with a call, and how it looks; `otherwise` is what Python says of it."""
    parameters = list(signature.parameters.values())
    is_method = bool(parameters) and parameters[0].name == "self"
    given = parameters[1:] if is_method else parameters
    name, values = _name(function), args[1:] if is_method else args
    shown = f"it is called as {name.rpartition('.')[2]}{_signature(given)}"
    known = {each.name: each for each in given}
    unknown = [each for each in options if each not in known]
    if unknown:
        other = _OTHER_CALLS.get((name, unknown[0]))
        meant = _meant(unknown[0], known) if other is None else f": {other}"
        return f"{name}() has no parameter {unknown[0]!r}{meant}; {shown}"
    places = [each for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(values) > len(places):
        by_name = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
        takes = f"takes {', '.join(each.name for each in places) or 'nothing'} by position"
        rest = f", all else by name, as {by_name[0]}=..." if by_name else ""
        return f"{name}() {takes}{rest}, and got {len(values)} values{_of_more(places, values, given)}; {shown}"
    bound = {each.name for each in places[: len(values)]}
    if twice := bound & options.keys():
        return f"{name}() got {min(twice)!r} twice, by position and by name; {shown}"
    needed = [each.name for each in given if _is_fixed(each) and each.default is each.empty]
    missing = [name for name in needed if name not in bound | options.keys()]
    if missing:
        return f"{name}() needs {' and '.join(map(repr, missing))}{_of_a_dict(values, missing)}; {shown}"
    return f"{name}(): {otherwise}; {shown}"


def _is_fixed(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _meant(name: str, known: Iterable[str]) -> str:
    found = [each for each in _SYNONYMS.get(name.lower(), ()) if each in known] or nearest(name, known)
    return f" (did you mean {' or '.join(f'{each}=' for each in found[:2])}?)" if found else ""


def _of_more(places: Sequence[inspect.Parameter], values: tuple[Any, ...], given: Sequence[inspect.Parameter]) -> str:
    """Return how values that are too many are probably to be given."""
    last, more = places[-1] if places else None, values[len(places)]
    if last is not None and re.search(r"Iterable|Sequence|Collection", str(last.annotation)):
        return f": several go as one list, [{', '.join(f'{each!r:.20}' for each in values[:2])}]"
    if last is not None and last.name == "ref" and isinstance(more, int):
        return f": a turn stands in the reference, as {f'{values[len(places) - 1]}@{more}'!r}"
    if given and given[-1].kind is inspect.Parameter.VAR_KEYWORD:
        return ": the query's parameters go by name"
    return ""


def _of_a_dict(values: tuple[Any, ...], missing: list[str]) -> str:
    if values and isinstance(values[0], Mapping) and "content" in missing:
        return ': a message that is a dict goes as append(message["role"], message["content"])'
    return ""


def _name(function: Callable[..., Any]) -> str:
    name = function.__qualname__.removesuffix(".__init__")
    return name if "." in name or name[:1].isupper() else f"trails.{name}"


def _signature(parameters: list[inspect.Parameter]) -> str:
    """Return the parameters without their types: those that must be given, and as many of the others as fit."""
    shown = str(inspect.Signature([each.replace(annotation=each.empty) for each in parameters]))
    return shown if len(shown) <= _LONGEST + 2 else f"{shown[: _LONGEST + 1].rpartition(',')[0]}, ...)"


_LONGEST: Final = 160


def calling_line() -> tuple[str, int]:
    """Return the file and the line of the program that called this package: what a warning points at.

    That is the nearest frame outside of the package; the outermost one where all are within it. Takes a microsecond.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
