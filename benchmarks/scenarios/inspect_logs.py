"""Logs of Inspect AI: one long sample whose model calls name ranges of a pool, and many samples, read one at a time."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import trails
from benchmarks.data import messages
from benchmarks.harness import Contestant, Result, Setting, Stopwatch, Target, child_environment, medians, timed
from trails.exchange.file_import import import_path
from trails.exchange.traces import inspect_log

_READING: Final = "reading the members as JSON"
_IMPORTING: Final = "importing it"
_AGAIN: Final = "importing it again"
_STREAMING: Final = "reading its samples"
_MOST: Final = 1_000
"""Messages of the long sample: half of them are answers of model calls."""
_START: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
# what getrusage gives would begin with what this process had when it made that one
_PEAK: Final = """
import sys, trails
from trails.exchange.file_import import import_path
from trails.exchange.traces import inspect_log
if sys.argv[1] == "import":
    with trails.open(sys.argv[3], create=True) as store:
        import_path(store, sys.argv[2])
else:
    for part in inspect_log.stream([(sys.argv[2], open(sys.argv[2], "rb"))]):
        pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def run(setting: Setting) -> list[Result]:
    """Measure the seconds and the memory of both; the memory is the peak of a process of its own, its program and all."""
    return [_one_long(setting), _many(setting)]


def _one_long(setting: Setting) -> Result:
    count = min(setting.size.turns, _MOST)
    file = _written(setting.folder / "long.eval", [_sample(1, count, setting.seed)])
    seconds = medians(
        [
            Contestant(_READING, lambda: timed(lambda: _read(file))),
            Contestant(_IMPORTING, lambda: _imported(file, setting.folder / "new", count)),
            Contestant(_AGAIN, lambda: _again(file, setting.folder / "there")),
        ],
        setting.size.rounds,
    )
    peak = _peak("import", file, setting.folder / "apart")
    return Result(
        name="inspect-long",
        title=f"a sample of Inspect with {count // 2:,} model calls over {count:,} messages of 400 bytes",
        baseline=_READING,
        medians=seconds,
        counts={"bytes of the file": file.stat().st_size},
        targets=[
            Target("importing it", seconds[_IMPORTING], 1.0, "s"),
            Target("the memory of a process that imports it", peak / 1e3, 150.0, "MB"),
        ],
    )


def _many(setting: Setting) -> Result:
    most, few = setting.size.sessions, max(1, setting.size.sessions // 10)
    files = {
        count: _written(
            setting.folder / f"{count}.eval", (_sample(number, 4, setting.seed + number) for number in range(count))
        )
        for count in (few, most)
    }
    seconds = medians(
        [
            Contestant(_READING, lambda: timed(lambda: _read(files[most]))),
            Contestant(_STREAMING, lambda: timed(lambda: _streamed(files[most]))),
        ],
        min(setting.size.rounds, 5),
    )
    peaks = {count: _peak("stream", file, setting.folder / "none") for count, file in files.items()}
    stored = {count: _peak("import", file, setting.folder / "apart") for count, file in files.items()}
    return Result(
        name="inspect-many",
        title=f"{most:,} samples of Inspect with 4 messages each, read one at a time",
        baseline=_READING,
        medians=seconds,
        counts={"bytes of the file": files[most].stat().st_size},
        targets=[
            Target(f"memory beyond that of {few:,} samples", (peaks[most] - peaks[few]) / 1e3, 20.0, "MB"),
            Target(f"importing them: memory beyond that of {few:,}", (stored[most] - stored[few]) / 1e3, 100.0, "MB"),
        ],
    )


# --- logs


def _sample(number: int, count: int, seed: int) -> dict[str, Any]:
    said = [_message(number, place, each.role, each.text) for place, each in enumerate(messages(count, seed))]
    return {
        "id": number,
        "epoch": 1,
        "messages": said,
        "events": [_call(place, said) for place in range(1, count, 2)],
        "events_data": {"messages": said, "calls": []},
        "scores": {"match": {"value": "C", "explanation": "as it should be"}},
    }


def _message(number: int, place: int, role: str, text: str) -> dict[str, Any]:
    return {"id": f"m{number}-{place}", "role": role, "content": text}


def _call(place: int, said: Sequence[Any]) -> dict[str, Any]:
    time = (_START + timedelta(seconds=place)).isoformat()
    usage = {"input_tokens": 100 * place, "output_tokens": 100, "total_tokens": 100 * place + 100}
    choices = [{"message": said[place], "stop_reason": "stop"}]
    called = {"event": "model", "model": "m-1", "span_id": "s", "timestamp": time, "completed": time}
    return {**called, "input": [], "input_refs": [[0, place]], "output": {"choices": choices, "usage": usage}}


def _written(file: Path, samples: Iterable[dict[str, Any]]) -> Path:
    header = {"eval_id": "ev", "task": "sums", "model": "m-1", "created": _START.isoformat(), "dataset": {"name": "d"}}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for sample in samples:
            opened.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        opened.writestr("header.json", json.dumps({"version": 2, "status": "success", "eval": header}))
    return file


# --- what is done with them


def _read(file: Path) -> None:
    with zipfile.ZipFile(file) as opened:
        for name in opened.namelist():
            json.loads(opened.read(name))


def _imported(file: Path, place: Path, expected: int) -> float:
    watch = Stopwatch()
    with trails.open(place, create=True) as store:
        with watch.timed():
            import_path(store, file)
        assert store.info()["turns"] == expected
    shutil.rmtree(place)
    return watch.seconds


def _again(file: Path, place: Path) -> float:
    with trails.open(place, create=True) as store:
        if not store.info()["turns"]:
            import_path(store, file)
        return timed(lambda: import_path(store, file))


def _streamed(file: Path) -> None:
    with file.open("rb") as opened:
        for _ in itertools.chain.from_iterable(part.sessions for part in inspect_log.stream([(str(file), opened)])):
            pass


def _peak(what: str, file: Path, place: Path) -> int:
    """Return the kilobytes (Linux) that a process had at most that imports a file, or reads its samples."""
    command = [sys.executable, "-c", _PEAK, what, str(file), str(place)]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=child_environment()).stdout
    shutil.rmtree(place, ignore_errors=True)
    return int(told)
