"""Session keys: who a conversation is with, as one line of text. Pure functions."""

from trails.runtime.keys.key_resolution import *  # noqa: F403
from trails.runtime.keys.session_key import *  # noqa: F403
from trails.suggestions import check_functions

check_functions(globals())
