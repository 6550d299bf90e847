"""Where what is stored becomes values: whatever stands there, it is a value or an `IntegrityError`, and nothing else.

A store can hold what Trails never writes: its owner, another program or a failing disk can put it there.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar, cast

from trails.errors import IntegrityError, InvalidInput, TrailsError

STRANGE: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError)
"""What reading values raises that are not of the kind, the shape or the size that they should be of."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def strange(error: Exception) -> IntegrityError:
    """Return the error for what Trails never writes."""
    return IntegrityError(
        f"the store holds values that Trails never writes ({type(error).__name__}: {f'{error}'[:200]}): it was altered; "
        "`trails verify` names them; restore the session from an export or a backup"
    )


class InvalidFields(InvalidInput):
    """A value's fields are not as they must be. Where what is stored is read, that becomes an `IntegrityError`."""


def decodes(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function that reads what is stored raise `IntegrityError` where it is not what it should be.

    Errors of Trails pass as they are. A generator is watched as it goes on. Not for functions that call a caller's code.
    """
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def watched(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[Any]:
            try:
                yield from cast(Iterator[Any], function(*args, **kwargs))
            except InvalidFields as error:
                raise strange(error) from error
            except TrailsError:
                raise
            except STRANGE as error:
                raise strange(error) from error

        return cast(Callable[_P, _T], watched)

    @functools.wraps(function)
    def decoded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except InvalidFields as error:
            raise strange(error) from error
        except TrailsError:
            raise
        except STRANGE as error:
            raise strange(error) from error

    return decoded


@decodes
def json_value(text: str) -> Any:
    """Return the value of JSON text that is stored."""
    return json.loads(text)


@decodes
def json_object(text: str | None) -> dict[str, Any]:
    """Return the object that JSON text is that is stored; an empty one where there is none."""
    return {} if text is None else dict(json.loads(text))
