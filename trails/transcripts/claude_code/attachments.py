"""What Claude Code adds to a conversation: prompts that were typed while it worked, and texts that only the model is shown.

An `attachment` record has an object with a type of its own. Newer versions write beside it what the model was shown
(`rendered`); for the others the texts of the object stand here as they are. Read off files of versions 2.1.77 to 2.1.293.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

SYSTEM_PROMPT: Final = "prompt_snapshot"
_COMMAND: Final = "local_command"
_DATA: Final = "base64"
"""The field of a mentioned image or document that holds its bytes."""
_QUEUED: Final = "queued_command"
_TYPED: Final = (None, "prompt")  # no sets: what stands there may be anything
_HUMAN: Final = (None, "human")
_NOT_SHOWN: Final = (
    SYSTEM_PROMPT,
    "command_permissions",
    "hook_cancelled",
    "hook_error_during_execution",
    "hook_non_blocking_error",
    "hook_permission_decision",
    "hook_system_message",
)
"""Types that are for the user or the program: no model is shown them."""
_HOOKS_THAT_SHOW: Final = ("SessionStart", "SubagentStart", "UserPromptExpansion", "UserPromptSubmit")
"""The events whose hooks' output the model is shown."""
_NO_TEXTS: Final = frozenset(
    {
        "type",
        "hookName",
        "hookEvent",
        "toolUseID",
        "command",
        "stdout",
        "stderr",
        "filename",
        "filePath",
        "path",
        "displayPath",
        "planFilePath",
        "id",
        "uuid",
        "source_uuid",
        "timestamp",
        "status",
        "commandMode",
        "media_type",
        "data",
    }
)
"""Fields that say what an attachment is; the texts of all others are shown."""
_PATHS: Final = ("path", "filename", "filePath", "planFilePath")


def of(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the attachment of a record; None where it is no record of one.

    What a command of the program printed (`local_command`) is one too: of all system records the model is shown this one.

    >>> of({"type": "system", "subtype": "local_command", "content": "Set model to m-2"})
    {'type': 'local_command', 'content': 'Set model to m-2'}
    """
    if is_local_command(raw):
        return {"type": _COMMAND, "content": raw.get("content")}
    found = raw.get("attachment") if raw.get("type") == "attachment" else None
    return found if isinstance(found, dict) else None


def is_local_command(raw: Mapping[str, Any]) -> bool:
    """Tell whether a record is a command that the program ran itself, or what it printed."""
    return raw.get("type") == "system" and raw.get("subtype") == _COMMAND


def typed(attachment: Mapping[str, Any]) -> str | list[Any] | None:
    """Return the prompt that a user typed while the model worked, a text or parts; None for any other attachment.

    >>> typed({"type": "queued_command", "prompt": "and the tests", "commandMode": "prompt"})
    'and the tests'
    """
    if attachment.get("type") != _QUEUED or attachment.get("commandMode") not in _TYPED:
        return None
    origin = attachment.get("origin")
    if isinstance(origin, dict) and origin.get("kind") not in _HUMAN:
        return None
    prompt = attachment.get("prompt")
    return prompt if isinstance(prompt, str | list) and prompt else None


def shown(raw: Mapping[str, Any], attachment: Mapping[str, Any]) -> list[Any]:
    """Return what the model was shown of an attachment, as parts that name its type and its path; empty for nothing.

    >>> shown({}, {"type": "nested_memory", "path": "/p/CLAUDE.md", "content": {"content": "Be brief."}})
    [{'type': 'text', 'text': 'Be brief.', 'attachment': 'nested_memory', 'path': '/p/CLAUDE.md'}]
    """
    kind = attachment.get("type")
    if isinstance(raw.get("rendered"), list):
        texts = [text for each in raw["rendered"] for text in _texts(each)]
    elif kind in _NOT_SHOWN or (kind == "hook_success" and attachment.get("hookEvent") not in _HOOKS_THAT_SHOW):
        return []
    else:
        texts = list(_texts(attachment))
    path = next((attachment[name] for name in _PATHS if isinstance(attachment.get(name), str)), None)
    about = {"attachment": str(kind)[:100]} | ({"path": path} if path else {})
    return [*({"type": "text", "text": text} | about for text in texts if text.strip()), *_pictures(attachment, about)]


def rest(raw: Mapping[str, Any], attachment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record of an attachment says beyond what its turn says, for the turn's metadata."""
    said = typed(attachment)
    if said is not None:
        left: Any = {key: value for key, value in attachment.items() if key != "prompt"}
    else:
        parts = shown(raw, attachment)
        texts = [part["source"]["data"] if part["type"] == "image" else part["text"] for part in parts]
        left = _without(attachment, "\0".join(texts))
    kept = {"attachment": left} if left else {}
    if said is not None and raw.get("rendered"):
        kept["rendered"] = raw["rendered"]
    return kept


def _pictures(attachment: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the image of a file that a user mentioned."""
    content = attachment.get("content")
    file = content.get("file") if isinstance(content, dict) and content.get("type") == "image" else None
    if isinstance(file, dict) and isinstance(file.get(_DATA), str):
        source = {"type": "base64", "media_type": str(file.get("type") or "image/png"), "data": file[_DATA]}
        yield {"type": "image", "source": source, **about}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in _NO_TEXTS and key != _DATA:
                yield from _texts(each)


def _without(value: Any, texts: str) -> Any:
    """Return a value without the texts that stand in others: what is empty then is left out."""
    if isinstance(value, str):
        return "" if len(value) > 1 and value in texts else value
    if isinstance(value, list):
        return [kept for each in value if (kept := _without(each, texts)) not in ("", [], {})]
    if isinstance(value, dict):
        pairs = ((key, each if key in _NO_TEXTS else _without(each, texts)) for key, each in value.items())
        return {key: each for key, each in pairs if each not in ("", [], {}, None)}
    return value
