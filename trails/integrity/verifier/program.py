"""Check a whole evidence pack, an export, a proof of absence or the receipt of an erasure, with nothing but Python 3.9.

This is the program that goes out as `verify_export.py`: `python verify_export.py plan.nq`. Of an export it recomputes every
turn's digest, follows the chain from its start through all forks, and holds every statement about a turn against what the
digest covers. Of a pack it checks also the manifest and its signature, every file, the report, the checkpoints, that the log
only grew between them, the proof of each session's last turn, and what a time stamp is over. Of a receipt it checks the
signature and the form. It says what it does not see. Exit code: 0 all holds; 1 something does not; 2 the file cannot be read.

The guide of Trails tells the rules of digests, and what they prove, on its page `proofs`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from trails.errors import IntegrityError, InvalidInput
from trails.integrity.verifier.absence import ABSENCE, absence_answer, absence_lines
from trails.integrity.verifier.answers import CANNOT_SHOW, answer_lines, printable, report
from trails.integrity.verifier.archive import Altered, NoPack, PackFiles, read_files
from trails.integrity.verifier.export import Export
from trails.integrity.verifier.pack import check_files
from trails.integrity.verifier.quads import Unreadable
from trails.integrity.verifier.receipts import receipt_answer, receipt_lines

PACK_FORMAT = "trails-pack-verification/1"


def pack_answer(read: PackFiles, verifiers: Iterable[str]) -> dict[str, Any]:
    """Return the answer about a pack as plain values."""
    answer = check_files(read.files, verifiers)
    return {
        "format": PACK_FORMAT,
        "ok": answer.ok,
        "form": read.form,
        "ignored": list(read.ignored),
        "checked": list(answer.checked),
        "altered": [each._asdict() for each in answer.altered],
        "records": answer.records,
        "cannot_show": [*answer.not_seen, *CANNOT_SHOW],
    }


_FORMS = {
    "folder": "a folder",
    "as written": "the zip as Trails wrote it",
    "repacked": "repacked: the zip is not the one that Trails wrote, and its files are those of the manifest or are named below",
}


def _pack_lines(said: dict[str, Any]) -> Iterator[str]:
    yield f"read from {_FORMS[said['form']]}"
    yield from (f"ignored, as macOS leaves it beside files: {name}" for name in said["ignored"])
    yield from (f"holds: {each}" for each in said["checked"])
    yield from (f"ALTERED: {each['file']}: {each['message']}" for each in said["altered"])
    if said["records"]:
        yield from answer_lines({**said["records"], "cannot_show": []})
    yield "This cannot show:"
    yield from (f"- {each}" for each in said["cannot_show"])
    yield "the pack holds" if said["ok"] else "THE PACK DOES NOT HOLD"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="verify_export.py",
        description="Check an export (N-Quads), an evidence pack (folder or zip), a proof of absence or a receipt of Trails.",
    )
    parser.add_argument("file", help="the export (- for stdin), the proof, the receipt, or the pack's folder or zip")
    parser.add_argument(
        "--head", action="append", default=[], help="a digest that must be in an export, as it was kept elsewhere"
    )
    parser.add_argument(
        "--verifier",
        action="append",
        default=[],
        help="the log's public key, or a file with it: needed for a pack, a proof and a receipt",
    )
    parser.add_argument("--kept", help="the older checkpoint of a proof of absence, as it was kept: a file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    try:
        said, lines = _answer(given.file, given.head, given.verifier, given.kept)
    except Altered as error:
        said = {"format": PACK_FORMAT, "ok": False, "altered": [{"file": given.file, "message": str(error)}]}
        lines = iter([f"ALTERED: {error}", "THE PACK DOES NOT HOLD"])
    except IntegrityError as error:
        said = {"format": "trails-receipt-verification/1", "ok": False, "reason": f"{error}"}
        lines = iter([f"ALTERED: {error}", "THE RECEIPT DOES NOT HOLD"])
    except (Unreadable, NoPack, InvalidInput, OSError) as error:
        sys.stderr.write(f"error: {printable(f'{error}')}\n")
        return 2
    shown = [json.dumps(said, indent=2)] if given.json else [printable(line) for line in lines]
    try:
        for line in shown:
            sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the answer went away
        sys.stderr.close()
    return 0 if said["ok"] else 1


def _answer(
    place: str, heads: list[str], verifiers: list[str], kept: str | None
) -> tuple[dict[str, Any], Iterator[str]]:
    begins = b"" if place == "-" else _beginning(place)
    if begins in (b"PK", b"{"):
        if not verifiers:
            raise InvalidInput("without the log's public key no signature can be trusted: give --verifier KEY")
        keys = [_key_text(each) for each in verifiers]
        if begins == b"PK":
            said = pack_answer(read_files(place), keys)
            return said, _pack_lines(said)
        data = _bytes_of_file(place)
        if _is_of_absence(data):
            said = absence_answer(data, keys, None if kept is None else _bytes_of_file(kept))
            return said, absence_lines(said)
        said = receipt_answer(data, keys)
        return said, receipt_lines(said)
    if place == "-":
        said = report(Export(sys.stdin.buffer), heads)
    else:
        with open(place, "rb") as file:  # noqa: PTH123
            said = report(Export(file), heads)
    return said, answer_lines(said)


def _bytes_of_file(place: str) -> bytes:
    with open(place, "rb") as file:  # noqa: PTH123 - as plain as can be
        return file.read()


def _is_of_absence(data: bytes) -> bool:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("format") == ABSENCE


def _beginning(place: str) -> bytes:
    """Return the first bytes that tell what a file is: PK of a pack, also of its folder, { of a proof or a receipt."""
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            data = file.read(2)
    except IsADirectoryError:
        return b"PK"
    return b"PK" if data == b"PK" or place.endswith(".zip") else data[:1]


def _key_text(given: str) -> str:
    try:
        with open(given, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return given


if __name__ == "__main__":
    sys.exit(main())
