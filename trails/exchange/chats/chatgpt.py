"""Read ChatGPT's data export: `conversations.json`, or its zip.

A conversation is a tree of nodes. Every node with a message makes a turn, hidden and empty messages too; nodes without
one only connect others. Whoever edits a question or asks for another answer gives a node several children: these are
forks. The export names the node that the user saw last (`current_node`); the path to it is the main one.

Rules that are followed, and noted where they decide something: where `current_node` is missing or names no node, the last
child at every fork is on the main path; where it has children, the main path goes on along their last ones; a node follows
its `parent`, and where that is missing, the node that lists it among its `children`.

A text message with one part is plain text. Other messages keep their parts (`text`, `multimodal_text`), or their whole
`content` as the only part (`code`, `execution_output`, `tether_quote` and whatever else there is), as they stand.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trails import files
from trails.errors import InvalidInput
from trails.exchange import containers
from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import Json, as_list, as_object, as_text, value_at, without_keys
from trails.exchange.record_checks import Reading, each_file
from trails.exchange.source_transcript import Piece, SourceTurn, distinct_paths
from trails.exchange.source_values import epoch_time, leftover, short_hash, valid_name, without_empty

SOURCE: Final = "chatgpt"
ROLES: Final = frozenset({"user", "assistant", "system", "tool", "error"})

_MEMBER: Final = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_NODE: Final = re.compile(rb'[{,]\s*"(?:children|parent|author)"\s*:')
_SESSION_OWN: Final = frozenset({"id", "conversation_id", "title", "create_time", "mapping"})
_MESSAGE_OWN: Final = frozenset({"id", "author", "create_time", "content"})


def sniff(head: bytes) -> bool:
    """Tell whether a file holds ChatGPT's conversations, or may be their zip.

    >>> sniff(b'[{"title": "Plan", "mapping": {"n1": {"id": "n1", "children": []'), sniff(b'[{"title": "Plan"}]')
    (True, False)
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(containers.ZIP_SIGNATURE):
        return True
    first = outline_of_first(head)
    return "mapping" in first and first["mapping"] is None and bool(_NODE.search(begin))


def holds(names: Sequence[str]) -> bool:
    """Tell whether a zip with these members is an export of ChatGPT.

    >>> holds(["user.json", "conversations.json"]), holds(["header.json"])
    (True, False)
    """
    return any(_MEMBER.fullmatch(name) for name in names)


def _read_file(name: str, data: bytes, reading: Reading) -> None:
    if data.startswith(containers.ZIP_SIGNATURE):
        _read_zip(name, data, reading)
    else:
        _read_json(data, reading)
    if not reading.sessions and not reading.problems:
        reading.refuse(0, "holds no conversation", name)


parse: Final = each_file(_read_file)
"""Return what exports (name and bytes of each file or zip) say.

A conversation that cannot be read is a problem at its line; the others are read. Nothing that a file holds raises, except
`InvalidInput` for a zip that would unpack to more than `files.unpack_limit` allows.
"""


def _read_zip(name: str, data: bytes, reading: Reading) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            members = [each for each in opened.namelist() if _MEMBER.fullmatch(each)]
            others = len(opened.namelist()) - len(members)
            left = files.unpack_limit(len(data))
            for member in sorted(members):
                with opened.open(member) as packed:
                    unpacked = files.BoundedReader(packed, left).read()
                left -= len(unpacked)
                _read_json(unpacked, reading)
    except InvalidInput as error:
        raise InvalidInput(f"{name} is not read: {error}") from error
    except containers.ZIP_FAULTS as error:
        reading.refuse(0, f"is a zip that cannot be read: {error}", name)
        return
    if not members:
        reading.refuse(0, "is no export of ChatGPT: the zip holds no conversations.json", name)
    elif others:
        reading.notes.append(f"{others} other files of the zip (images, feedback, account data) were not read")


def _read_json(data: bytes, reading: Reading) -> None:
    for line, value in reading.values(data):
        _Conversation(line, value, reading).read()


@dataclass(slots=True)
class _Conversation:
    """One conversation of an export, on its way to a session."""

    line: int
    data: Json
    reading: Reading
    turns: dict[str, SourceTurn | None] = field(default_factory=dict)
    """What each usable node makes."""
    parents: dict[str, str | None] = field(default_factory=dict)
    odd: Counter[str] = field(default_factory=Counter)
    """What is noted once a conversation, with how often it was found."""
    name: str = ""

    def read(self) -> None:
        mapping = self.data.get("mapping")
        if not isinstance(mapping, dict):
            self.reading.refuse(self.line, "is no conversation: it has no mapping of nodes", self.data)
            return
        session_id = self._id(mapping)
        self.name = f"conversation {session_id!r}"
        self.parents = self._parents(mapping)
        self.turns = {node_id: self._turn(node_id, mapping[node_id]) for node_id in self.parents}
        paths = self._paths(mapping)
        self.reading.notes += [f"{self.name}: {count} message(s) {what}" for what, count in self.odd.items()]
        created, title = epoch_time(self.data.get("create_time")), as_text(self.data.get("title"))
        left = without_keys(self.data, *_SESSION_OWN)
        left |= {"create_time": self.data.get("create_time")} if created is None else {}
        self.reading.add_session(SOURCE, session_id, paths, left, self.line, title=title, created=created)

    def _id(self, mapping: Json) -> str:
        if named := as_text(self.data.get("conversation_id")) or as_text(self.data.get("id")):
            return named
        root = next((key for key, node in mapping.items() if isinstance(node, dict) and not node.get("parent")), None)
        made = short_hash([self.data.get("create_time"), root or next(iter(mapping), None)])
        self.reading.notes.append(
            f"the conversation in line {self.line} has no id; it is named {made!r} after its time and its first node"
        )
        return made

    # --- the tree

    def _parents(self, mapping: Json) -> dict[str, str | None]:
        """Return each usable node's parent; nodes in a circle are problems."""
        listed: dict[str, str] = {}
        for node_id, node in mapping.items():
            for child in _names(as_object(node).get("children")):
                listed.setdefault(child, node_id)
        parents: dict[str, str | None] = {}
        for node_id, node in mapping.items():
            if not isinstance(node, dict):
                self.reading.refuse(self.line, f"node {node_id!r} of {self.name} is no object", node)
                continue
            parent = node.get("parent")
            known = isinstance(parent, str) and isinstance(mapping.get(parent), dict)
            parents[node_id] = parent if known else listed.get(node_id)
            if parent is not None and not known:
                self.odd["follow a node that is not there, and stand where their parents' `children` put them"] += 1
        return self._without_circles(mapping, parents)

    def _without_circles(self, mapping: Json, parents: dict[str, str | None]) -> dict[str, str | None]:
        rooted: dict[str, bool] = {}
        for start in parents:
            walk: dict[str, None] = {}
            here: str | None = start
            while here is not None and here not in rooted and here not in walk:
                walk[here] = None
                here = parents[here]
            rooted |= dict.fromkeys(walk, here is None or rooted.get(here, False))
        for node_id, reaches in rooted.items():
            if not reaches:
                reason = f"node {node_id!r} of {self.name} has parents that run in a circle"
                self.reading.refuse(self.line, reason, mapping[node_id])
        return {node_id: parent for node_id, parent in parents.items() if rooted[node_id]}

    def _paths(self, mapping: Json) -> tuple[tuple[SourceTurn, ...], ...]:
        """Return the turns of every path to a leaf, the main one first."""
        children: dict[str | None, list[str]] = {}
        for node_id, parent in self.parents.items():
            children.setdefault(parent, []).append(node_id)
        for node_id in self.parents:  # in the order in which the node lists them, newer ones later
            order = {child: place for place, child in enumerate(_names(mapping[node_id].get("children")))}
            children.get(node_id, []).sort(key=lambda child: order.get(child, -1))
        leaves = [node_id for node_id in self.parents if node_id not in children]
        main = self._main(children, len(leaves))
        ends = [] if main is None else [main, *(leaf for leaf in leaves if leaf != main)]
        return distinct_paths([self._path(leaf) for leaf in ends]) if ends else ((),)

    def _main(self, children: Mapping[str | None, Sequence[str]], leaves: int) -> str | None:
        """Return the leaf of the main path; None if there is no node."""
        current = self.data.get("current_node")
        here = current if isinstance(current, str) and current in self.parents else None
        missing = here is None
        if here is None and None in children:
            here = children[None][-1]
        inner = here is not None and here in children
        while here is not None and here in children:
            here = children[here][-1]
        if missing and leaves > 1:
            what = "has no current_node" if current is None else f"has a current_node that is not there ({current!r})"
            self.reading.notes.append(f"{self.name} {what}; its main path takes the last child at every fork")
        elif inner and not missing:
            what = f"other nodes follow its current_node {current!r}; its main path goes on along the last ones"
            self.reading.notes.append(f"{self.name}: {what}")
        return here

    def _path(self, leaf: str) -> tuple[SourceTurn, ...]:
        path: list[SourceTurn | None] = []
        here: str | None = leaf
        while here is not None:
            path.append(self.turns[here])
            here = self.parents[here]
        return tuple(turn for turn in reversed(path) if turn is not None)

    # --- a message

    def _turn(self, node_id: str, node: Json) -> SourceTurn | None:
        message = node.get("message")
        where = f"node {node_id!r} of {self.name}"
        if not isinstance(message, dict):
            self.reading.count("no message")
            if message is not None:
                self.reading.refuse(self.line, f"{where} has a message that is no object", node)
            return None
        content = message.get("content")
        role, kind = as_object(message.get("author")).get("role"), as_object(content).get("content_type")
        self.reading.count(f"{role}/{kind}")
        if not isinstance(role, str) or not isinstance(content, dict):
            self.reading.refuse(self.line, f"{where} has a message without a role, or without content", node)
            return None
        turn = _message_turn(node_id, role, content, message)
        if not self.reading.keeps(turn, self.line, where, node):
            return None
        is_hidden = value_at(message, "metadata", "is_visually_hidden_from_conversation") is True
        remarks = {
            "are hidden in ChatGPT; they are kept, and marked in their metadata": is_hidden,
            "are empty; they are kept": turn.content in ("", []),
            f"have the role {turn.role!r}, which ChatGPT does not write; it is kept": turn.role not in ROLES,
            "have no time; their turns have none": turn.time is None,
        }
        self.odd.update(what for what, holds in remarks.items() if holds)
        return turn


def _names(value: object) -> tuple[str, ...]:
    return tuple(each for each in as_list(value) if isinstance(each, str))


def _message_turn(node_id: str, role: str, content: Json, message: Json) -> SourceTurn:
    left = without_keys(message, *_MESSAGE_OWN)
    if message.get("id") != node_id:
        left["id"] = message.get("id")
    left["author"] = leftover(message["author"], ("role",))
    made, kind = _content(content)
    time = epoch_time(message.get("create_time"))
    left |= ({} if kind is None else {"contentType": kind}) | (
        {} if time else {"create_time": message.get("create_time")}
    )
    metadata = message.get("metadata") if role == "assistant" else None
    is_notice = role == "assistant" and content.get("content_type") == "system_error"
    return SourceTurn(
        role="error" if is_notice else role,  # the program wrote it in the model's place
        pieces=(Piece(node_id, made),),
        time=time,
        model=valid_name(value_at(metadata, "model_slug")),
        stop_reason=valid_name(value_at(metadata, "finish_details", "type")),
        meta=without_empty(left),
    )


def _content(content: Json) -> tuple[str | tuple[Any, ...], str | None]:
    """Return a message's content, and its type unless that is clear."""
    kind, parts = content.get("content_type"), content.get("parts")
    if content.keys() == {"content_type", "parts"} and isinstance(kind, str) and isinstance(parts, list):
        if kind == "text" and len(parts) == 1 and isinstance(parts[0], str):
            return parts[0], None
        if kind in ("text", "multimodal_text") and all(isinstance(part, str | dict) for part in parts):
            return tuple(parts), None if kind == "text" else kind
    return (dict(content),), None
