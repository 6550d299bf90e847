"""Who may do what, and when a conversation starts anew: pure rules over plain configuration."""

from trails.runtime.config_values import Moment as Moment
from trails.runtime.config_values import from_ms as from_ms
from trails.runtime.config_values import last_local_hour as last_local_hour
from trails.runtime.config_values import to_ms as to_ms
from trails.runtime.policy.reset_policy import *  # noqa: F403
from trails.runtime.policy.run_rules import *  # noqa: F403
from trails.runtime.policy.send_policy import *  # noqa: F403
from trails.runtime.policy.session_entry import *  # noqa: F403
from trails.runtime.policy.session_listing import *  # noqa: F403
from trails.runtime.policy.subagents import *  # noqa: F403
from trails.suggestions import check_functions

check_functions(globals())
