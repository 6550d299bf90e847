"""Encrypt what sessions say before it becomes quads, and decrypt it where it becomes turns again.

Each session of a store that is opened with keys has a key of its own, which the store never holds. What is encrypted: the
content of turns, arguments of tool calls, requests for summaries, metadata of turns, payloads and their names, system prompts.
Digests, the log, the rows, checkpoints, backups and dumps cover what is encrypted, so that `verify` needs no key.

What stays plain is what sessions are found and counted by: ids, labels, keys, names of people, agents, tools and models, roles,
times, indices, sizes, tokens and costs, and the reasons of deeds. `encryption_guard` refuses every commit that would write any
other text of an encrypted session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyoxigraph import NamedNode

from trails.errors import IntegrityError, InvalidInput, KeyMissing
from trails.history.turn_builder import Draft
from trails.history.turn_reader import TurnReader, TurnRun
from trails.integrity import key_ring
from trails.integrity.key_ring import META_KEY, PREFIX, Cipher, Keys
from trails.model import iris, validation
from trails.model.lineage import Segment
from trails.model.validation import stored_object
from trails.model.values import NO_FACTS, Facts, SessionRecord, SystemPrompt, Turn
from trails.rdf import query_guard
from trails.rdf import vocab as v
from trails.rdf.codec import subject_of
from trails.rows.turn_text import ENCRYPTED
from trails.store.contract import Matching, QuadStore
from trails.store.index.reading import EngineReader
from trails.store.postgres.thin import ThinStore

_META: Final = (f'{{"{META_KEY}":"', '"}')
_JSON: Final = ('"', '"')
_PLAIN: Final = ("", "")
AROUND_TEXTS: Final = (_PLAIN, _JSON, _META)
"""What stands around an encrypted text, so that it is of the kind that its property holds."""

Change = Callable[[str, str, tuple[str, str]], str]
"""Returns another text for a text, its place, and what stands around it when it is encrypted."""


NO_COPIES: Final = (
    "copies of its turns would need its key for as long as they are kept",
    "fork it, or export it and import that",
)
"""Why turns of an encrypted session are not copied, and what to do."""


class Encryption:
    """The keys of an open store, and the ciphers that were made of them."""

    def __init__(self, keys: Keys) -> None:
        """Take what keeps the keys."""
        if not isinstance(keys, Keys):
            raise InvalidInput(
                f"keys is the path of a folder, a trails.KeyRing or an object with get, create and destroy, not {keys!r:.80}"
            )
        self.keys: Final = keys
        self._ciphers: dict[str, Cipher] = {}
        self._lock = threading.Lock()

    def cipher(self, session_id: str) -> Cipher:
        """Return the cipher of a stored session; raise `KeyMissing` where there is no key."""
        cipher = self._ciphers.get(session_id)
        if cipher is None:
            key = self.keys.get(session_id)
            if key is None:
                raise no_key(session_id)
            cipher = self._keep(session_id, key)
        return cipher

    def cipher_of_new(self, session_id: str) -> Cipher:
        """Return the cipher of a session that is not stored yet; its key is durable by now."""
        return self._ciphers.get(session_id) or self._keep(session_id, self.keys.create(session_id))

    def _keep(self, session_id: str, key: bytes) -> Cipher:
        with self._lock:
            return self._ciphers.setdefault(session_id, Cipher(session_id, key))

    def destroy(self, session_id: str) -> None:
        """Destroy the key of a session that was deleted."""
        self.keys.destroy(session_id)
        with self._lock:
            self._ciphers.pop(session_id, None)


_OF_STORES: Final[WeakKeyDictionary[QuadStore, Encryption]] = WeakKeyDictionary()


def use_keys(store: QuadStore, keys: Keys | None) -> Encryption | None:
    """Encrypt the new sessions of an open store with keys; None leaves it as it is."""
    if keys is not None:
        _OF_STORES[store] = Encryption(keys)
    return _OF_STORES.get(store)


def encryption_of(store: QuadStore) -> Encryption | None:
    """Return the keys with which a store was opened, or None."""
    return _OF_STORES.get(store)


def no_key(session_id: str) -> KeyMissing:
    """Return the error for a session whose key is not there."""
    return KeyMissing(
        f"session {session_id!r} is encrypted, and its key is not there. If the session was deleted, its key was destroyed and "
        "its text is gone for good: delete the session here, too. If not, restore the key's file from a copy of the folder",
        session_id=session_id,
    )


def no_keys(session_id: str) -> KeyMissing:
    """Return the error for an encrypted session of a store that was opened without keys."""
    return KeyMissing(
        f"session {session_id!r} is encrypted, and the store was opened without keys: give the folder of keys "
        "(trails.open(path, keys=...), --keys DIR, or the environment's TRAILS_KEYS)",
        session_id=session_id,
    )


def is_encrypted(store: Matching, session_id: str) -> bool:
    """Tell whether the row of a stored session says that it is encrypted."""
    return bool(store.quads((NamedNode(iris.session(session_id)), v.ENCRYPTION, None, v.CATALOG)))


def encrypted_sessions(store: QuadStore) -> list[str]:
    """Return the ids of all encrypted sessions, in order; none of a store that is far away, which has none."""
    if not isinstance(store, EngineReader) or isinstance(store, ThinStore):
        return []
    return sorted(iris.session_id(subject_of(quad)) for quad in store.quads((None, v.ENCRYPTION, None, v.CATALOG)))


def refuse_encrypted(records: Iterable[SessionRecord], what: str, remedy: str) -> None:
    """Raise `InvalidInput` where one of some sessions is encrypted and something works on plain text alone."""
    hidden = next((each.id for each in records if each.encryption is not None), None)
    if hidden is not None:
        raise _refused(hidden, what, remedy)


def _refused(session_id: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"session {session_id!r} is encrypted, and {what}: {remedy}. Nothing was changed")


def refuse_any_encrypted(store: QuadStore, what: str, remedy: str) -> None:
    """Raise `InvalidInput` where a store has an encrypted session and something works on plain texts alone."""
    hidden = encrypted_sessions(store)
    if hidden:
        raise _refused(hidden[0], what, remedy)


def check_query(store: QuadStore, text: str, *, is_ours: bool = False) -> None:
    """Raise `InvalidInput` for a query that looks into texts, where a store has encrypted ones."""
    if encrypted_sessions(store):
        query_guard.check_encrypted(text, is_ours=is_ours)


# --- turns


def _changed_facts(facts: Facts, index: int, change: Change) -> Facts:
    """Return a turn's facts with other texts in the place of those that are encrypted."""
    if facts is NO_FACTS:
        return facts
    update: dict[str, Any] = {}
    if facts.meta_json is not None:
        update["meta_json"] = change(facts.meta_json, f"turn/{index}/meta", _META)
    if facts.tool_calls:
        update["tool_calls"] = tuple(
            call
            if call.arguments is None
            else call.model_copy(update={"arguments": change(call.arguments, f"turn/{index}/call/{number}", _JSON)})
            for number, call in enumerate(facts.tool_calls)
        )
    if facts.compaction is not None and facts.compaction.request is not None:
        request = change(facts.compaction.request, f"turn/{index}/request", _PLAIN)
        update["compaction"] = facts.compaction.model_copy(update={"request": request})
    if any(each.name is not None for each in facts.payloads):
        update["payloads"] = tuple(
            each
            if each.name is None
            else each.model_copy(update={"name": change(each.name, f"turn/{index}/payload/{number}", _PLAIN)})
            for number, each in enumerate(facts.payloads)
        )
    return facts.model_copy(update=update) if update else facts


def encrypted_draft(cipher: Cipher, draft: Draft, index: int) -> Draft:
    """Return a draft as it is stored at an index of a session: the same one each time."""

    def change(text: str, place: str, around: tuple[str, str]) -> str:
        return around[0] + cipher.encrypt(text, place, draft.salt) + around[1]

    if draft.facts.payloads and not draft.payloads:
        raise InvalidInput(
            f"a turn with payloads is not quoted in session {cipher.session_id!r}, which is encrypted: their bytes are kept with "
            "another key, or without one; append them as a new turn"
        )
    carried = tuple(each.model_copy(update={"data": cipher.encrypt_bytes(each.data)}) for each in draft.payloads)
    facts = _changed_facts(draft.facts, index, change)
    if carried:
        references = zip(facts.payloads, carried, strict=True)
        named = tuple(
            reference.model_copy(update={"digest": new.digest, "size": len(new.data)}) for reference, new in references
        )
        facts = facts.model_copy(update={"payloads": named})
    text = change(draft.text, _content_place(index), _JSON if draft.structured else _PLAIN)
    return draft._replace(text=text, facts=facts, payloads=carried)


def _content_place(index: int) -> str:
    return f"turn/{index}/content"


def shown_turn(plain: Turn, stored: Turn) -> Turn:
    """Return a new turn with its text as it was given, and the digest and the payloads under which it is stored."""
    facts = plain.facts
    if facts.payloads:
        pairs = zip(facts.payloads, stored.facts.payloads, strict=True)
        named = tuple(each.model_copy(update={"digest": kept.digest}) for each, kept in pairs)
        facts = facts.model_copy(update={"payloads": named})
    return plain.model_copy(update={"facts": facts, "digest": stored.digest})


def decrypted_turn(cipher: Cipher, turn: Turn) -> Turn:
    """Return a stored turn with its texts in plain."""

    def change(text: str, place: str, around: tuple[str, str]) -> str:
        return cipher.decrypt(_between(turn, text, around), place)

    facts = _changed_facts(turn.facts, turn.index, change)
    if facts.payloads:
        more = key_ring.overhead(turn.session_id)
        sized = tuple(each.model_copy(update={"size": each.size - more}) for each in facts.payloads)
        facts = facts.model_copy(update={"payloads": sized})
    text = turn.text
    if not turn.redacted:
        text = change(text, _content_place(turn.index), _JSON if turn.structured else _PLAIN)
    return Turn.trusted({**turn.__dict__, "text": text, "facts": facts})


def _between(turn: Turn, text: str, around: tuple[str, str]) -> str:
    before, after = around
    if not (text.startswith(before + PREFIX) and text.endswith(after)):
        raise IntegrityError(
            f"turn {turn.index} of session {turn.session_id!r} holds plain text, and the session is encrypted: the store was "
            "altered; `trails verify` names what; restore the session from a backup"
        )
    return text[len(before) : len(text) - len(after)]


class DecryptedRun:
    """Turns of one session that follow on one another, decrypted when they are touched."""

    __slots__ = ("_cipher", "_run", "start")

    def __init__(self, run: TurnRun, cipher: Cipher) -> None:
        self.start = run.start
        self._run = run
        self._cipher = cipher

    def __len__(self) -> int:
        return len(self._run)

    @property
    def is_dense(self) -> bool:
        """Whether there is one turn at each index from the first on."""
        return self._run.is_dense

    def below(self, count: int) -> DecryptedRun:
        """Return the first turns."""
        return DecryptedRun(self._run.below(count), self._cipher)

    def digest(self, at: int) -> str:
        """Return the digest of the turn at a place in the run."""
        return self._run.digest(at)

    def turns(self, first: int, last: int) -> list[Turn]:
        """Return the turns from one place in the run to another, exclusive."""
        return [decrypted_turn(self._cipher, turn) for turn in self._run.turns(first, last)]

    def said(self) -> Iterator[tuple[int, str, str, str, bool]]:
        """Yield index, role, branch, text and whether that is JSON, of each turn."""
        for turn in self.turns(0, len(self)):
            yield turn.index, turn.role, turn.branch, turn.text, turn.structured


class DecryptingTurns:
    """Reads the turns that sessions own, those of encrypted sessions in plain."""

    def __init__(self, stored: TurnReader, store: QuadStore) -> None:
        """`stored` reads turns as they are stored."""
        self._stored = stored
        self._store = store

    def run(self, run: Segment) -> TurnRun:
        """Return the turns that a session owns in a run of indices; raise `KeyMissing` without its key."""
        stored = self._stored.run(run)
        return stored if run.record.encryption is None else DecryptedRun(stored, self._cipher(run.record.id))

    def at(self, session_id: str, indices: Sequence[int]) -> list[Turn]:
        """Return the turns that a session owns at some indices, in order of index; raise `KeyMissing` without its key."""
        turns = self._stored.at(session_id, indices)
        if not any(looks_encrypted(turn) for turn in turns) or not is_encrypted(self._store, session_id):
            return turns
        cipher = self._cipher(session_id)
        return [decrypted_turn(cipher, turn) for turn in turns]

    def end(self, session_id: str, start: int) -> int:
        """Return the index after the last turn that a session owns from `start` on; `start` if there is none."""
        return self._stored.end(session_id, start)

    def digests(self, session_id: str, start: int, end: int | None) -> list[tuple[int, str]]:
        """Return index and digest of the turns that a session owns in a run of indices."""
        return self._stored.digests(session_id, start, end)

    def recorded(self, session_id: str) -> int:
        """Return how many turns the log says that a session's transcript has."""
        return self._stored.recorded(session_id)

    def _cipher(self, session_id: str) -> Cipher:
        return cipher_of(self._store, session_id)


def in_plain(store: QuadStore, records: Iterable[SessionRecord], turns: Sequence[Turn]) -> list[Turn]:
    """Return stored turns with those of the encrypted ones among some sessions in plain; raise `KeyMissing` without a key."""
    hidden = {record.id for record in records if record.encryption is not None}
    return [
        decrypted_turn(cipher_of(store, turn.session_id), turn) if turn.session_id in hidden else turn for turn in turns
    ]


def cipher_of(store: QuadStore, session_id: str) -> Cipher:
    """Return the cipher of an encrypted session that is stored; raise `KeyMissing` without its key."""
    encryption = encryption_of(store)
    if encryption is None:
        raise no_keys(session_id)
    return encryption.cipher(session_id)


def looks_encrypted(turn: Turn) -> bool:
    """Tell whether the content of a turn, or of what is redacted some of the rest, may be encrypted."""
    return turn.redacted or turn.text.removeprefix('"').startswith(PREFIX)


# --- metadata of sessions


def stored_record(cipher: Cipher, record: SessionRecord) -> SessionRecord:
    """Return the row of an encrypted session as it is stored, its metadata encrypted as one text: the same each time.

    What awaits a session that is imported later stays plain beside it: the id of that.
    """
    meta = dict(record.meta)
    awaited = {key: meta.pop(key) for key in (AWAITED_PARENT,) if key in meta}
    if not meta or META_KEY in meta:
        return record
    hidden = cipher.encrypt(validation.to_json(meta, "meta"), _ROW_PLACE, "")
    return record.model_copy(update={"meta_json": validation.meta({META_KEY: hidden, **awaited})})


def shown_record(store: QuadStore, record: SessionRecord) -> SessionRecord:
    """Return a stored row with its metadata in plain; without the key, a word stands for all of it."""
    hidden = record.meta.get(META_KEY) if record.encryption is not None else None
    if not isinstance(hidden, str):
        return record
    encryption = encryption_of(store)
    if encryption is None or encryption.keys.get(record.id) is None:
        meta: dict[str, Any] = {**record.meta, META_KEY: ENCRYPTED}
    else:
        plain = stored_object(encryption.cipher(record.id).decrypt(hidden, _ROW_PLACE))
        meta = {**{key: value for key, value in record.meta.items() if key != META_KEY}, **plain}
    return record.model_copy(update={"meta_json": validation.meta(meta)})


_ROW_PLACE: Final = "session/meta"
AWAITED_PARENT: Final = "spawnedBy"
"""The key of metadata that names the session which an imported one is to be linked to, once that is there."""


# --- system prompts and payloads


def encrypted_prompt(cipher: Cipher, prompt: SystemPrompt) -> SystemPrompt:
    """Return a version of a system prompt as it is stored: the same each time."""
    return prompt.model_copy(update={"text": cipher.encrypt(prompt.text, _prompt_place(prompt.version), prompt.salt)})


def decrypted_prompt(store: QuadStore, prompt: SystemPrompt) -> SystemPrompt:
    """Return a stored version of a system prompt in plain; raise `KeyMissing` without the key of its session."""
    if prompt.redacted or not prompt.text.startswith(PREFIX) or not is_encrypted(store, prompt.session_id):
        return prompt
    text = cipher_of(store, prompt.session_id).decrypt(prompt.text, _prompt_place(prompt.version))
    return prompt.model_copy(update={"text": text})


def _prompt_place(version: int) -> str:
    return f"prompt/{version}"


def decrypted_bytes(store: QuadStore, data: bytes) -> bytes:
    """Return the bytes of a stored payload in plain; raise `KeyMissing` without the key of the session that it names."""
    owner = key_ring.bytes_owner(data)
    if owner is None or not is_encrypted(store, owner):
        return data
    return cipher_of(store, owner).decrypt_bytes(data)
