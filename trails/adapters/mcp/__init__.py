"""Serve a store to models over the Model Context Protocol: `trails mcp`, or `make_server(store)` in a program.

The tools' limits are said in their descriptions. An answer that would be longer is cut at a whole item, and says how to
get the rest: no answer is shortened in silence.
"""

from trails.adapters.mcp.server import make_server, run_http, run_stdio

__all__ = ["make_server", "run_http", "run_stdio"]
