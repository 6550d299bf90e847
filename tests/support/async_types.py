"""The types of the await forms: `trails/aio/handles.pyi`, written from the sources of the handles.

`python -m tests.support.async_types` writes it again.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import trails
from trails.aio import calls, handles, threads
from trails.handles import Handle
from trails.session import model_context

STUB: Final = Path(handles.__file__).with_suffix(".pyi")
_FORMS: Final = {sync.__name__: form.__name__ for sync, form in handles.FORMS.items()}
_GIVEN: Final = {"Session": "AsyncSession | Session", "Node": "AsyncNode | Node"}
_OF_RERUNS: Final = {"Session": "AsyncSession", "Agent": "_Agent", "Model": "_Agent", "Tools": "_Tools"}
_ENTERED: Final = {form.__name__ for form in handles.FORMS.values() if hasattr(form, "__aexit__")}
_HEAD: Final = """
_Sync = TypeVar("_Sync")
_Result = TypeVar("_Result")
_Agent = Callable[[AsyncPlaying], Any]
_Tools = Callable[[ToolCall], Any]

FORMS: dict[type, type[Twin[Any]]]

class Twin(Handle, Generic[_Sync]):
    sync: _Sync
    workers: Workers
    def __init__(self, sync: _Sync, workers: Workers) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def run(self, work: Callable[[_Sync], _Result]) -> _Result: ...
    async def call(self, work: Callable[[], _Result], *, leave: bool = ..., apart: bool = ...) -> _Result: ...
"""
_COMPACTION: Final = """
    @overload
    async def run_with_compaction(self, call: Callable[[Context], Awaitable[_Result]], summarise: Summarise, *,
        query: object = ..., policy: CompactionPolicy | None = ..., overflow: IsOverflow | None = ...,
        max_tokens: int | None = ..., **options: Any) -> _Result: ...
    @overload
    async def run_with_compaction(self, call: Callable[[Context], _Result], summarise: Summarise, *,
        query: object = ..., policy: CompactionPolicy | None = ..., overflow: IsOverflow | None = ...,
        max_tokens: int | None = ..., **options: Any) -> _Result: ...
    async def compact(self, summarise: Summarise, **options: Any) -> Turn: ...
"""
_WRITTEN_ABOVE: Final = {"call", "compact", "run_with_compaction"}
_OWN: Final = ("AsyncStreaming", "Opening")


class _Source:
    """A module's source: its classes and functions, and where its names come from."""

    def __init__(self, module: str) -> None:
        self.tree = ast.parse(inspect.getsource(importlib.import_module(module)))
        self.places: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                names = [(each.asname or each.name, each.name) for each in node.names]
                if names[0][1] == "*":
                    names = [(name, name) for name in _source(node.module).places]
                self.places |= {local: (node.module, name) for local, name in names}
            elif isinstance(node, ast.Import):
                self.places |= {each.asname or each.name: ("", each.name) for each in node.names}
        for statement in self.tree.body:
            for name in _defined(statement):
                self.places.setdefault(name, (module, name))

    def named(self, name: str) -> ast.ClassDef | ast.FunctionDef:
        """Return a class or a function of the module."""
        return next(
            each for each in self.tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name
        )


@cache
def _source(module: str) -> _Source:
    return _Source(module)


def _origin(place: tuple[str, str]) -> tuple[str, str]:
    """Return where a name is defined that may only be passed on."""
    module, name = place
    if not module.startswith("trails."):
        return place
    origin = _source(module).places.get(name, place)
    return place if origin == place else _origin(origin)


def _defined(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            yield name


def _verb(source: _Source, node: ast.stmt) -> tuple[_Source, ast.FunctionDef] | None:
    """Return the function that a method is made from by `handles.verb`, as a method of that name."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="verb"), args=[function, *_])):
            home, _, attribute = ast.unparse(function).rpartition(".")
            module, local = source.places[home or attribute]
            is_module = bool(home) and home.islower()
            found = _Source(f"{module}.{local}" if is_module else module)
            body = found.tree if is_module or not home else found.named(home)
            made = next(each for each in body.body if isinstance(each, ast.FunctionDef) and each.name == attribute)
            made.name, made.args.args[0] = name, ast.arg("self")
            return found, made
    return None


class _Types(ast.NodeTransformer):
    """Names of types as they stand in the stub; what they need is noted for its imports."""

    def __init__(self, source: _Source, names: dict[str, str], needed: dict[str, tuple[str, str]]) -> None:
        self.source, self.names, self.needed = source, names, needed

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the type that stands for a name."""
        parts = self.names.get(node.id, node.id)
        for name in parts.split(" | "):
            if name in self.source.places and name not in {*_FORMS.values(), *_OWN}:
                origin = _origin(self.source.places[name])
                place = self.needed.setdefault(name, origin)
                assert place == origin, f"two types are called {name}: {place}, {origin}"
        return ast.parse("builtins.list" if node.id == "list" else parts, mode="eval").body

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Return a type that is written as a text, as a type."""
        return node


class _Writer:
    """The lines of the stub."""

    def __init__(self) -> None:
        self.needed: dict[str, tuple[str, str]] = {}
        self.source = _Source("trails.aio.handles")

    def text(self) -> str:
        body = [line for sync, form in handles.FORMS.items() for line in self._form(sync, form.__name__)]
        for name in _OWN:
            node = self.source.named(name)
            assert isinstance(node, ast.ClassDef)
            body += [f"class {name}:", *self._written(node)]
        body += self._function(trails.open.__module__, "open", {}, "Opening")
        for rerun in (trails.rerun, trails.rerun_many):
            body += self._function(rerun.__module__, rerun.__name__, _OF_RERUNS)
        for name, module in (
            *((each.__name__, each.__module__) for each in (Handle, threads.Workers, calls.Called, trails.ToolCall)),
            *((name, "collections.abc") for name in ("Awaitable", "Callable")),
            *((name, "typing") for name in ("Any", "Generic", "Self", "TypeVar", "overload")),
            *((each.__name__, each.__module__) for each in (trails.Context, trails.CompactionPolicy)),
            *((name, model_context.__name__) for name in ("IsOverflow", "Summarise")),
        ):
            self.needed[name] = _origin((module, name))
        imports = sorted(
            (f"from {module} " if module else "") + f"import {name}" + (f" as {local}" if local != name else "")
            for local, (module, name) in self.needed.items()
        )
        names = ", ".join(f'"{name}"' for name in handles.__all__)
        head = ["# written by `python -m tests.support.async_types`", "import builtins", *imports]
        return "\n".join([*head, "", f"__all__ = [{names}]", _HEAD, *body, ""])

    def _form(self, sync: type, name: str) -> Iterator[str]:
        node = self.source.named(name)
        assert isinstance(node, ast.ClassDef)
        options: dict[str, list[str]] = {
            f"{each.arg}": ast.literal_eval(each.value).split() for each in node.keywords if each.arg != "of"
        }
        module = sync.__module__
        self._types(_Source(module), {}).visit(ast.Name(sync.__name__))
        yield f"class {name}(Twin[{sync.__name__}]):"
        own = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        yield from self._written(node)
        if name == "AsyncSession":
            yield _COMPACTION
        seen: set[str] = set()
        for kind in sync.__mro__:
            if not kind.__module__.startswith("trails.") or kind.__name__ == "Handle":
                continue
            source = _Source(kind.__module__)
            body = source.named(kind.__name__)
            assert isinstance(body, ast.ClassDef)
            members = [each for each in body.body if isinstance(each, ast.FunctionDef)]
            verbs = [found for each in body.body if (found := _verb(source, each)) is not None]
            overloaded = {each.name for each in members if "overload" in map(ast.unparse, each.decorator_list)}
            for each in members:
                is_meant = each.name in options.get("here", ()) or not each.name.startswith("_")
                is_meant &= each.name not in overloaded or bool(each.decorator_list)
                if is_meant and each.name not in own | seen | {*options.get("without", ())}:
                    yield from self._member(source, each, options)
            for home, verb in verbs:
                if verb.name not in own | seen:
                    yield from self._member(home, verb, options)
            seen |= {each.name for each in members} | {verb.name for _, verb in verbs}

    def _written(self, node: ast.ClassDef) -> Iterator[str]:
        """Give the members that a class of await forms writes out itself."""
        types = self._types(self.source, {})
        for each in node.body:
            match each:
                case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                    yield f"    @property\n    def {name}(self) -> {ast.unparse(types.visit(each.annotation))}: ..."
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=made)])):
                    yield from self._maker(name, made)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    if (name.startswith("__") or not name.startswith("_")) and name not in _WRITTEN_ABOVE:
                        is_async = isinstance(each, ast.AsyncFunctionDef)
                        yield from self._signature(self.source, each, is_async=is_async, given={}, returned={})

    def _maker(self, name: str, made: str) -> Iterator[str]:
        module = self.source.places[made][0]
        kind = getattr(importlib.import_module(module), made)
        source = _Source(kind.__module__)
        body = source.named(made)
        assert isinstance(body, ast.ClassDef)
        init = next(each for each in body.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
        init.name, init.args.args = name, [init.args.args[0], *init.args.args[2:]]
        init.returns = ast.Name(_FORMS[made])
        yield from self._signature(source, init, is_async=True, given=_GIVEN, returned=_FORMS)

    def _member(self, source: _Source, each: ast.FunctionDef, options: dict[str, list[str]]) -> Iterator[str]:
        decorators = [ast.unparse(name) for name in each.decorator_list]
        is_property = "property" in decorators
        is_setter = f"{each.name}.setter" in decorators
        at_once = (each.name in options.get("awaited" if is_property else "here", [])) is not is_property
        yield from (f"    @{name}" for name in decorators if name in ("overload", "property", f"{each.name}.setter"))
        yield from self._signature(source, each, is_async=not at_once and not is_setter, given=_GIVEN, returned=_FORMS)

    def _function(self, module: str, name: str, names: dict[str, str], gives: str | None = None) -> Iterator[str]:
        source = _Source(module)
        node = source.named(name)
        assert isinstance(node, ast.FunctionDef)
        if gives:
            node.returns = ast.Name(gives)
        for line in self._signature(source, node, is_async=gives is None, given=names, returned={}):
            yield line.strip()

    def _signature(
        self,
        source: _Source,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        *,
        is_async: bool,
        given: dict[str, str],
        returned: dict[str, str],
    ) -> Iterator[str]:
        """Give a function without its body: its types as they are in an event loop, no default values."""
        types = self._types(source, given)
        args = node.args
        for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if each is not None and each.annotation is not None:
                each.annotation = types.visit(each.annotation)
        args.defaults = [ast.Constant(...) for _ in args.defaults]
        args.kw_defaults = [each and ast.Constant(...) for each in args.kw_defaults]
        result = "None" if node.returns is None else ast.unparse(self._types(source, returned).visit(node.returns))
        if is_async and result in _ENTERED and not node.name.startswith("_"):  # `async with` takes the call itself
            result, is_async = f"Called[{result}]", False
        yield f"    {'async ' if is_async else ''}def {node.name}({ast.unparse(args)}) -> {result}: ..."

    def _types(self, source: _Source, names: dict[str, str]) -> _Types:
        return _Types(
            source, {**names, **({"list": "builtins.list"} if hasattr(builtins, "list") else {})}, self.needed
        )


def stub() -> str:
    """Return the text of the stub."""
    return _Writer().text()


if __name__ == "__main__":
    STUB.write_text(stub(), "utf-8")
    sys.stdout.write(f"wrote {STUB}\n")
