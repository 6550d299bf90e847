"""Inspect AI's logs: an `.eval` file, which is a zip with a member a sample, or one JSON object.

Each sample of each epoch is a session, with the task, the model, the epoch and the sample's id as metadata. Samples are read
one at a time. A run that broke off has no header: what its journal says of the start is taken. A sample may be kept in
chunks, folders of numbered files; which it is, the names tell, and no version.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Final

from trails.errors import InvalidInput
from trails.exchange import containers, format_detection, json_files
from trails.exchange.containers import Archive
from trails.exchange.json_files import as_list, as_object, value_at, without_keys
from trails.exchange.record_checks import Reading, combine_files
from trails.exchange.source_transcript import Problem, Transcript
from trails.exchange.source_values import base_name, first_name, valid_name, without_empty
from trails.exchange.traces.inspect_samples import Pool, Sample, join_pools

_HEADER: Final = "header.json"
_START: Final = "_journal/start.json"
_WHOLE: Final = re.compile(r"samples/(?:[^/]+|.+_epoch_[^/]*)\.json", re.DOTALL)
"""A sample's id stands in its member's name as it is, slashes too."""
_SHELL: Final = re.compile(r"samples/(.+)/sample\.json", re.DOTALL)
_CHUNK: Final = re.compile(r"samples/(.+)/(messages|events|attachments)/([0-9]{1,9})\.json", re.DOTALL)
_METADATA: Final = "samples/{}/metadata.json"
_LOG: Final = frozenset({"eval", "version"})
_EVAL_OWN: Final = frozenset({"eval_id", "run_id", "created", "task", "model", "dataset", "tags"})
"""What of `eval` is metadata under its own name."""
_NUMBER: Final = re.compile(r"-?[0-9.]+")

_Json = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is an Inspect log in JSON; an `.eval` file is told by `holds`.

    >>> sniff(b'{"version": 2, "status": "success", "eval": {"run_id":'), sniff(b'{"version": 2}')
    (True, False)
    """
    first = format_detection.outline_of_first(head)
    return not head.lstrip().startswith(b"[") and first.keys() >= _LOG and first["eval"] is None


def holds(names: Sequence[str]) -> bool:
    """Tell whether a zip with these members is an Inspect log.

    >>> holds(["_journal/start.json", "samples/1_epoch_1.json"]), holds(["conversations.json"])
    (True, False)
    """
    return _START in names or (_HEADER in names and any(name.startswith(("samples/", "_journal/")) for name in names))


def stream(files: Sequence[tuple[str, IO[bytes]]]) -> Iterator[Transcript]:
    """Yield what each sample of logs (name of each, and the open file) says, a sample at a time; JSON is read as a whole.

    What cannot be read is a problem. Nothing that a file holds raises but `InvalidInput`: for one that would unpack to more
    than its size is taken to stand for, and where the package `zstandard` is needed and missing.
    """
    for name, file in files:
        is_zip = file.read(len(containers.ZIP_SIGNATURE)) == containers.ZIP_SIGNATURE
        file.seek(0)
        for reading in _read_zip(name, file) if is_zip else _read_json(name, file.read()):
            reading.notes = [f"{base_name(name)}: {note}" if name else note for note in reading.notes]
            yield combine_files([(name, reading)])


def _read_json(name: str, data: bytes) -> Iterator[Reading]:
    reading = Reading()
    log = reading.object(data, constants=True)
    samples = value_at(log, "samples")
    if log is not None and not isinstance(log.get("eval"), dict):
        reading.refuse(0, "is no log of Inspect: it has no eval", name)
    elif log is not None and not as_list(samples):
        reading.refuse(0, "holds no samples (a log may be written without them)", name)
    elif log is not None:
        header = _Header(log, reading)
        for sample in as_list(samples):
            header.read(sample, reading)
            yield reading
            reading = Reading()
        reading.note_counts(header.odd)
    yield reading


def _read_zip(name: str, file: IO[bytes]) -> Iterator[Reading]:
    reading = Reading()
    try:
        archive = Archive(file)
        top = next((each for each in (_HEADER, _START) if each in archive.names), None)
        log = json_files.read_object(archive.read(top), constants=True) if top else None
        if not isinstance(log, dict) or not isinstance(log.get("eval"), dict):
            why = f": {log.reason}" if isinstance(log, Problem) else ""
            reading.refuse(0, f"is no log of Inspect that can be read: it has no header with an eval{why}", name)
            yield reading
            return
        if top == _START:
            reading.notes.append("the run broke off: its log has no header, and what its start says is taken")
        header = _Header(log, reading)
        found = False
        yield reading
        for sample, own in _samples(archive):
            found = True
            if sample is not None:
                header.read(sample, own)
            yield own
        reading = Reading()
        reading.note_counts(header.odd)
        if not found:
            reading.refuse(0, "holds no samples", name)
    except InvalidInput as error:
        raise InvalidInput(f"{name} is not read: {error}") from error
    except containers.ZIP_FAULTS as error:
        reading = Reading()
        reading.refuse(0, f"is a zip that cannot be read: {error}", name)
    yield reading


def _samples(archive: Archive) -> Iterator[tuple[object, Reading]]:
    """Yield each sample, or None where it cannot be read, with what is to be said of that."""
    chunks: dict[str, list[tuple[str, int, str]]] = {}
    for name in archive.names:
        if chunk := _CHUNK.fullmatch(name):
            chunks.setdefault(chunk[1], []).append((chunk[2], int(chunk[3]), name))
    shells = {name: shell[1] for name in archive.names if (shell := _SHELL.fullmatch(name))}
    folders = tuple(f"samples/{folder}/" for folder in shells.values())
    for name in archive.names:
        reading = Reading()
        if name in shells or _WHOLE.fullmatch(name):
            sample = _member(archive, name, reading)
            if (folder := shells.get(name)) is not None and sample is not None:
                sample = _put_together(archive, folder, sample, chunks.get(folder, []), reading)
            yield sample, reading
        elif name.startswith("samples/") and not name.startswith(folders):
            reading.refuse(0, f"{name[:200]} is no sample, nor a part of one, and is not read", name)
            yield None, reading


def _member(archive: Archive, name: str, reading: Reading, read: Callable[..., Any] = json_files.read_object) -> Any:
    """Return what a member says, None where it cannot be read."""
    said: list[str] = []
    try:
        found = read(archive.read(name), constants=True, notes=said)
    except InvalidInput:
        raise
    except containers.ZIP_FAULTS as error:
        found = json_files.line_problem(0, f"cannot be read: {error}", name)
    if isinstance(found, Problem):
        reading.refuse(0, f"{name} {found.reason}", name)
        return None
    reading.notes += [f"{name} {each}" for each in said]
    return found


def _put_together(
    archive: Archive, folder: str, shell: dict[str, Any], chunks: Sequence[tuple[str, int, str]], reading: Reading
) -> dict[str, Any]:
    """Return a chunked sample as it is where it is kept whole: chunks are ordered by their number, not as text."""
    read: dict[str, list[tuple[int, object]]] = {}
    for kind, start, name in sorted(chunks, key=lambda each: each[1]):
        read.setdefault(kind, []).append((start, _member(archive, name, reading, json_files.read_list)))
    pool, texts, events = (join_pools(read.get(kind, [])) for kind in ("messages", "attachments", "events"))
    metadata = _member(archive, name, reading) if (name := _METADATA.format(folder)) in archive.names else None
    sample = {
        **shell,
        "events": list(events.values()),
        "events_data": {"messages": pool},
        "attachments": {str(index): text for index, text in texts.items()},
    } | ({} if metadata is None else {"metadata": metadata})
    if "messages" not in shell:
        indices = Pool(dict(pool)).indices(refs := shell.get("message_refs"))
        if indices is None:
            reading.refuse(0, f"samples/{folder} names messages that are not there", {"message_refs": refs})
        sample["messages"] = [pool[index] for index in indices or ()]
    return sample


class _Header:
    """What a log says of all its samples."""

    def __init__(self, log: _Json, reading: Reading) -> None:
        own = as_object(log.get("eval"))
        told = json.dumps([own.get(key) for key in ("created", "task", "model", "dataset")])
        self._id = first_name(own.get("eval_id"), own.get("run_id")) or hashlib.sha256(told.encode()).hexdigest()[:16]
        meta = {key: own.get(key) for key in ("task", "model", "eval_id", "run_id", "created", "tags")}
        meta |= {"dataset": value_at(own, "dataset", "name"), "status": log.get("status")}
        meta |= {f"log_{key}": log.get(key) for key in ("tags", "metadata", "error", "updates")}
        meta |= {"log_updates": log.get("log_updates"), "invalidated": log.get("invalidated") or None}
        meta |= {"eval": without_empty(without_keys(own, *_EVAL_OWN)), "plan": log.get("plan")}
        self._meta = without_empty(meta)
        left = [key for key in ("results", "reductions", "stats") if log.get(key)]
        if left:
            reading.notes.append(f"{', '.join(left)}: figures over all samples, not kept")
        self._model = valid_name(own.get("model"))
        self.odd: Counter[str] = Counter()
        """What a reader should know of the samples that were read, with how often it was so."""

    def read(self, sample: object, reading: Reading) -> None:
        """Put the sessions of a sample into a reading."""
        identity = sample.get("id") if isinstance(sample, dict) else None
        if not isinstance(sample, dict) or isinstance(identity, bool) or not isinstance(identity, str | int | float):
            reading.refuse(0, "is no sample: it has no id", sample)
            return
        reading.count("sample")
        epoch = sample.get("epoch", 1)
        # 3 and "3" are two samples: a text that could be a number stands in quotes
        named = json.dumps(identity) if not isinstance(identity, str) or _NUMBER.fullmatch(identity) else identity
        session = f"{self._id}:{named}:{epoch}"
        meta = {**self._meta, "sample_id": identity, "epoch": epoch}
        try:
            Sample(sample, session, reading, self.odd, self._model).add_sessions(meta)
        except RecursionError:
            reading.refuse(0, f"sample {session} is nested too deeply", session)
