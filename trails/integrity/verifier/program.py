"""Check a whole evidence pack, or an export, with nothing but Python 3.9 and the log's public key.

This is the program that goes out as `verify_export.py`: `python verify_export.py plan.nq`. Of an export it recomputes every
turn's digest, follows the chain from its start through all forks, and holds every statement about a turn against what the
digest covers. Of a pack it checks also the manifest and its signature, every file, the report, the checkpoints, that the log
only grew between them, the proof of each session's last turn, and what a time stamp is over. It says what it does not see.
Exit code: 0 all holds; 1 something does not; 2 the file cannot be read as an export or a pack.

The guide of Trails tells the rules of digests, and what they prove, on its page `proofs`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from trails.errors import InvalidInput
from trails.integrity.verifier.answers import CANNOT_SHOW, answer_lines, printable, report
from trails.integrity.verifier.archive import Altered, NoPack, PackFiles, read_files
from trails.integrity.verifier.export import Export
from trails.integrity.verifier.pack import check_files
from trails.integrity.verifier.quads import Unreadable

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
        prog="verify_export.py", description="Check an export (N-Quads) or an evidence pack (folder or zip) of Trails."
    )
    parser.add_argument("file", help="the export (- for stdin), or the pack's folder or zip")
    parser.add_argument(
        "--head", action="append", default=[], help="a digest that must be in an export, as it was kept elsewhere"
    )
    parser.add_argument(
        "--verifier", action="append", default=[], help="the log's public key, or a file with it: needed for a pack"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    try:
        said, lines = _answer(given.file, given.head, given.verifier)
    except Altered as error:
        said = {"format": PACK_FORMAT, "ok": False, "altered": [{"file": given.file, "message": str(error)}]}
        lines = iter([f"ALTERED: {error}", "THE PACK DOES NOT HOLD"])
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


def _answer(place: str, heads: list[str], verifiers: list[str]) -> tuple[dict[str, Any], Iterator[str]]:
    if place == "-":
        said = report(Export(sys.stdin.buffer), heads)
        return said, answer_lines(said)
    if not _is_pack(place):
        with open(place, "rb") as file:  # noqa: PTH123 - as plain as can be
            said = report(Export(file), heads)
        return said, answer_lines(said)
    if not verifiers:
        raise InvalidInput("without the log's public key no signature can be trusted: give --verifier KEY")
    said = pack_answer(read_files(place), [_key_text(each) for each in verifiers])
    return said, _pack_lines(said)


def _is_pack(place: str) -> bool:
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            return file.read(2) == b"PK" or place.endswith(".zip")
    except IsADirectoryError:
        return True


def _key_text(given: str) -> str:
    try:
        with open(given, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return given


if __name__ == "__main__":
    sys.exit(main())
