"""Sessions that fork without copying: the public handles."""

from trails.session.repository import Repository, opened
from trails.session.session import Session

__all__ = ["Repository", "Session", "opened"]
