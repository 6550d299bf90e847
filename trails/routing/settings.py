"""What a configuration says of routing and policies, read once and validated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from trails.keys import KeySettings
from trails.keys.configuration import section, text
from trails.model import Value
from trails.policy import AgentToAgentPolicy, ResetConfig, SendPolicy
from trails.policy.times import zone_of


class RouterSettings(Value):
    """The configuration of a router, in the shape of OpenClaw's: `session`, `agents`, `bindings`, `tools`."""

    keys: KeySettings = KeySettings()
    reset: ResetConfig = ResetConfig()
    send: SendPolicy | None = None
    agent_to_agent: AgentToAgentPolicy = AgentToAgentPolicy()
    zone: str | tzinfo = "UTC"
    """Where the hour of a daily reset is told."""

    model_config = Value.model_config | {"arbitrary_types_allowed": True}

    @classmethod
    def from_json(
        cls, config: Mapping[str, Any] | None, *, zone: str | tzinfo | None = None, fold_case: bool = False
    ) -> RouterSettings:
        """Read a configuration; what is wrong in it raises `InvalidInput` with its path.

        The time zone is `zone`, else `agents.defaults.userTimezone`, else UTC.

        >>> RouterSettings.from_json({"session": {"dmScope": "per-peer"}}).keys.dm_scope
        'per-peer'
        """
        root = section(config, "configuration")
        session = section(root.get("session"), "session")
        defaults = section(section(root.get("agents"), "agents").get("defaults"), "agents.defaults")
        named = text(defaults.get("userTimezone"), "agents.defaults.userTimezone")
        place = zone or named or "UTC"
        zone_of(place)
        return cls(
            keys=KeySettings.from_json(root, fold_case=fold_case),
            reset=ResetConfig.from_json(session),
            send=SendPolicy.from_json(session.get("sendPolicy")),
            agent_to_agent=AgentToAgentPolicy.from_json(section(root.get("tools"), "tools").get("agentToAgent")),
            zone=place,
        )
