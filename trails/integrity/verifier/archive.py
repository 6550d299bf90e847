"""Read the files of an evidence pack from a folder or a zip, with nothing but Python 3.9.

A pack may be unpacked and packed again: compressed or not, in any order, under one folder, with entries for folders, and with
the notes that macOS leaves. What programs that unpack zips could take in two ways is refused: two entries of one name or of
names that differ in case alone, links, names that lead out of the folder, bytes that belong to no entry, comments, and names
that a local header tells otherwise. So is what unfolds to far more than it is. Source: PKWARE's APPNOTE 6.3.10, section 4.3.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import NamedTuple

MANIFEST = "manifest.json"
_LARGEST = 4_000_000_000
_SMALL = 16_000_000
_MOST_TIMES_LARGER = 100
_LOCAL = struct.Struct("<4s5H3I2H")
_END_SIZE, _IN_EXTRA = 22, 0xFFFFFFFF
_DESCRIBED, _LOCKED, _UTF8 = 0x8, 0x1 | 0x40 | 0x2000, 0x800
_EXTRA_FIELDS = {0x0001: 32, 0x000A: 36, 0x5455: 13, 0x5855: 12, 0x7855: 4, 0x7875: 11}
"""The extra fields that hold sizes, times and owners, and how long each may be: zip64, NTFS, UT, UX, Ux, ux."""
_MAC_FOLDER, _APPLE_DOUBLE = "__MACOSX/", b"\x00\x05\x16\x07"
_FOLDER_NOTES = b"\x00\x00\x00\x01Bud1"


class Altered(Exception):
    """There is something that no pack holds."""


class NoPack(Exception):
    """There is no pack."""


class PackFiles(NamedTuple):
    """The files of a pack by name, how they came, and what stood beside them and was not read."""

    files: dict[str, bytes]
    form: str
    """"folder", "as written" for a zip as Trails writes it, "repacked" for another zip."""
    ignored: tuple[str, ...]


def read_files(place: str) -> PackFiles:
    """Return the files of a pack; NoPack if there is none, Altered for what could be read in two ways."""
    if os.path.isdir(place):  # noqa: PTH112 - the program that goes out has no pathlib
        files, form = _folder_files(place), "folder"
    else:
        with open(place, "rb") as file:  # noqa: PTH123
            data = file.read()
        files, form = _zip_files(data)
    ignored = sorted(name for name, content in files.items() if _is_left_by_macos(name, content))
    kept = {name: content for name, content in files.items() if name not in ignored}
    _check_names([*kept, *ignored])
    kept = _without_folder(kept)
    if MANIFEST not in kept or "report.json" not in kept:
        raise NoPack(f"it is no audit pack: it holds no {MANIFEST} and report.json")
    return PackFiles(kept, form, tuple(ignored))


def zipped(entries: Iterable[tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """Return a zip that every program unpacks alike: plain files, one after the other, stored as they are, and no more."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for given, data in entries:
            entry = zipfile.ZipInfo(given.filename, given.date_time)
            entry.create_system, entry.external_attr = 3, 0o100600 << 16
            archive.writestr(entry, data)
    return out.getvalue()


def _is_left_by_macos(name: str, content: bytes) -> bool:
    base = name.rpartition("/")[2]
    if name.startswith(_MAC_FOLDER) or base.startswith("._"):
        return base.startswith("._") and content.startswith(_APPLE_DOUBLE)
    return base == ".DS_Store" and content.startswith(_FOLDER_NOTES)


def _check_names(names: list[str]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        if (
            not name.isprintable()
            or set(name) & set('\\:*?"<>|')
            or any(part.rstrip(" .") != part or not part for part in parts)
        ):
            raise Altered(f"the name {name!r} does not lead to a file within the pack")
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise Altered(f"{other!r} and {name!r} are one file on some machines")


def _without_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files without the name of the one folder that all of them are in."""
    tops = {name.partition("/")[0] for name in files}
    top = next(iter(tops), "")
    if len(tops) != 1 or f"{top}/{MANIFEST}" not in files:
        return files
    return {name[len(top) + 1 :]: content for name, content in files.items()}


def _folder_files(place: str) -> dict[str, bytes]:
    files = {}
    for where, folders, names in os.walk(place):
        for each in [*folders, *names]:
            path = os.path.join(where, each)  # noqa: PTH118
            kind, name = os.lstat(path).st_mode, os.path.relpath(path, place).replace(os.sep, "/")
            if stat.S_ISREG(kind):
                with open(path, "rb") as file:  # noqa: PTH123
                    files[name] = file.read()
            elif not stat.S_ISDIR(kind):
                raise Altered(f"{name} is no file, and a pack holds files alone")
    return files


# --- zips


def _zip_files(data: bytes) -> tuple[dict[str, bytes], str]:
    """Return the files of a zip, and whether it is as Trails writes it."""
    try:
        opened = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise NoPack(f"it is no zip: {error}") from None
    with opened:
        entries = opened.infolist()
        total = sum(each.file_size for each in entries)
        if total > min(_LARGEST, _MOST_TIMES_LARGER * len(data) + _SMALL):
            raise Altered(f"the zip of {len(data)} bytes would unfold to {total}")
        for each in entries:
            _check_entry(each)
        contents = _contents(data, entries, opened.start_dir)
    names = [each.filename for each, _ in contents]
    if len(set(names)) < len(names):
        raise Altered("the zip has two files of one name")
    files = {each.filename: content for each, content in contents if not each.is_dir()}
    return files, "as written" if zipped(contents) == data else "repacked"


def _check_entry(entry: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    wanted = stat.S_IFDIR if entry.is_dir() else stat.S_IFREG
    name = entry.filename
    if kind not in (0, wanted):
        raise Altered(f"{name!r} is no file, and a pack holds files alone")
    if entry.is_dir():
        if entry.file_size:
            raise Altered(f"the folder {name!r} has content")
        _check_names([name[:-1]])
    if entry.orig_filename != name:
        raise Altered(f"the name {entry.orig_filename!r} can be read in two ways")
    if entry.flag_bits & _LOCKED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Altered(f"{name!r} is encrypted or packed in a way that not every program can unpack")
    if entry.comment:
        raise Altered(f"{name!r} has a comment, which belongs to no pack")
    _check_extra(name, entry.extra)


def _check_extra(name: str, extra: bytes) -> None:
    at = 0
    while at < len(extra):
        kind, length = struct.unpack_from("<HH", extra, at) if at + 4 <= len(extra) else (0, len(extra))
        if length > _EXTRA_FIELDS.get(kind, -1) or at + 4 + length > len(extra):
            raise Altered(f"{name!r} has the extra field 0x{kind:04x}, which no program needs to pack files")
        at += 4 + length


def _contents(data: bytes, entries: list[zipfile.ZipInfo], directory: int) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """Return what the entries hold, which stand one after the other from the first byte on; no byte belongs to none."""
    at, contents = 0, {}
    for entry in sorted(entries, key=lambda each: each.header_offset):
        start, at = _place(data, entry, at)
        contents[entry.header_offset] = _unpacked(entry, data[start : start + entry.compress_size])
    if at != directory:
        raise Altered("the zip has bytes that belong to no file")
    end = data.rfind(b"PK\x05\x06")
    at = directory + sum(46 + len(_raw_name(each)) + len(each.extra) + len(each.comment) for each in entries)
    if data[at : at + 4] == b"PK\x06\x06":  # zip64: a record of 56 bytes, and where it is in 20
        at += 76
    if at != end or len(data) != end + _END_SIZE:
        raise Altered("the zip has a comment, or bytes that belong to no file")
    return [(entry, contents[entry.header_offset]) for entry in entries]


def _unpacked(entry: zipfile.ZipInfo, packed: bytes) -> bytes:
    name, content, rest = entry.filename, packed, b""
    if entry.compress_type == zipfile.ZIP_DEFLATED:
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            content = unpacking.decompress(packed, entry.file_size + 1)
        except zlib.error as error:
            raise Altered(f"{name!r} cannot be unpacked: {error}") from None
        rest = unpacking.unused_data + unpacking.unconsumed_tail
        if not content and entry.file_size == 0 and packed == b"\x03\x00":
            rest = b""
    if rest or len(content) != entry.file_size:
        raise Altered(f"{name!r} does not have the size that the zip says")
    if zlib.crc32(content) != entry.CRC:
        raise Altered(f"Bad CRC-32 for file {name!r}")
    return content


def _raw_name(entry: zipfile.ZipInfo) -> bytes:
    return entry.filename.encode("utf-8" if entry.flag_bits & _UTF8 else "cp437")


def _place(data: bytes, entry: zipfile.ZipInfo, at: int) -> tuple[int, int]:
    """Return where the content of an entry begins that must begin at a place, and where the entry ends.

    Altered where its own header says otherwise than the zip's list of files.
    """
    name = entry.filename
    if entry.header_offset != at or at + _LOCAL.size > len(data):
        raise Altered("the zip has bytes that belong to no file, or files that overlap")
    sign, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack_from(data, at)
    start = at + _LOCAL.size + name_length + extra_length
    own_name = data[at + _LOCAL.size : at + _LOCAL.size + name_length]
    if (sign, own_name, method, flags) != (b"PK\x03\x04", _raw_name(entry), entry.compress_type, entry.flag_bits):
        raise Altered(f"the header of {name!r} says otherwise than the zip's list of files")
    _check_extra(name, data[start - extra_length : start])
    end = start + entry.compress_size
    if not flags & _DESCRIBED:
        sizes = (size, packed)
        if sizes == (_IN_EXTRA, _IN_EXTRA):  # zip64
            sizes = struct.unpack("<QQ", data[start - extra_length + 4 : start - extra_length + 20].ljust(16))
        if (crc, *sizes) != (entry.CRC, entry.file_size, entry.compress_size):
            raise Altered(f"the header of {name!r} says otherwise than the zip's list of files")
        return start, end
    short = struct.pack("<III", entry.CRC, entry.compress_size, entry.file_size)
    long = struct.pack("<IQQ", entry.CRC, entry.compress_size, entry.file_size)
    for described in (b"PK\x07\x08" + short, b"PK\x07\x08" + long, short, long):
        if data[end : end + len(described)] == described:
            return start, end + len(described)
    raise Altered(f"what follows {name!r} says otherwise than the zip's list of files")
