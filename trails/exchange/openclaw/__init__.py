"""Import and export state folders of OpenClaw and session files of pi, which OpenClaw writes.

OpenClaw's state folder: read whole, and written.

The pi coding agent's session files: read, shown as pi would, and written.
"""

from __future__ import annotations
