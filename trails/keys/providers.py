"""Keys of the form `{provider}:{scope}:{identifier}`, and what they are among the agents' keys.

They stand in a published decision record and in no released system, whose keys begin with an agent; both say the same.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from trails.errors import InvalidInput
from trails.keys.building import DmScope, agent_main_key, build_peer_key
from trails.keys.ids import fold, normalize_main_key
from trails.keys.parsing import THREAD_MARKERS, parse_key
from trails.keys.script import lower, trim
from trails.model import Value

ProviderScope = Literal["dm", "group", "channel", "main"]
PROVIDER_SCOPES: Final[tuple[ProviderScope, ...]] = get_args(ProviderScope)
INTERNAL: Final = "internal"
_RESERVED: Final = frozenset(
    {"agent", "cron", "hook", "subagent", "acp", "node", "dm", "direct", "group", "channel", "global", "unknown"}
)


class ProviderKey(Value):
    """A network, a scope, and who or what in it; `str` of it is the key."""

    provider: str
    scope: ProviderScope
    identifier: str

    def __str__(self) -> str:
        """Return the key as text."""
        return f"{self.provider}:{self.scope}:{self.identifier}"


def provider_key(provider: str, scope: str, identifier: str, *, fold_case: bool = False) -> ProviderKey:
    """Return a key of a network's scope; an unknown scope or an empty part raises `InvalidInput`.

    >>> str(provider_key("WhatsApp", "dm", "+1234567890"))
    'whatsapp:dm:+1234567890'
    """
    where, who = lower(provider), fold(identifier, fold_case=fold_case)
    word = lower(scope)
    known = next((one for one in PROVIDER_SCOPES if one == ("dm" if word == "direct" else word)), None)
    if known is None:
        raise InvalidInput(f"{scope!r} is no scope of a session key; use one of {', '.join(PROVIDER_SCOPES)}")
    if not where or not who or ":" in where:
        raise InvalidInput(
            f"a session key needs a provider without colons and an identifier: {provider!r}, {identifier!r}"
        )
    if where in _RESERVED:
        raise InvalidInput(f"{where!r} begins another kind of session key, so that no provider can have this name")
    if (known == "main") != (where == INTERNAL):
        raise InvalidInput(f"the scope main is the provider internal's alone, and its only one: {where}:{known}:{who}")
    return ProviderKey(provider=where, scope=known, identifier=who)


def parse_provider_key(text: str, *, fold_case: bool = False) -> ProviderKey | None:
    """Return the parts of a key `{provider}:{scope}:{identifier}`, or None for a text of any other form.

    >>> parse_provider_key("telegram:group:123456")
    ProviderKey(provider='telegram', scope='group', identifier='123456')
    >>> parse_provider_key("agent:main:main") is None
    True
    """
    provider, _, rest = trim(text).partition(":")
    scope, _, identifier = rest.partition(":")
    if lower(provider) == "agent":
        return None
    try:
        return provider_key(provider, scope, identifier, fold_case=fold_case)
    except InvalidInput:
        return None


def provider_to_session_key(
    key: ProviderKey,
    *,
    agent_id: str | None = None,
    dm_scope: DmScope = "per-channel-peer",
    main_key: str | None = None,
) -> str:
    """Return the agent's key of what a provider's key names.

    `whatsapp:dm:X` names one sender on one network, so its key has the scope "per-channel-peer" unless told otherwise.

    >>> provider_to_session_key(provider_key("whatsapp", "dm", "+123"), agent_id="main")
    'agent:main:whatsapp:dm:+123'
    >>> provider_to_session_key(provider_key("internal", "main", "main"))
    'agent:main:main'
    """
    place = min((at for mark in THREAD_MARKERS if (at := key.identifier.find(mark)) > 0), default=len(key.identifier))
    if key.scope == "main":
        if lower(key.identifier[:place]) not in ("main", normalize_main_key(main_key)):
            raise InvalidInput(
                f"{key} names a main session of another name than main or {normalize_main_key(main_key)}"
            )
        return agent_main_key(agent_id, main_key) + key.identifier[place:]
    base = build_peer_key(
        agent_id=agent_id,
        channel=key.provider,
        peer_kind=key.scope,
        peer_id=key.identifier[:place],
        main_key=main_key,
        dm_scope=dm_scope,
    )
    return base + key.identifier[place:]


def session_to_provider_key(session_key: str, *, main_key: str | None = None) -> ProviderKey | None:
    """Return the provider's key of an agent's key; None where it says no network: a peer of all networks, a sub-agent, a job.

    Agent and account are left out, as such keys have no place for them.

    >>> str(session_to_provider_key("agent:main:discord:channel:987654"))
    'discord:channel:987654'
    >>> session_to_provider_key("agent:main:dm:alice") is None
    True
    """
    found, threads = parse_key(session_key, main_key=main_key), ""
    while found.parent is not None:
        threads = f":{found.thread_marker}:{found.thread_id}{threads}"
        found = parse_key(found.parent, main_key=main_key)
    if found.kind == "main":
        return ProviderKey(provider=INTERNAL, scope="main", identifier=f"main{threads}")
    if found.channel is None or found.id is None or found.kind not in PROVIDER_SCOPES:
        return None
    return ProviderKey(provider=lower(found.channel), scope=found.kind, identifier=found.id + threads)
