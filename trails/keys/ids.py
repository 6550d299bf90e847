"""Agent ids, account ids and main keys, brought to the one form in which they stand in session keys."""

from __future__ import annotations

import re
from typing import Final

from trails.keys.script import lower, trim

DEFAULT_AGENT: Final = "main"
DEFAULT_ACCOUNT: Final = "default"
DEFAULT_MAIN_KEY: Final = "main"
MAX_ID: Final = 64

_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FOREIGN: Final = re.compile(r"[^a-z0-9_-]+")


def normalize_agent_id(value: str | None) -> str:
    """Return an agent's id as it stands in keys: lower case, safe in paths, at most 64 characters.

    A well-formed id is put in lower case. In any other, each run of foreign characters becomes a dash, and dashes at its
    ends go; what is then empty is "main".

    >>> normalize_agent_id(" OPS "), normalize_agent_id("a b"), normalize_agent_id("../../etc/passwd"), normalize_agent_id(None)
    ('ops', 'a-b', 'etc-passwd', 'main')
    """
    return _normalize(value, DEFAULT_AGENT)


def normalize_account_id(value: str | None) -> str:
    """Return an account's id as it stands in keys; it is "default" where nothing is left of it.

    >>> normalize_account_id("--Work--"), normalize_account_id("")
    ('work', 'default')
    """
    return _normalize(value, DEFAULT_ACCOUNT)


def _normalize(value: str | None, default: str) -> str:
    name = trim(value)
    if _WELL_FORMED.fullmatch(name):
        return name.lower()
    return _FOREIGN.sub("-", name.lower()).strip("-")[:MAX_ID] or default


def normalize_main_key(value: str | None) -> str:
    """Return the name of the main session, trimmed and in lower case; it is "main" where none is given.

    >>> normalize_main_key(" Work "), normalize_main_key(None)
    ('work', 'main')
    """
    return lower(value) or DEFAULT_MAIN_KEY


def fold(value: str | None, *, fold_case: bool) -> str:
    """Return an opaque id (a peer, a group, a thread) trimmed, and in lower case where `fold_case` asks for it.

    Ids of some networks differ in case alone, so that folding them puts two people into one session. Trails folds only
    when told to.

    >>> fold(" AbC ", fold_case=False), fold(" AbC ", fold_case=True)
    ('AbC', 'abc')
    """
    return lower(value) if fold_case else trim(value)
