"""What stands in a checkpoint in the place of names and versions that a redaction took out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trails.adapters.langgraph.records import Entry
from trails.model.iris import UNNAMED

_FIRST_VERSION: Final = f"{0:032}.{0:016}"


def is_damaged(record: Mapping[str, Any]) -> bool:
    """Tell whether a redaction took the id of a checkpoint or its parent's out of a record."""
    return UNNAMED in (record.get("id"), record.get("parent"), record.get("newest"))


def mended(record: Mapping[str, Any], before: Entry | None) -> dict[str, Any]:
    """Return a record with ids that sort behind the checkpoint before it in its session."""
    made = {name: value for name, value in record.items() if name != "newest"}
    if made["id"] == UNNAMED:
        made["id"] = f"{before.id}~" if before else "0"
    if made["parent"] == UNNAMED:
        made["parent"] = before.id if before else None
    if before is not None and before.newest > made["id"]:
        made["newest"] = before.newest
    return made


def whole_header(said: Any) -> dict[str, Any]:
    """Return a checkpoint's header in which nothing is missing that LangGraph asks for."""
    header: dict[str, Any] = {"v": 4, "ts": "", "channel_versions": {}, "versions_seen": {}}
    header |= said if isinstance(said, dict) else {}
    for name in ("channel_versions", "versions_seen"):
        if not isinstance(header[name], dict):
            header[name] = {}
    if UNNAMED in header["channel_versions"].values():
        versions = header["channel_versions"].items()
        header["channel_versions"] = {name: _FIRST_VERSION if at == UNNAMED else at for name, at in versions}
    for node, seen in header["versions_seen"].items():
        if isinstance(seen, dict) and UNNAMED in seen.values():
            header["versions_seen"][node] = {name: at for name, at in seen.items() if at != UNNAMED}
    return header


def whole_metadata(said: Any) -> dict[str, Any]:
    """Return a checkpoint's metadata in which nothing is missing that LangGraph asks for."""
    metadata: dict[str, Any] = dict(said) if isinstance(said, dict) else {"step": UNNAMED}
    if metadata.get("step") == UNNAMED:
        metadata["step"] = 0
    return metadata
