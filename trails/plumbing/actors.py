"""Who does a thing: whoever is named for it, else the process's own actor, else nobody that is known.

Nobody is guessed at: whose data it is does not tell who changed it. What no caller asked for (a sweep, a tick) is done by
`KEEPER`, and its record names the rule.
"""

from __future__ import annotations

import os
from typing import Final

from trails import iris, validate
from trails.errors import InvalidInput

UNKNOWN: Final = iris.agent("unknown")
"""Who did what nobody is named for."""
KEEPER: Final = iris.agent("trails")
"""Who does what falls due by a rule, and nobody asked for just then."""
ENVIRONMENT: Final = "TRAILS_ACTOR"
"""The variable of the environment that names the process's own actor, where the program does not."""


def named(name: str | None, what: str = "author") -> str | None:
    """Return the IRI of somebody: a name is a principal's, `agent:NAME` an agent's, an IRI of ours is kept.

    A tool is no name of somebody: only as an author its IRI is taken.

    >>> named("eve"), named("agent:planner"), named("urn:trails:agent:planner"), named(None)
    ('urn:trails:principal:eve', 'urn:trails:agent:planner', 'urn:trails:agent:planner', None)
    """
    if name is None:
        return None
    plain = validate.name(name, what)
    if plain.startswith("urn:trails:"):
        if iris.is_tool(plain) and what == "author" and iris.is_of_author(plain):
            return plain
        author = validate.name(iris.author_name(plain), what)
        if plain not in (iris.principal(author), iris.agent(author)):
            raise InvalidInput(f"{what} {plain!r} is not the IRI of a principal or an agent")
        return plain
    if not plain.startswith("agent:"):
        return iris.principal(plain)
    return iris.agent(validate.name(plain.removeprefix("agent:"), what))


def of_process(given: str | None) -> str | None:
    """Return the IRI of the process's own actor: as given, else as `TRAILS_ACTOR` says, else None."""
    if given is not None:
        return named(given, "actor")
    return named(os.environ.get(ENVIRONMENT) or None, ENVIRONMENT)


def who(by: str | None, actor: str | None) -> str:
    """Return the IRI of who does something, given who is named for it and the IRI of the process's own actor."""
    return named(by, "by") or actor or UNKNOWN
