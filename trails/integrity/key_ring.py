"""Keys of sessions, outside the store, and what is encrypted with them.

Each session has a random key of 256 bits. A `KeyRing` keeps them in a folder, one file each; whatever else has its three methods
(`Keys`) can stand in its place, such as a client of a key management service.

A text is encrypted with AES-256-GCM (NIST SP 800-38D). What it is bound to (the session, and the place of the text in it) is
authenticated with it, so that a text that was moved elsewhere is refused. The nonce is the first 96 bits of an HMAC-SHA256, under
a key of its own, over the text, its place and a salt that the turn has drawn: equal texts are encrypted differently, and a turn
that is written again after a lost answer is the same turn. The package `cryptography` is imported only when there is something to
encrypt or decrypt.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from trails import files
from trails.errors import InvalidInput, KeyMissing, StoreFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ALGORITHM: Final = "AES-256-GCM"
"""What sessions are encrypted with, as their rows say."""
PREFIX: Final = "trails-encrypted:1:"
"""What an encrypted text begins with."""
BYTES_PREFIX: Final = b"trails-encrypted:1"
"""What encrypted bytes begin with: a multiple of three bytes, so that Base64 of it is the beginning of Base64 of all."""
META_KEY: Final = "trails-encrypted"
"""The key of metadata under which all of it stands, once it is encrypted."""
KEY_SIZE: Final = 32
"""Bytes of a key."""
_NONCE: Final = 12
_TAG: Final = 16
_HEADING: Final = "trails session key 1"


@runtime_checkable
class Keys(Protocol):
    """Where the keys of sessions are kept. Each key is 32 bytes."""

    def get(self, session_id: str) -> bytes | None:
        """Return a session's key, or None where there is none."""
        ...

    def create(self, session_id: str) -> bytes:
        """Return the key of a new session, durable by now; that which is there, where one is."""
        ...

    def destroy(self, session_id: str) -> None:
        """Destroy a session's key for good; do nothing where there is none."""
        ...


class KeyRing:
    """The keys of sessions in a folder of their own, a file for each, readable for its owner alone.

    >>> import tempfile, trails
    >>> ring = trails.KeyRing(tempfile.mkdtemp())
    >>> key = ring.create("plan")
    >>> len(key), ring.get("plan") == key, ring.create("plan") == key
    (32, True, True)
    >>> ring.destroy("plan")
    >>> ring.get("plan") is None
    True
    """

    __slots__ = ("folder",)

    def __init__(self, folder: str | os.PathLike[str], *, create: bool = False) -> None:
        """Take a folder, which nobody else may read; it is made only with `create`.

        Raises `InvalidInput` where there is no such folder, or others may read it.
        """
        place = Path(os.path.abspath(files.as_path(folder, "the folder of keys").expanduser()))  # noqa: PTH100 - links stay
        self.folder: Final = place
        """Where the keys are."""
        with files.in_words(place, "used for keys"):
            if create:
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not place.is_dir():
                raise InvalidInput(
                    f"there is no folder of keys {place}; check the path, or make it: mkdir -m 700 {place}"
                )
            if place.stat().st_mode & 0o077:
                raise InvalidInput(f"others may read the folder of keys {place}: chmod 700 {place}")

    def __repr__(self) -> str:
        return f"<KeyRing {self.folder}>"

    def get(self, session_id: str) -> bytes | None:
        """Return a session's key, or None where there is none; raise `StoreFailed` for a file that holds none."""
        path = self._path(session_id)
        try:
            text = files.read_plain(path).decode("ascii", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFailed(f"the key of session {session_id!r}, {path}, cannot be read: {error}") from error
        lines = text.split("\n")
        with suppress(ValueError, IndexError):
            key = bytes.fromhex(lines[2])
            if lines[0] == _HEADING and json.loads(lines[1]) == session_id and len(key) == KEY_SIZE:
                return key
        raise StoreFailed(f"{path} is not the key of session {session_id!r}: restore the file from a copy of the keys")

    def create(self, session_id: str) -> bytes:
        """Return the key of a new session, on disk by now; that which is there, where one is.

        The file has its name only once it is whole: a process that is killed leaves a key or none.
        """
        path, key = self._path(session_id), secrets.token_bytes(KEY_SIZE)
        part = path.with_name(f".{path.stem}-{secrets.token_hex(8)}.part")
        with files.in_words(self.folder, "written to"):
            files.write_new(part, f"{_HEADING}\n{json.dumps(session_id)}\n{key.hex()}\n".encode())
            try:
                os.link(part, path)
            except FileExistsError:  # another process, or this one before its commit, was quicker
                kept = self.get(session_id)
                if kept is None:
                    raise StoreFailed(
                        f"the key of session {session_id!r} was destroyed while it was made; nothing was written, try again"
                    ) from None
                key = kept
            finally:
                part.unlink()
            files.sync_folder(self.folder)
        return key

    def destroy(self, session_id: str) -> None:
        """Remove a session's key from the disk; it is gone when this returns. Do nothing where there is none."""
        with files.in_words(self.folder, "written to"):
            self._path(session_id).unlink(missing_ok=True)
            files.sync_folder(self.folder)  # also where it was gone: the power may go before that is on disk

    def _path(self, session_id: str) -> Path:
        """Return the file of a key: ids may hold what no file name does."""
        return self.folder / f"{hashlib.sha256(session_id.encode()).hexdigest()}.key"


class Cipher:
    """Encrypts and decrypts what belongs to one session."""

    __slots__ = ("_aead", "_nonces", "_within", "session_id")

    def __init__(self, session_id: str, key: bytes) -> None:
        """Take a session's key of 32 bytes; raise `InvalidInput` for another one."""
        given: object = key
        if not isinstance(given, bytes) or len(given) != KEY_SIZE:
            raise InvalidInput(f"the key of session {session_id!r} is {KEY_SIZE} bytes, and these are others")
        self.session_id = session_id
        self._aead = _aead(_derived(key, b"text"))
        self._nonces = _derived(key, b"nonce")
        self._within = json.dumps([PREFIX, session_id]).encode()

    def encrypt(self, text: str, place: str, salt: str) -> str:
        """Return a text encrypted for a place in the session; `salt` is one that is drawn for it.

        >>> cipher = Cipher("plan", bytes(32))
        >>> hidden = cipher.encrypt("By train", "turn/3", "00")
        >>> "train" in hidden, cipher.decrypt(hidden, "turn/3")
        (False, 'By train')
        """
        data = text.encode("utf-8", "surrogatepass")
        return PREFIX + base64.b64encode(self._encrypted(data, self._bound(place), salt.encode())).decode()

    def decrypt(self, text: str, place: str) -> str:
        """Return the text that was encrypted for a place; raise `KeyMissing` where that does not fit the key or the place."""
        try:
            data = base64.b64decode(text.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            data = b""
        return self._decrypted(data, self._bound(place), place).decode("utf-8", "surrogatepass")

    def encrypt_bytes(self, data: bytes) -> bytes:
        """Return bytes encrypted, with a heading that names the session: the same bytes the same way, within the session."""
        heading = bytes_heading(self.session_id)
        return heading + self._encrypted(data, heading, b"")

    def decrypt_bytes(self, data: bytes) -> bytes:
        """Return the bytes that `encrypt_bytes` was given; raise `KeyMissing` as `decrypt` does."""
        heading = bytes_heading(self.session_id)
        return self._decrypted(data[len(heading) :] if data.startswith(heading) else b"", heading, "a payload")

    def _bound(self, place: str) -> bytes:
        return self._within + place.encode()

    def _encrypted(self, data: bytes, bound: bytes, salt: bytes) -> bytes:
        parts = b"".join(len(part).to_bytes(8, "big") + part for part in (salt, bound, data))
        nonce = hmac.digest(self._nonces, parts, "sha256")[:_NONCE]
        return nonce + self._aead.encrypt(nonce, data, bound)

    def _decrypted(self, data: bytes, bound: bytes, place: str) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an optional dependency

        try:
            if len(data) < _NONCE + _TAG:
                raise InvalidTag
            return self._aead.decrypt(data[:_NONCE], data[_NONCE:], bound)
        except InvalidTag:
            raise KeyMissing(
                f"the key of session {self.session_id!r} does not open what stands at {place}: it is another session's or "
                "another store's key, or the store was altered. `trails verify` tells, without keys; give the folder of keys "
                "that the session was made with",
                session_id=self.session_id,
            ) from None


def bytes_heading(session_id: str) -> bytes:
    """Return what encrypted bytes of a session begin with."""
    return BYTES_PREFIX + b"\n" + json.dumps(session_id).encode() + b"\n"


def bytes_owner(data: bytes) -> str | None:
    """Return the id of the session whose key bytes are encrypted with; None for others.

    >>> bytes_owner(Cipher("plan", bytes(32)).encrypt_bytes(b"picture")), bytes_owner(b"picture")
    ('plan', None)
    """
    first, _, rest = data[:4096].partition(b"\n")
    named: Any = None
    if first == BYTES_PREFIX:
        with suppress(ValueError):
            named = json.loads(rest.partition(b"\n")[0])
    return named if isinstance(named, str) else None


def overhead(session_id: str) -> int:
    """Return how many bytes more than the plain ones encrypted bytes of a session are."""
    return len(bytes_heading(session_id)) + _NONCE + _TAG


def _derived(key: bytes, purpose: bytes) -> bytes:
    """Return a key for one purpose: HKDF-Expand (RFC 5869, section 2.3) of one block; the session's key is random."""
    return hmac.digest(key, b"trails " + purpose + b"\x01", "sha256")


def _aead(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise InvalidInput(
            "encryption needs the package `cryptography`, which is not installed: pip install 'trails[encryption]'"
        ) from error
    return AESGCM(key)
