"""Read ATIF, Harbor's trajectories of agents' runs (versions 1.0 to 1.8).

A step is what was said and what came back: it makes a turn, and one for each of its results. A sub-agent's trajectory, kept
within its parent's or in a file beside it, is a session that the parent's spawned. Steps that a trajectory copied from another
one make no turns where that one is at hand: it is a fork of it from there.

Rules that are followed, and noted where they decide something: results that name no call are those of the step's calls in order,
where there are as many; totals (`final_metrics`) hold more than the steps, sub-agents and lost calls, and are metadata.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trails.exchange import json_files, source_values
from trails.exchange.format_detection import outline_of_first
from trails.exchange.json_files import Json, as_list, as_listed, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.record_checks import Reading
from trails.exchange.source_transcript import Piece, Problem, SourceScore, SourceTurn, Transcript
from trails.exchange.source_values import as_content, base_name, leftover, parse_time, valid_name, without_empty
from trails.usage import cost_of, token_count, with_source

SOURCE: Final = "atif"

_VERSION: Final = "ATIF-v"
_ROLES: Final = {"agent": "assistant", "user": "user", "system": "system"}
_ROOT_OWN: Final = frozenset({"steps", "subagent_trajectories", "agent"})
_USAGE: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
_COUNTED_BESIDE: Final = ("cache_creation_input_tokens", "reasoning_tokens", "reasoning_output_tokens")
_STEP_OWN: Final = (
    *("step_id", "timestamp", "source", "message", "model_name", "reasoning_content"),
    *("tool_calls", "metrics", "observation", "is_copied_context"),
)
_CALL_NAMES: Final = {"id": "tool_call_id", "name": "function_name", "arguments": "arguments"}
_RESULT_OWN: Final = frozenset({"source_call_id", "content", "subagent_trajectory_ref"})


def sniff(head: bytes) -> bool:
    """Tell whether a file is a trajectory.

    >>> sniff(b'{"schema_version": "ATIF-v1.7", "session_id": "s"'), sniff(b'{"schema_version": "1.0"}')
    (True, False)
    """
    return (outline_of_first(head).get("schema_version") or "").startswith(_VERSION)


def companions(path: Path) -> list[Path]:
    """Return a file with the files in its folder that it refers to."""
    found = {path: None}
    waiting = [path]
    while waiting:
        read = json_files.read_object(waiting.pop().read_bytes())
        for name in _paths_in(read) if isinstance(read, dict) else ():
            beside = path.parent / name
            if beside not in found and beside.is_file():
                found[beside] = None
                waiting.append(beside)
    return list(found)


def _paths_in(root: Json) -> Iterator[str]:
    """Yield the names of files that a trajectory refers to."""
    waiting: list[object] = [root]
    while waiting:
        here = as_object(waiting.pop())
        waiting += as_list(here.get("subagent_trajectories"))
        refs = [ref for _, ref in _references(here)]
        named = (here.get("continued_trajectory_ref"), *(ref.get("trajectory_path") for ref in refs))
        yield from (name for each in named if (name := _file_name(each)) is not None)


def _file_name(path: object) -> str | None:
    """Return a path if it is a plain file name, else None."""
    if not isinstance(path, str) or re.search(r"[/\\\x00]", path) or path in ("", ".", ".."):
        return None
    return path


def _references(root: Json) -> Iterator[tuple[object, Json]]:
    """Yield (step id, reference) for each reference to a sub-agent's trajectory."""
    for step in as_list(root.get("steps")):
        for result in as_list(value_at(step, "observation", "results")):
            refs = objects_in(as_listed(value_at(result, "subagent_trajectory_ref")))
            yield from ((value_at(step, "step_id"), ref) for ref in refs)


def parse(files: Sequence[tuple[str, bytes]]) -> Transcript:
    """Return what trajectories (name and bytes of each) say together; nothing that they hold raises."""
    reading = _Trajectories()
    for name, data in files:
        reading.add(name, data)
    return reading.transcript()


@dataclass(slots=True, eq=False)
class _Trajectory:
    """A trajectory, its place and its relations."""

    root: Json
    file: str
    parent: _Trajectory | None = None
    inner: list[_Trajectory] = field(default_factory=list)
    spawned_by: _Trajectory | None = None
    at_step: object = None
    continues: _Trajectory | None = None
    id: str = ""
    path: tuple[SourceTurn, ...] = ()
    copied_from: _Trajectory | None = None


class _Trajectories:
    """All trajectories of all files."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._all: list[_Trajectory] = []
        self._files: dict[str, _Trajectory] = {}
        self._odd: Counter[str] = Counter()

    def add(self, name: str, data: bytes) -> None:
        said: list[str] = []
        read = json_files.read_object(data, notes=said)
        self._reading.notes += [f"{base_name(name)} {each}" for each in said]
        if isinstance(read, Problem):
            self._reading.problems.append(replace(read, reason=f"{base_name(name)} {read.reason}"))
            return
        waiting: list[tuple[object, _Trajectory | None]] = [(read, None)]
        while waiting:
            root, parent = waiting.pop(0)
            if not isinstance(root, dict) or not isinstance(root.get("steps"), list):
                self._reading.refuse(0, f"{base_name(name)} holds what is no trajectory: it has no steps", root)
                continue
            made = _Trajectory(root, name, parent)
            self._reading.count("trajectory")
            self._all.append(made)
            if parent is None:
                self._files[base_name(name)] = made
            else:
                parent.inner.append(made)
            waiting += [(each, made) for each in as_list(root.get("subagent_trajectories"))]

    def transcript(self) -> Transcript:
        for each in self._all:
            self._link(each)
        for each in self._ordered():
            each.id = _id_of(each.root)
            self._read(each)
        what = "trajectories have the id and the opening of another one; each is a state of the same session"
        self._odd[what] += len(self._all) - len({each.id for each in self._all})
        for each in self._all:
            self._session(each)
        self._reading.note_counts(self._odd)
        return self._reading.transcript()

    # --- how they belong together

    def _link(self, each: _Trajectory) -> None:
        """Find the trajectories that one refers to."""
        for step, ref in _references(each.root):
            found = self._referred(each, ref)
            if found is None:
                self._odd["sub-agent(s) are referred to whose trajectory is not here"] += 1
            elif found is not each and found.spawned_by is None:
                found.spawned_by, found.at_step = each, step
        for inner in each.inner:
            inner.spawned_by = inner.spawned_by or each
        after = each.root.get("continued_trajectory_ref")
        if after is not None:
            later = self._files.get(_file_name(after) or "")
            if later is None or later is each:
                self._odd["continuation(s) are named whose file is not here"] += 1
            else:
                later.continues = each

    def _referred(self, each: _Trajectory, ref: Json) -> _Trajectory | None:
        wanted = ref.get("trajectory_id")
        here: _Trajectory | None = each
        while here is not None and wanted is not None:
            if (found := next((e for e in here.inner if e.root.get("trajectory_id") == wanted), None)) is not None:
                return found
            here = here.parent
        return self._files.get(_file_name(ref.get("trajectory_path")) or "")

    def _ordered(self) -> list[_Trajectory]:
        """Return all by dependency, in the order in which they are referred to; those in a circle keep theirs."""
        above = {each: each.spawned_by or each.continues for each in self._all}
        ordered = dict.fromkeys(each for each in self._all if above[each] is None)
        level = list(ordered)
        while level:
            named = [self._referred(here, ref) for here in level for _, ref in _references(here.root)]
            below = (each for each in (*named, *self._all) if each is not None and above[each] in level)
            level = [each for each in dict.fromkeys(below) if each not in ordered]
            ordered |= dict.fromkeys(level)
        return list(ordered | dict.fromkeys(self._all))

    # --- turns

    def _read(self, each: _Trajectory) -> None:
        """Make a trajectory's turns, and find what it shares with one before."""
        steps = list(self._steps(each))
        path = [turn for turns, _ in steps for turn in turns]
        copied = sum(len(turns) for turns, is_copied in steps if is_copied)
        flagged = any(is_copied for _, is_copied in steps)
        candidates = [other for other in self._all if other.path and other is not each] if flagged else []
        if each.continues is not None and each.continues.path:
            candidates.append(each.continues)
        most = copied if flagged else len(path) if each.continues is not None else 0
        said = list(map(_gist, path[:most]))
        lengths = [source_values.common_length(list(map(_gist, other.path)), said) for other in candidates]
        if shared := max(lengths, default=0):
            each.copied_from = candidates[lengths.index(shared)]
            path[:shared] = each.copied_from.path[:shared]
        if shared < copied:
            self._odd["turn(s) are copies of what is not here, and are kept"] += copied - shared
        each.path = tuple(path)

    def _steps(self, each: _Trajectory) -> Iterator[tuple[list[SourceTurn], bool]]:
        """Yield the turns of each step, and whether it is a copy."""
        agent = as_object(each.root.get("agent"))
        for place, step in enumerate(each.root["steps"]):
            if not isinstance(step, dict) or not isinstance(step.get("source"), str) or step["source"] not in _ROLES:
                self._reading.refuse(0, f"{base_name(each.file)}: step {place + 1} has no source that is known", step)
                continue
            self._reading.count(f"step/{step['source']}")
            name = f"{each.id}/{place + 1}"
            turns = [self._spoken(name, step, valid_name(agent.get("model_name"))), *self._results(name, step)]
            where = f"{base_name(each.file)}: step {place + 1}"
            kept = [turn for turn in turns if self._reading.keeps(turn, 0, where, step)]
            yield kept, step.get("is_copied_context") is True

    def _spoken(self, name: str, step: Json, model: str | None) -> SourceTurn:
        calls, extras = source_values.named_calls(step.get("tool_calls"), _CALL_NAMES)
        metrics = as_object(step.get("metrics"))
        usage: dict[str, Any] = without_empty({key: metrics.get(key) for key in _USAGE})
        if "cost_usd" in usage:
            usage["cost"] = usage.pop("cost_usd")
        usage |= _beside(metrics, step, usage)
        content = step.get("message")
        if thought := step.get("reasoning_content"):
            said = [{"type": "text", "text": content}] if as_text(content) else as_list(content)
            content = [{"type": "reasoning", "text": thought}, *said]
        is_model = step.get("source") == "agent" and step.get("llm_call_count") != 0
        return SourceTurn(
            role=_ROLES[step["source"]],
            pieces=(Piece(name, as_content(content)),),
            time=parse_time(step.get("timestamp")),
            model=(valid_name(step.get("model_name")) or model) if is_model else None,
            usage=with_source(usage, "atif") if usage else None,
            tool_calls=calls,
            meta=leftover(step, _STEP_OWN)
            | without_empty({"tool_calls": extras, "metrics": without_keys(metrics, *_USAGE)}),
        )

    def _results(self, name: str, step: Json) -> list[SourceTurn]:
        calls = [as_object(call).get("tool_call_id") for call in as_list(step.get("tool_calls"))]
        results = as_list(value_at(step, "observation", "results"))
        unnamed = [each for each in results if value_at(each, "source_call_id") is None]
        in_order = bool(results) and len(unnamed) == len(results) == len(calls)
        if in_order:
            self._odd["result(s) name no call, and are those of the step's calls in order"] += len(results)
        made, time = [], parse_time(step.get("timestamp"))
        for place, result in enumerate(results):
            self._reading.count("result")
            held = as_object(result)
            named = valid_name(calls[place] if in_order else held.get("source_call_id"))
            meta = leftover(held, _RESULT_OWN) | without_empty({"subagents": held.get("subagent_trajectory_ref")})
            content = as_content(held.get("content", None if held else result))
            pieces = (Piece(f"{name}/{place + 1}", content),)
            made.append(SourceTurn("tool", pieces, time=time, tool_call_id=named, meta=meta))
        return made

    # --- sessions

    def _session(self, each: _Trajectory) -> None:
        root = each.root
        agent = as_object(root.get("agent"))
        meta = leftover(root, _ROOT_OWN)
        if "scores" in _exported(root):
            trails = without_keys(_exported(root), "scores")
            meta["extra"] = without_empty({**as_object(root["extra"]), "trails": trails})
        meta |= {"model": agent.get("model_name"), "agent": without_keys(agent, "name", "model_name")}
        meta |= {"spawned_at_step": each.at_step}
        spawner, origin = each.spawned_by and each.spawned_by.id, each.copied_from and each.copied_from.id
        if spawner and origin:
            meta["spawned_by"] = spawner
        about: dict[str, Any] = {"created": next((turn.time for turn in each.path if turn.time is not None), None)}
        about |= {"agent": valid_name(agent.get("name")), "scores": tuple(self._scores(each)), "files": (each.file,)}
        self._reading.add_session(SOURCE, each.id, (each.path,), meta, spawned_by=spawner, copied_from=origin, **about)

    def _scores(self, each: _Trajectory) -> Iterator[SourceScore]:
        """Yield the scores that an export of Trails has put under `extra`."""
        own = {name for turn in each.path for name in turn.source_ids}
        for held in map(as_object, as_list(_exported(each.root).get("scores"))):
            of = None
            if (step := held.get("step_id")) is not None:
                result = held.get("result")
                of = f"{each.id}/{step}" if result is None else f"{each.id}/{step}/{result}"
            name, by, version = (valid_name(held.get(key)) for key in ("name", "by", "version"))
            if name is None or (of is not None and of not in own):
                self._odd["score(s) have no name, or are of steps that are copies or not here; not kept"] += 1
                continue
            yield SourceScore(
                id=source_values.score_id(SOURCE, each.id, of, name, held.get("value"), by, version, held.get("time")),
                name=name,
                value=held.get("value"),
                by=by or f"agent:{SOURCE}",
                reason=as_text(held.get("reason")),
                version=version,
                time=parse_time(held.get("time")),
                of=of,
            )


def _exported(root: Json) -> Json:
    """Return the fields that an export of Trails added to `extra`."""
    return as_object(value_at(root, "extra", "trails"))


def _id_of(root: Json) -> str:
    """Return a trajectory's id: its name, and a hash up to its first answer."""
    named = source_values.first_name(root.get("trajectory_id"), root.get("session_id"))
    opening = []
    for step in map(as_object, root["steps"]):
        opening.append([step.get("source"), step.get("message"), step.get("tool_calls")])
        if step.get("source") == "agent" and step.get("is_copied_context") is not True:
            break
    said = json.dumps([value_at(root, "agent", "name"), opening], sort_keys=True)
    hashed = hashlib.sha256(said.encode()).hexdigest()[:12]
    return f"{named}-{hashed}" if named else hashed


def _gist(turn: SourceTurn) -> object:
    """Return what turns have in common that say the same."""
    return turn.role, turn.content, turn.tool_calls


def _beside(metrics: Json, step: Json, usage: Mapping[str, Any]) -> Json:
    """Return the counts in `extra`: cache writes, reasoning, and a cost."""
    extra = as_object(metrics.get("extra"))
    made = {name: extra[name] for name in _COUNTED_BESIDE if token_count(extra.get(name))}
    lasting = as_object(extra.get("cache_creation"))
    if any(map(token_count, lasting.values())):
        made["cache_creation"] = lasting
    told = (extra.get("cost_usd"), extra.get("cost"), value_at(step, "extra", "cost"))
    cost = next((each for each in told if cost_of({"cost": each}) is not None), None)
    return made if cost is None or "cost" in usage else made | {"cost": cost}
