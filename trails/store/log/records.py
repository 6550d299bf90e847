"""Records of the log: what a commit did, how a row keeps it, and the digest that chains it to the record before.

A record holds the leaves of a commit, the graphs that it drops, and the quads that it removes and adds, as N-Quads. To replay
it: drop its graphs, remove its quads, add its quads. Quads are ground, so records that are replayed in order over any state
that some of them led to end in the one state that all of them lead to.

The digest of a record covers the digests of its leaves and of the rest. So erased text can be removed from a body, and the
chain stays valid. Such a record drops properties, too: the IRIs of graph, subject and predicate, with spaces between them; what
is left of such a property is added by the same record. A record with the flag `REWRITES` says which records were rewritten,
each with the digest of what is left of it: that is how the rewriting is itself part of the chain.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyoxigraph import Quad, RdfFormat, serialize

START: Final = bytes(32)
"""What stands for the digest of the record before the first one."""
ERASES: Final = 4
"""A flag: what the record removes is to leave the log, too."""
REWRITES: Final = 16
"""A flag: the record says which records were rewritten."""
IS_STATED: Final = 32
"""A flag: whoever rewrites the record says so in a later one. Records of version 0.1 lack it."""
LONGEST_LINE: Final = 16 * 1024 * 1024 - 1024
"""Bytes that a quad may have as a line: the engine's parser takes up to 16 MiB, and what is logged must come back."""
_PARTS: Final = struct.Struct("<IIQ")
"""Bytes of the leaves, of the names of what is dropped, and of the quads removed; the quads added follow."""
_DICTIONARY: Final = (
    b"transition brief result pending streaming completed failed received sent delivered detach change create fork redact "
    b"delete decision run task urn:trails:principal: urn:trails:agent:unknown <https://w3id.org/trails#CATALOG> "
    b'<https://w3id.org/trails#toolCall> <https://w3id.org/trails#model> "assistant" "tool" "system" '
    b"<https://w3id.org/trails#Session> <http://www.w3.org/ns/prov#Activity> <http://www.w3.org/ns/prov#wasGeneratedBy> "
    b'"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON> turns urn:trails:session:'
    b" <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <https://w3id.org/trails#Turn> <urn:trails:session:> .\n<urn:trails:"
    b"session:/0- <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/ns/prov#Entity> <urn:trails:session:"
    b'> .\n<urn:trails:session:/1- <https://w3id.org/trails#index> "10"^^<http://www.w3.org/2001/XMLSchema#integer> <urn:'
    b'trails:session:> .\n<urn:trails:session:/2- <https://w3id.org/trails#role> "user" <urn:trails:session:> .\n<urn:trails:'
    b'session:/3- <https://w3id.org/trails#branch> "main" <urn:trails:session:> .\n<urn:trails:session:/4- <http://www.w3.org/'
    b'ns/prov#value> "the  <urn:trails:session:> .\n<urn:trails:session:/5- <http://www.w3.org/ns/prov#wasAttributedTo> <urn:'
    b'trails:principal:> <urn:trails:session:> .\n<urn:trails:session:/6- <https://w3id.org/trails#digest> "abcdef0123456789" '
    b'<urn:trails:session:> .\n<urn:trails:session:/7- <https://w3id.org/trails#salt> "0123456789abcdef" <urn:trails:session:> '
    b'.\n<urn:trails:session:/8- <http://www.w3.org/ns/prov#generatedAtTime> "2026-01-01T00:00:00.000000Z"^^<http://www.w3.org/'
    b"2001/XMLSchema#dateTime> <urn:trails:session:"
)
"""What most bodies hold, so that small ones compress well. It is part of the format: it never changes."""
STEP_BYTES: Final = 1 << 20
"""Bytes of packed bodies after which no further record is read in one step, whatever the log has."""
_SMALL: Final = (13, 6)
_GREAT: Final = (15, 8)
"""How far back a packer looks, as a power of two bytes, and how much memory it takes (zlib's windowBits and memLevel)."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What a commit does: its leaves (as lines), what it drops, the quads that it removes and adds (N-Quads)."""

    leaves: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    remove: bytes = b""
    add: bytes = b""
    flags: int = 0

    @classmethod
    def of(
        cls,
        *,
        leaves: Sequence[str] = (),
        drop: Sequence[str] = (),
        remove: Sequence[Quad] = (),
        add: Sequence[Quad] = (),
        flags: int = 0,
    ) -> CommitRecord:
        """Return the record of a change."""
        return cls(tuple(leaves), tuple(drop), n_quads(remove), n_quads(add), flags)

    @classmethod
    def of_rewriting(cls, digests: Mapping[int, bytes]) -> CommitRecord:
        """Return the record that says which records were rewritten, with the digests of what is left of them."""
        lines = "".join(f"{number} {digest.hex()}\n" for number, digest in sorted(digests.items()))
        return cls(add=lines.encode(), flags=REWRITES)

    @property
    def rewrites(self) -> dict[int, bytes]:
        """The records that were rewritten, by number, with the digests of what is left of them."""
        if not self.flags & REWRITES:
            return {}
        pairs = (line.split() for line in self.add.decode().splitlines())
        return {int(number): bytes.fromhex(digest) for number, digest in pairs}

    @property
    def quads_added(self) -> bytes:
        """The quads that it adds, as lines."""
        return b"" if self.flags & REWRITES else self.add

    @property
    def text(self) -> int:
        """How many bytes its quads are."""
        return len(self.add) + len(self.remove)

    @property
    def drops_properties(self) -> bool:
        """Whether it drops properties the values of which it does not tell."""
        return any(" " in each for each in self.drop)

    def graphs(self) -> set[str]:
        """Return the graphs that it touches; "" is the default graph."""
        lines = (line for part in (self.remove, self.quads_added) for line in part.split(b"\n") if line)
        return {each.partition(" ")[0] for each in self.drop} | {name.decode() for name in set(map(graph_of, lines))}

    def longest_line(self) -> int:
        """Return the bytes of the longest quad, written as a line."""
        if max(len(self.add), len(self.remove)) <= LONGEST_LINE:
            return 0
        return max(len(line) for part in (self.add, self.remove) for line in part.split(b"\n"))


@dataclass(frozen=True, slots=True)
class Row:
    """A record in its place in the log.

    `leaves` and `body_digest` are empty unless an older version wrote the row, or it was rewritten: then `body_digest` is of
    the body that was there first, and `rewritten` of what is left of it.
    """

    number: int
    commit_id: str
    flags: int
    leaves: bytes
    body: bytes
    body_digest: bytes
    digest: bytes
    rewritten: bytes | None = None

    def values(self) -> tuple[object, ...]:
        """Return the values of its columns, in their order."""
        return tuple(getattr(self, name) for name in self.__slots__)

    def unpack(self) -> Unpacked:
        """Return what the row holds; raise `ValueError` for what Trails never writes."""
        try:
            payload = _unpack(self.body)
            leaves, drop, removed = _PARTS.unpack_from(payload)
        except (zlib.error, struct.error, TypeError) as error:
            raise ValueError(f"its body cannot be unpacked: {error}") from error
        rest = _PARTS.pack(0, drop, removed) + payload[_PARTS.size + leaves :]
        told = self.leaves or payload[_PARTS.size : _PARTS.size + leaves]
        start = _PARTS.size + drop
        record = CommitRecord(
            leaves=lines_of(told),
            drop=lines_of(rest[_PARTS.size : start]),
            remove=rest[start : start + removed],
            add=rest[start + removed :],
            flags=self.flags,
        )
        return Unpacked(self, record, _digest(told), _digest(rest))


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A row with the record that it holds, and the digests of its leaves and of the rest of it."""

    row: Row
    record: CommitRecord
    leaves_digest: bytes
    body_digest: bytes

    def follows(self, number: int, digest: bytes) -> bool:
        """Tell whether this row comes next after the row with a number and digest."""
        row = self.row
        original = row.body_digest or self.body_digest
        parts = self.leaves_digest + original
        return row.number == number + 1 and row.digest == _chained(digest, row.number, row.commit_id, row.flags, parts)

    @property
    def is_whole(self) -> bool:
        """Whether the body is the one that was written, or the one that it was rewritten to."""
        return self.body_digest == (self.row.rewritten or self.row.body_digest or self.body_digest)


def row_of(record: CommitRecord, commit_id: str, number: int, previous: bytes) -> Row:
    """Return the row of a record after the row with the digest `previous`."""
    payload, leaves, rest = _payload(record)
    flags = record.flags & (ERASES | REWRITES) | IS_STATED
    digest = _chained(previous, number, commit_id, flags, _digest(leaves) + _digest(rest))
    return Row(number, commit_id, flags, b"", _pack(payload), b"", digest)


def rewritten(unpacked: Unpacked, record: CommitRecord) -> Row:
    """Return a row whose body holds another record, in its place in the chain."""
    row = unpacked.row
    payload, _, rest = _payload(replace(record, leaves=() if row.leaves else unpacked.record.leaves))
    original = row.body_digest or unpacked.body_digest
    return replace(row, body=_pack(payload), body_digest=original, rewritten=_digest(rest))


def graph_of(line: bytes) -> bytes:
    """Return the graph of a quad that is written as a line; "" for the default graph.

    >>> graph_of(b'<urn:s> <urn:p> "an <iri>"^^<urn:t> .'), graph_of(b"<urn:s> <urn:p> <urn:o> <urn:g> .")
    (b'', b'urn:g')
    """
    _, _, rest = line.split(b" ", 2)
    last = rest.removesuffix(b" .").rpartition(b" ")
    return last[2][1:-1] if last[0] and last[2].startswith(b"<") and b'"' not in last[2] else b""


def _payload(record: CommitRecord) -> tuple[bytes, bytes, bytes]:
    """Return the bytes of a body, of the leaves in it, and of the body without them."""
    leaves, drop = "\n".join(record.leaves).encode(), "\n".join(record.drop).encode()
    rest = b"".join((drop, record.remove, record.add))
    head = _PARTS.pack(len(leaves), len(drop), len(record.remove))
    return head + leaves + rest, leaves, _PARTS.pack(0, len(drop), len(record.remove)) + rest


def n_quads(quads: Sequence[Quad]) -> bytes:
    """Return quads as lines, in their order."""
    return (serialize(quads, format=RdfFormat.N_QUADS) or b"") if quads else b""


def lines_of(part: bytes) -> tuple[str, ...]:
    """Return lines of text that are joined by newlines."""
    return tuple(part.decode().split("\n")) if part else ()


def lines_packed(body: bytes) -> tuple[str, ...]:
    """Return the lines of the leaves in a packed body; of a large one, only its beginning is unpacked, and need be given.

    Raises `ValueError` for what Trails never writes.
    """
    try:
        unpacking = zlib.decompressobj(zdict=_DICTIONARY)
        payload = unpacking.decompress(body, 512)
        size, _, _ = _PARTS.unpack_from(payload)
        wanted = _PARTS.size + size
        if len(payload) < wanted:
            payload += unpacking.decompress(unpacking.unconsumed_tail, wanted - len(payload))
        if len(payload) < wanted:
            raise zlib.error("it is cut short")
    except (zlib.error, struct.error, TypeError) as error:
        raise ValueError(f"its body cannot be unpacked: {error}") from error
    return lines_of(payload[_PARTS.size : wanted])


_PACKERS: Final = [zlib.compressobj(1, zlib.DEFLATED, *sizes, zdict=_DICTIONARY) for sizes in (_SMALL, _GREAT)]
"""Fresh packers, to be copied: that takes less than making one."""


def _pack(body: bytes) -> bytes:
    """Compress a body. Of a small one most of the work would be to make room for looking back 32 kB."""
    packing = _PACKERS[len(body) > 1 << _SMALL[0]].copy()
    return packing.compress(body) + packing.flush()


def _unpack(body: bytes) -> bytes:
    unpacking = zlib.decompressobj(zdict=_DICTIONARY)
    payload = unpacking.decompress(body)
    if not unpacking.eof or unpacking.unused_data:
        raise zlib.error("it is cut short or followed by something else")
    return payload


def _chained(previous: bytes, number: int, commit_id: str, flags: int, parts: bytes) -> bytes:
    """Return the digest of a record; `parts` are the digests of its leaves and of the rest of it."""
    return _digest(previous + f"{number} {commit_id} {flags} ".encode() + parts)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def parts_of(lines: bytes) -> list[bytes]:
    """Return lines of N-Quads, each with its newline."""
    return [line + b"\n" for line in lines.split(b"\n")[:-1]]
