"""Calls of handles in an event loop, and stores that are being opened: what says so if `await` is forgotten."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from trails.errors import NoSuchName, WrongCall

_Result = TypeVar("_Result")


class Unawaited:
    """What stands for a result before `await`. Using it as the result is an error that says what to write."""

    __slots__ = ()

    def _remedy(self) -> str:
        raise NotImplementedError

    if not TYPE_CHECKING:  # type checkers say so themselves

        def __getattr__(self, name: str) -> NoReturn:
            """Say that the result has the attribute, not what stands for it."""
            if name.startswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise NoSuchName(f"{self._remedy()}; there is no {name!r} until then")

        def _refuse(self, *_: object) -> NoReturn:
            raise WrongCall(f"{self._remedy()}; there is no value until then")

        __bool__ = __len__ = __iter__ = __getitem__ = __enter__ = __exit__ = _refuse


class Called(Unawaited, Coroutine[Any, Any, _Result]):
    """A call: a coroutine. Where it gives a handle that has an end, such as a session, `async with` takes the call itself."""

    __slots__ = ("_coroutine", "_handle", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, _Result], name: str) -> None:
        """Not for callers: the methods of `trails.aio`'s handles make it."""
        self._coroutine, self._name = coroutine, name

    def __repr__(self) -> str:
        return f"<{self._name}, not awaited yet>"

    def _remedy(self) -> str:
        return f"{self._name} was not awaited: write `await` before it"

    def __await__(self) -> Generator[Any, Any, _Result]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        """Go on with the call, as with any coroutine."""
        return self._coroutine.send(value)

    def throw(self, *raised: Any) -> Any:
        """Raise an error in the call, as in any coroutine."""
        return self._coroutine.throw(*raised)

    def close(self) -> None:
        """Give the call up, as any coroutine."""
        self._coroutine.close()

    async def __aenter__(self) -> _Result:
        handle: Any = await self._coroutine
        if not hasattr(handle, "__aexit__"):
            raise WrongCall(
                f"{self._name} gives nothing that `async with` can end: write `await` before it, and no `async with`"
            )
        self._handle = handle
        entered: _Result = await handle.__aenter__()
        return entered

    async def __aexit__(self, *raised: object) -> Any:
        return await self._handle.__aexit__(*raised)
