"""The one place where IRIs are made and taken apart.

A session's IRI is also the IRI of the graph that holds its turns. Names are percent-encoded (RFC 3986), so any
accepted id has exactly one IRI and the other way round.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, unquote

from trails.errors import InvalidInput

_SESSION = "urn:trails:session:"
_PRINCIPAL = "urn:trails:principal:"
_AGENT = "urn:trails:agent:"
_TOOL = "urn:trails:tool:"
_META = "urn:trails:meta:"
_TAG = "urn:trails:tag:"
_REF_LOG = "urn:trails:ref:"
_NOTE = "urn:trails:note:"
_SCORE = "urn:trails:score:"
_CONVERSATION = "urn:trails:conversation:"
_ALIAS = "urn:trails:alias:"
_MOVE = "urn:trails:move:"
_FIELD = "urn:trails:entry:"
_FILE = "urn:trails:file:"
_PAYLOAD = "urn:trails:payload:"
_DOCUMENT = "urn:trails:prov:"
_REGISTER = "urn:trails:register:"
_REGISTERS = re.compile(rf"{_REGISTER}([0-9a-f]+(?:/closing)?)")
_DOCUMENTS = re.compile(rf"({_DOCUMENT}[0-9a-f]{{64}})(?:/|\Z)")
_PAYLOADS = re.compile(f"{_PAYLOAD}([0-9a-f]{{64}})")
_DOCUMENT_REMOVAL = re.compile(rf"({_DOCUMENT}[0-9a-f]{{64}})/deletion/[0-9a-f]+")
_TURN_DELETION = re.compile(rf"{_SESSION}[^/]+/[0-9]+-[0-9a-f]+/deletion(?:/[0-9]+)?")
_REDACTION = re.compile(rf"{_SESSION}[^/]+/redaction/[0-9a-f]+")
_REMOVAL = re.compile(rf"(?:{_TAG}|{_NOTE}|{_SCORE}|{_ALIAS})[^/]+/deletion/[0-9a-f]+")
_REF_MOVE = re.compile(rf"{_TAG}([^/]+)/move/([1-9][0-9]*)")
_ACT = re.compile(rf"{_SESSION}[^/]+/act/([0-9a-f]+)")
_IMPORT = re.compile(rf"{_SESSION}[^/]+/import(?:/([1-9][0-9]*))?")
_SIGNATURE = re.compile(rf"{_SESSION}[^/]+/signature/([0-9a-f]+)")
_RUN_REMOVAL = re.compile(rf"{_SESSION}[^/]+/run/[^/]+/deletion")
_RUN = re.compile(rf"{_SESSION}[^/]+/run/([^/]+)")
_ENTRY = re.compile(rf"{_SESSION}[^/]+/ledger/([1-9][0-9]*)")
UNNAMED = "redacted"
"""What stands for a name, a role or another short text that was taken out."""
STORE = "urn:trails:store"
"""The whole store, where something is said of that."""
_NAMED = (_PRINCIPAL, _AGENT, _TOOL, _META, _TAG, _CONVERSATION, _ALIAS, _FIELD)
_SAFE = "-._~:@+=,!*;$&()"


@lru_cache(maxsize=4096)  # every turn that is written asks several times for the same few
def _quoted(name: str) -> str:
    return quote(name, safe=_SAFE)


def session(session_id: str) -> str:
    """Return the IRI of a session, which is its graph's IRI too.

    >>> session("plan 1")
    'urn:trails:session:plan%201'
    """
    return _SESSION + _quoted(session_id)


def is_session(iri: str) -> bool:
    """Tell whether an IRI is a session's (and not a turn's or another thing's).

    >>> is_session("urn:trails:session:a"), is_session("urn:trails:session:a/0-00ff")
    (True, False)
    """
    return iri.startswith(_SESSION) and "/" not in iri and len(iri) > len(_SESSION)


def session_id(iri: str) -> str:
    """Return the id of the session that an IRI names or belongs to: the session itself, a turn of it, a call in a turn.

    >>> session_id("urn:trails:session:plan%201/3-00ff00ff00ff00ff/call/0")
    'plan 1'
    """
    if not iri.startswith(_SESSION):
        raise InvalidInput(f"{iri!r} is not the IRI of a Trails session; it would start with {_SESSION!r}")
    return unquote(iri[len(_SESSION) :].partition("/")[0])


def turn(session_iri: str, index: int, digest: str) -> str:
    """Return a turn's IRI: its session's, its index, and the first 16 hex digits of its digest.

    >>> turn("urn:trails:session:a", 3, "00112233445566778899")
    'urn:trails:session:a/3-0011223344556677'
    """
    return f"{session_iri}/{index}-{digest[:16]}"


def turn_of(part_iri: str) -> str:
    """Return the IRI of the turn that a call, result or model call belongs to (a turn's own IRI is returned as it is)."""
    session_part, _, rest = part_iri.partition("/")
    return f"{session_part}/{rest.partition('/')[0]}"


def turn_index(turn_iri: str) -> int:
    """Return the index written in a turn's IRI, or in that of a part of it."""
    number = turn_iri.partition("/")[2].partition("-")[0]
    if not number.isdecimal():
        raise InvalidInput(f"{turn_iri!r} is not the IRI of a turn")
    return int(number)


def model_call(turn_iri: str) -> str:
    """Return the IRI of the model call that generated a turn."""
    return f"{turn_iri}/model"


def compaction(turn_iri: str) -> str:
    """Return the IRI of the compaction that generated a summary turn."""
    return f"{turn_iri}/compaction"


def tool_call(turn_iri: str, position: int) -> str:
    """Return the IRI of a turn's tool call, by its position from 0."""
    return f"{turn_iri}/call/{position}"


def tool_result(turn_iri: str, position: int) -> str:
    """Return the IRI of a turn's tool result, by its position from 0."""
    return f"{turn_iri}/result/{position}"


def payload_reference(turn_iri: str, position: int) -> str:
    """Return the IRI of a turn's reference to a payload, by its position from 0."""
    return f"{turn_iri}/payload/{position}"


def payload(digest: str) -> str:
    """Return the IRI of a payload's bytes, by their SHA-256; it is that of their own graph too."""
    return f"{_PAYLOAD}{digest}"


def payload_digest(iri: str) -> str | None:
    """Return the SHA-256 that the IRI of a payload names; None for any other IRI.

    >>> payload_digest(payload("0f" * 32)) == "0f" * 32, payload_digest("urn:trails:session:a")
    (True, None)
    """
    found = _PAYLOADS.fullmatch(iri)
    return None if found is None else found[1]


def position(part_iri: str) -> int:
    """Return the position written at the end of a call's or result's IRI."""
    return int(part_iri.rpartition("/")[2])


def system_prompt(session_iri: str, version: int) -> str:
    """Return the IRI of one version of a session's system prompt, counted from 1."""
    return f"{session_iri}/system/{version}"


def is_system_prompt(iri: str) -> bool:
    """Tell whether an IRI names one version of a session's system prompt."""
    return iri.startswith(_SESSION) and iri.partition("/")[2].startswith("system/")


def deletion(session_iri: str) -> str:
    """Return the IRI of the activity that deleted a session."""
    return f"{session_iri}/deletion"


def turn_deletion(turn_iri: str, number: int = 1) -> str:
    """Return the IRI of the activity that took a turn's content out, or (from `number` 2 on) more of it later."""
    return f"{turn_iri}/deletion" if number == 1 else f"{turn_iri}/deletion/{number}"


def redaction(session_iri: str, token: str) -> str:
    """Return the IRI of the activity that took a text out of what is said of a session; `token` tells them apart."""
    return f"{session_iri}/redaction/{token}"


def is_redaction(iri: str) -> bool:
    """Tell whether an IRI names the activity that took a text out of what is said of a session.

    >>> is_redaction("urn:trails:session:a/redaction/00ff"), is_redaction("urn:trails:session:a/0-00ff/deletion")
    (True, False)
    """
    return _REDACTION.fullmatch(iri) is not None


def is_turn_deletion(iri: str) -> bool:
    """Tell whether an IRI names the activity that took a turn's content out (and not one that deleted a session).

    >>> is_turn_deletion("urn:trails:session:a/0-00ff/deletion"), is_turn_deletion("urn:trails:session:a/deletion")
    (True, False)
    """
    return _TURN_DELETION.fullmatch(iri) is not None


def act(session_iri: str, token: str) -> str:
    """Return the IRI of something that was done to a session; `token` tells it from the rest."""
    return f"{session_iri}/act/{token}"


def act_token(iri: str) -> str | None:
    """Return the token of the act that an IRI names, or None for an IRI of anything else.

    >>> act_token("urn:trails:session:a/act/00ff"), act_token("urn:trails:session:a/0-00ff")
    ('00ff', None)
    """
    found = _ACT.fullmatch(iri)
    return found[1] if found else None


def session_import(session_iri: str, number: int = 1) -> str:
    """Return the IRI of the activity that brought a session in from a file, or (from `number` 2 on) more of it later."""
    return f"{session_iri}/import" if number == 1 else f"{session_iri}/import/{number}"


def import_number(iri: str) -> int | None:
    """Return the number of the import that an IRI names, or None for an IRI of anything else.

    >>> import_number("urn:trails:session:a/import"), import_number("urn:trails:session:a/import/2")
    (1, 2)
    """
    found = _IMPORT.fullmatch(iri)
    return None if found is None else int(found[1] or 1)


def source_file(sha256: str) -> str:
    """Return the IRI of a file that was read: that of its bytes, whatever it was called.

    >>> source_file("00ff")
    'urn:trails:file:00ff'
    """
    return _FILE + sha256


def file_digest(iri: str) -> str | None:
    """Return the digest of the bytes of the file that an IRI names, or None for an IRI of anything else."""
    return iri.removeprefix(_FILE) if iri.startswith(_FILE) else None


def signature(session_iri: str, token: str) -> str:
    """Return the IRI of a principal's signature of a session's head; `token` tells it from the others."""
    return f"{session_iri}/signature/{token}"


def signature_token(iri: str) -> str | None:
    """Return the token of the signature that an IRI names, or None for an IRI of anything else.

    >>> signature_token("urn:trails:session:a/signature/00ff"), signature_token("urn:trails:session:a/act/00ff")
    ('00ff', None)
    """
    found = _SIGNATURE.fullmatch(iri)
    return found[1] if found else None


def tag(name: str) -> str:
    """Return the IRI of a tag.

    >>> tag("release/1")
    'urn:trails:tag:release%2F1'
    """
    return _TAG + _quoted(name)


def tag_name(iri: str) -> str | None:
    """Return the name of the tag that an IRI stands for, or None for an IRI of anything else."""
    return unquote(iri[len(_TAG) :]) if iri.startswith(_TAG) and "/" not in iri and len(iri) > len(_TAG) else None


def ref_log(ref_id: str) -> str:
    """Return the IRI under which the log tells of a ref, by the id that was made up for it: its name may be taken out.

    >>> ref_log("00ff00ff00ff00ff")
    'urn:trails:ref:00ff00ff00ff00ff'
    """
    return _REF_LOG + ref_id


def ref_move(name: str, number: int) -> str:
    """Return the IRI of a move of a ref, by the ref's name; the ref's own IRI is that of a tag with its name.

    >>> ref_move("main", 2)
    'urn:trails:tag:main/move/2'
    """
    return f"{tag(name)}/move/{number}"


def moved_ref(iri: str) -> tuple[str, int] | None:
    """Return the name of the ref and the number of the move that an IRI stands for, or None for an IRI of anything else.

    >>> moved_ref("urn:trails:tag:main/move/2"), moved_ref("urn:trails:tag:main")
    (('main', 2), None)
    """
    match = _REF_MOVE.fullmatch(iri)
    return None if match is None else (unquote(match[1]), int(match[2]))


def note(note_id: str) -> str:
    """Return the IRI of a note on a turn, by the note's id."""
    return _NOTE + _quoted(note_id)


def note_id(iri: str) -> str | None:
    """Return the id of the note that an IRI stands for, or None for an IRI of anything else."""
    return unquote(iri[len(_NOTE) :]) if iri.startswith(_NOTE) and "/" not in iri and len(iri) > len(_NOTE) else None


def score(score_id: str) -> str:
    """Return the IRI of a score, by its id."""
    return _SCORE + _quoted(score_id)


def score_id(iri: str) -> str | None:
    """Return the id of the score that an IRI stands for, or None for an IRI of anything else."""
    return unquote(iri[len(_SCORE) :]) if iri.startswith(_SCORE) and "/" not in iri and len(iri) > len(_SCORE) else None


def removal(named_iri: str, token: str) -> str:
    """Return the IRI of the activity that removed a tag, a note or a score; `token` tells removals of one name apart."""
    return f"{named_iri}/deletion/{token}"


def is_removal(iri: str) -> bool:
    """Tell whether an IRI names the activity that removed a tag, a note or a score.

    >>> is_removal("urn:trails:tag:v1/deletion/00ff"), is_removal("urn:trails:tag:v1")
    (True, False)
    """
    return _REMOVAL.fullmatch(iri) is not None


def ledger(session_iri: str) -> str:
    """Return the IRI of a session's ledger, which is the IRI of the graph that holds its entries too.

    >>> ledger("urn:trails:session:a")
    'urn:trails:session:a/ledger'
    """
    return f"{session_iri}/ledger"


def is_ledger(iri: str) -> bool:
    """Tell whether an IRI is a session's ledger's (and not that of an entry in it).

    >>> is_ledger("urn:trails:session:a/ledger"), is_ledger("urn:trails:session:a/ledger/1")
    (True, False)
    """
    return iri.endswith("/ledger") and is_session(iri.removesuffix("/ledger"))


def ledger_entry(session_iri: str, number: int) -> str:
    """Return the IRI of an entry of a session's ledger, by its number from 1."""
    return f"{session_iri}/ledger/{number}"


def entry_number(iri: str) -> int | None:
    """Return the number of the ledger's entry that an IRI names, or None for an IRI of anything else.

    >>> entry_number("urn:trails:session:a/ledger/12"), entry_number("urn:trails:session:a/0-00ff")
    (12, None)
    """
    found = _ENTRY.fullmatch(iri)
    return int(found[1]) if found else None


def main_slot(agent_name: str, channel: str) -> str:
    """Return the name of the place that only one session has at a time: the main one of an agent on a channel.

    >>> main_slot("planner", "chat/1")
    'main:planner/chat%2F1'
    """
    return f"main:{_quoted(agent_name)}/{_quoted(channel)}"


def child_slot(session_iri: str, number: int) -> str:
    """Return the name of a place for an active child of a session, counted from 0.

    >>> child_slot("urn:trails:session:a", 2)
    'urn:trails:session:a/slot/2'
    """
    return f"{session_iri}/slot/{number}"


def session_entry(session_iri: str) -> str:
    """Return the IRI of the graph that holds what a session's entry says: its overrides, counters, delivery.

    >>> session_entry("urn:trails:session:a")
    'urn:trails:session:a/entry'
    """
    return f"{session_iri}/entry"


def is_session_entry(iri: str) -> bool:
    """Tell whether an IRI is that of the graph of a session's entry."""
    return iri.endswith("/entry") and is_session(iri.removesuffix("/entry"))


def entry_field(name: str) -> str:
    """Return the property IRI of a field of a session's entry that Trails has no term for."""
    return _FIELD + quote(name, safe=_SAFE)


def entry_field_name(iri: str) -> str | None:
    """Return the field that such a property IRI stands for, or None for another property."""
    return unquote(iri[len(_FIELD) :]) if iri.startswith(_FIELD) else None


def conversation(key: str) -> str:
    """Return the IRI of the conversation that a session key names.

    >>> conversation("agent:main:telegram:dm:user 1")
    'urn:trails:conversation:agent:main:telegram:dm:user%201'
    """
    return _CONVERSATION + _quoted(key)


def conversation_key(iri: str) -> str | None:
    """Return the key of the conversation that an IRI names, or None for an IRI of anything else."""
    return unquote(iri[len(_CONVERSATION) :]) if iri.startswith(_CONVERSATION) and "/" not in iri else None


def alias(key: str) -> str:
    """Return the IRI of an alias: another key under which a conversation is found."""
    return _ALIAS + _quoted(key)


def alias_key(iri: str) -> str | None:
    """Return the key that is the alias that an IRI names, or None for an IRI of anything else."""
    return unquote(iri[len(_ALIAS) :]) if iri.startswith(_ALIAS) and "/" not in iri else None


def move(operation: str, number: int) -> str:
    """Return the IRI of the move of a session from one key to another, by the operation's id and its number in that."""
    return f"{_MOVE}{_quoted(operation)}/{number}"


def move_place(iri: str) -> tuple[str, int] | None:
    """Return the operation and the number of the move that an IRI names, or None for an IRI of anything else.

    >>> move_place("urn:trails:move:00ff/2"), move_place("urn:trails:session:a")
    (('00ff', 2), None)
    """
    operation, slash, number = iri[len(_MOVE) :].partition("/")
    if not iri.startswith(_MOVE) or not slash or not number.isdecimal():
        return None
    return unquote(operation), int(number)


def run(session_iri: str, run_id: str) -> str:
    """Return the IRI of a run of a sub-agent, by the run's id and the session that it runs in.

    >>> run("urn:trails:session:a", "r/1")
    'urn:trails:session:a/run/r%2F1'
    """
    return f"{session_iri}/run/{_quoted(run_id)}"


def run_id(iri: str) -> str | None:
    """Return the id of the run that an IRI names, or None for an IRI of anything else."""
    found = _RUN.fullmatch(iri)
    return unquote(found[1]) if found else None


def run_removal(run_iri: str) -> str:
    """Return the IRI of the activity that took a run out of the registry."""
    return f"{run_iri}/deletion"


def removed_run(iri: str) -> str | None:
    """Return the IRI of the run that such an activity took out, or None for an IRI of anything else.

    >>> removed_run("urn:trails:session:a/run/r/deletion")
    'urn:trails:session:a/run/r'
    """
    return iri.removesuffix("/deletion") if _RUN_REMOVAL.fullmatch(iri) else None


def document(sha256: str) -> str:
    """Return the IRI of a PROV document that was brought in, by the SHA-256 of its file; it is that of its own graph too."""
    return _DOCUMENT + sha256


def document_file(document_iri: str) -> str:
    """Return the IRI of the graph that keeps the file of a PROV document as it came."""
    return f"{document_iri}/file"


def document_bundle(document_iri: str, name: str) -> str:
    """Return the IRI of the graph of a PROV document's bundle, by the bundle's own name."""
    return f"{document_iri}/bundle/{quote(name, safe='')}"


def document_name(document_iri: str, iri: str) -> str:
    """Return what stands in a PROV document's graphs for a name that is Trails' own: what the document means by it.

    >>> document_name("urn:trails:prov:00ff", "urn:trails:session:a")
    'urn:trails:prov:00ff/as/urn%3Atrails%3Asession%3Aa'
    """
    return f"{document_iri}/as/{quote(iri, safe='')}"


def document_node(document_iri: str, name: str) -> str:
    """Return what stands in a PROV document's graphs for one of its blank nodes."""
    return f"{document_iri}/node/{quote(name, safe='')}"


def document_of_graph(iri: str) -> str | None:
    """Return the IRI of the PROV document that a graph, or anything that is named under it, belongs to; else None.

    >>> document_of_graph("urn:trails:prov:" + "0f" * 32 + "/file") == "urn:trails:prov:" + "0f" * 32
    True
    >>> document_of_graph("urn:trails:session:a")
    """
    found = _DOCUMENTS.match(iri)
    return None if found is None else found[1]


def document_removal(document_iri: str, token: str) -> str:
    """Return the IRI of the activity that took a PROV document out; `token` tells it from others of the same file."""
    return f"{document_iri}/deletion/{token}"


def removed_document(iri: str) -> str | None:
    """Return the IRI of the PROV document that such an activity took out, or None for an IRI of anything else."""
    found = _DOCUMENT_REMOVAL.fullmatch(iri)
    return None if found is None else found[1]


def register_entry(token: str) -> str:
    """Return the IRI of an entry of a register; `token` tells it from all others.

    >>> register_entry("00ff")
    'urn:trails:register:00ff'
    """
    return _REGISTER + token


def register_token(iri: str) -> str | None:
    """Return the token of the entry of a register that an IRI stands for, or None for an IRI of anything else.

    >>> register_token("urn:trails:register:00ff/closing"), register_token("urn:trails:tag:00ff")
    ('00ff/closing', None)
    """
    found = _REGISTERS.fullmatch(iri)
    return None if found is None else found[1]


def kind_of_name(iri: str) -> str | None:
    """Return how an IRI begins that holds a name which somebody chose, up to the name; None for any other.

    Those of sessions are none: their ids stay in the log for ever.

    >>> kind_of_name("urn:trails:tag:release/deletion/00ff"), kind_of_name("urn:trails:session:a")
    ('urn:trails:tag:', None)
    """
    return next((kind for kind in _NAMED if iri.startswith(kind)), None)


def principal(name: str) -> str:
    """Return the IRI of a principal (a person or an organisation that sessions run for)."""
    return _PRINCIPAL + _quoted(name)


def agent(name: str) -> str:
    """Return the IRI of a software agent."""
    return _AGENT + _quoted(name)


@lru_cache(maxsize=4096)
def tool(name: str, server: str | None = None, version: str | None = None) -> str:
    """Return the IRI of a tool: its name, then its server and its version where they are known.

    >>> tool("ls"), tool("read file", "files", "1.2"), tool("ls", version="2")
    ('urn:trails:tool:ls', 'urn:trails:tool:read%20file/files/1.2', 'urn:trails:tool:ls//2')
    """
    return (_TOOL + "/".join(map(_quoted, (name, server or "", version or "")))).rstrip("/")


def is_tool(iri: str) -> bool:
    """Tell whether an IRI names a tool."""
    return iri.startswith(_TOOL)


def tool_parts(iri: str) -> tuple[str, str | None, str | None]:
    """Return the name, server and version in a tool's IRI.

    >>> tool_parts("urn:trails:tool:read%20file//1.2")
    ('read file', None, '1.2')
    """
    if not iri.startswith(_TOOL):
        raise InvalidInput(f"{iri!r} is not the IRI of a tool; it would start with {_TOOL!r}")
    name, server, version, *more = [*iri[len(_TOOL) :].split("/"), "", ""]
    if any(more):
        raise InvalidInput(f"{iri!r} is not the IRI of a tool: it has more than a name, a server and a version")
    return unquote(name), unquote(server) or None, unquote(version) or None


def is_agent(iri: str) -> bool:
    """Tell whether an IRI names a software agent."""
    return iri.startswith(_AGENT)


def is_author(iri: str) -> bool:
    """Tell whether an IRI names a principal, a software agent or a tool."""
    return iri.startswith((_AGENT, _PRINCIPAL, _TOOL))


@lru_cache(maxsize=4096)
def is_of_author(iri: str) -> bool:
    """Tell whether an IRI is the one under which a principal, an agent or a tool is written, and no other that means it.

    >>> is_of_author("urn:trails:principal:alice"), is_of_author("urn:trails:principal:al%69ce"), is_of_author("principal:alice")
    (True, False, False)
    """
    if iri.startswith(_TOOL):
        parts = iri[len(_TOOL) :].split("/")
        return len(parts) <= 3 and bool(parts[0]) and iri == tool(*map(unquote, parts))
    return any(
        iri.startswith(prefix) and iri == prefix + _quoted(unquote(iri[len(prefix) :]))
        for prefix in (_PRINCIPAL, _AGENT)
    )


def unnamed(author_iri: str) -> str:
    """Return the IRI that stands in the place of a principal's, an agent's or a tool's once the name was taken out.

    >>> unnamed("urn:trails:principal:eve"), unnamed("urn:trails:agent:planner")
    ('urn:trails:principal:redacted', 'urn:trails:agent:redacted')
    """
    if is_tool(author_iri):
        return tool(UNNAMED)
    return agent(UNNAMED) if is_agent(author_iri) else principal(UNNAMED)


def is_unnamed(author_iri: str) -> bool:
    """Tell whether an IRI stands in the place of a name that was taken out."""
    return author_iri in (agent(UNNAMED), principal(UNNAMED), tool(UNNAMED))


def author_name(iri: str) -> str:
    """Return the plain name of a principal, agent or tool; another IRI is returned as it is.

    >>> author_name("urn:trails:agent:planner")
    'planner'
    """
    for prefix in (_PRINCIPAL, _AGENT):
        if iri.startswith(prefix):
            return unquote(iri[len(prefix) :])
    return unquote(iri[len(_TOOL) :].partition("/")[0]) if iri.startswith(_TOOL) else iri


def author_words(iri: str) -> tuple[str, ...]:
    """Return the names in the IRI of a principal, an agent or a tool: a tool's server and version are some too.

    >>> author_words("urn:trails:tool:ls/files"), author_words("urn:trails:principal:alice")
    (('ls', 'files'), ('alice',))
    """
    return tuple(filter(None, tool_parts(iri))) if is_tool(iri) else (author_name(iri),)


@lru_cache(maxsize=4096)
def author_key(iri: str) -> str:
    """Return what a digest covers of an author: its kind and name, not its IRI; a tool's parts stay encoded, to tell them apart.

    >>> author_key("urn:trails:principal:al%20ice"), author_key("urn:trails:tool:a%2Fb/files")
    ('principal:al ice', 'tool:a%2Fb/files')
    """
    plain = iri.removeprefix("urn:trails:")
    return plain if iri.startswith(_TOOL) else unquote(plain)


def meta(key: str) -> str:
    """Return the property IRI of a key of a session's metadata."""
    return _META + quote(key, safe=_SAFE)


def meta_key(iri: str) -> str | None:
    """Return the metadata key that a property IRI stands for, or None for another property."""
    return unquote(iri[len(_META) :]) if iri.startswith(_META) else None
