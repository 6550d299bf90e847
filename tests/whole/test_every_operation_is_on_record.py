"""Every public operation either leaves the store as it was, or leaves on record who did what to which session, and when.

The table below names each of them. One that is not in it fails by its name; one that changes quads without that record fails, and
so does one that is said to read and changes any quad.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.runs import counter
from trails import Inbound, Ledger, Payload, Repository, Router, Runs, Session, Tree
from trails.audit import audit, evidence_pack, find_near_copies
from trails.exchange.file_import import export_session, import_bytes, import_path
from trails.exchange.openclaw.openclaw_export import export_folder
from trails.exchange.openclaw.openclaw_folder import import_folder
from trails.exchange.rdf_files import import_rdf
from trails.integrity.signed_notes import new_key, new_principal_key
from trails.provenance import (
    delete_document,
    document_bytes,
    documents,
    draw,
    export,
    import_document,
    read_document,
    validate,
)
from trails.rdf import vocab
from trails.replay.rerun import rerun, rerun_many
from trails.runtime.routing.access_rules import View
from trails.runtime.tree_node import Node
from trails.session.holds import Holds
from trails.session.maintenance import Maintenance
from trails.session.proofs import Proofs
from trails.session.refs import Refs
from trails.session.registers import Registers
from trails.session.retention import Retention
from trails.session.tags_notes import Notes, Tags
from trails.session.work_files import WorkFiles

CLASSES = (
    Repository,
    Session,
    Refs,
    Tags,
    Notes,
    Registers,
    Holds,
    Retention,
    WorkFiles,
    Proofs,
    Maintenance,
    Ledger,
    Router,
    View,
    Runs,
    Tree,
    Node,
)
FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(import_path, import_bytes, import_folder, import_rdf, export_session, export_folder),
    *(export, draw, validate, import_document, read_document, document_bytes, documents, delete_document),
    *(audit, find_near_copies, evidence_pack.make_pack, rerun, rerun_many),
)
WITNESS = "urn:trails:agent:witness"
"""Who the process says it is: nobody else is named in any of these."""
WHO = frozenset({vocab.ASSOCIATED_WITH, vocab.ATTRIBUTED_TO, vocab.FORKED_BY})
DONE_TO = ("urn:trails:session:", "urn:trails:conversation:", "urn:trails:prov:", "urn:trails:register:")
"""What something may be done to: a session, or what belongs to one; a conversation, by its key; a PROV document; a register."""
EVERY = "SELECT ?session { ?session a trails:Session }"
PI = (
    b'{"type":"session","version":3,"id":"in","timestamp":"2026-01-28T10:00:00.000Z","cwd":"/"}\n'
    b'{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-28T10:00:01.000Z","message":{"role":"user","content":"Hi"}}'
)
PROVN = b"document prefix ex <http://example.org/> entity(ex:a) endDocument"


class World:
    """A store with something of everything that operations are done to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = trails.open(":memory:", actor="agent:witness")
        plan = self.store.create(id="plan", principal="alice", agent="planner", system="Be brief")
        plan.append("user", "Plan a trip", payloads=[Payload(data=b"bytes")])
        plan.append("assistant", "Where to?", model="m")
        plan.append("user", "Zermatt")
        plan.persist()
        self.plan = plan
        fork = plan.fork(at=2, id="fork")
        fork.append("user", "Bern")
        fork.persist()
        self.fork = fork
        self.tag = self.store.tags.add("v1", "fork@2")
        self.note = self.store.notes.add("plan", 1, "Why?")
        self.score = self.store.score("plan", "tone", "polite")
        key, _ = new_key("log")
        self.key = key
        self.checkpoint = self.store.proofs.checkpoint(key)

    @cached_property
    def ledger(self) -> Ledger:
        made = Ledger(self.store)
        made.receive("plan", "Hello", source="chat")
        return made

    @cached_property
    def router(self) -> Router:
        made = Router(self.store, config={"session": {"dmScope": "per-peer"}})
        made.route(Inbound(channel="chat", peer="kim", content="Hello"))
        made.route(Inbound(channel="chat", peer="lou", content="Hello"))
        return made

    @property
    def kim(self) -> str:
        return self.router.key_of(Inbound(channel="chat", peer="kim"))

    @property
    def lou(self) -> str:
        return self.router.key_of(Inbound(channel="chat", peer="lou"))

    @cached_property
    def runs(self) -> Runs:
        made = Runs(self.store, agent=lambda step: "done", announce=lambda word: None, new_id=counter())
        made.spawn("agent:main:main", "Look for trains")
        return made

    @property
    def run_id(self) -> str:
        return self.runs.list()[0].run_id

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.store)

    @cached_property
    def main(self) -> Node:
        return self.tree.main("chief", "phone", id="phone")

    @cached_property
    def branch(self) -> Node:
        return self.main.spawn("branch", "Look it up", id="looker")

    @cached_property
    def document(self) -> str:
        return import_document(self.store, PROVN, format="provn").iri

    def quads(self) -> set[Quad]:
        return set(self.store.store.quads((None, None, None, None)))


Do = Callable[[World], Any]


@dataclass(frozen=True)
class Reads:
    """It changes no quad."""

    do: Do
    ready: Do = lambda _: None
    """What is there before."""


@dataclass(frozen=True)
class Changes:
    """It changes quads, and says who, when and what."""

    do: Do
    ready: Do = lambda _: None
    by: str | None = WITNESS
    """Who is on record; None: whoever the data is from, as the author of a turn."""
    why: str = ""
    """Why it is not the one who called, where it is not."""


@dataclass(frozen=True)
class Exempt:
    """It is not run here."""

    why: str


Operation = Reads | Changes | Exempt
AUTHOR = "a turn says whose it is: its author, and when it was written"
FOR = "a session says for whom and by what it runs, and when it was made; its turns say whose they are"


def batched(world: World) -> None:
    """Move a ref, and store a turn of the plan, in one commit."""
    with world.store.commit() as batch:
        batch.add(world.plan).append("user", "more")
        batch.set_ref("main", "fork")


def streamed(world: World) -> None:
    """Write a turn of the plan piece by piece."""
    with world.plan.streaming("assistant") as turn:
        turn.write("More")
    world.plan.persist()


def grown(w: World) -> Session:
    w.plan.append("user", "More")
    return w.plan


def answered(w: World) -> Any:
    return w.ledger.process("plan", said)


def failed(w: World) -> Any:
    def half(running: Any) -> str:
        running.append("assistant", "Half")
        raise RuntimeError("no model")

    with pytest.raises(RuntimeError):
        w.ledger.process("plan", half)
    return w.ledger.exchanges("plan")[-1]


def done(w: World) -> Any:
    w.branch.complete("found")
    return w.main.results()[0]


def exported(w: World, name: str = "plan") -> bytes:
    out = io.BytesIO()
    export_session(w.store, name, "nquads", out)
    return out.getvalue()


def file(w: World, name: str, data: bytes) -> Path:
    path = w.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def state_folder(w: World) -> Path:
    file(w, "state/agents/main/sessions/sessions.json", b'{"agent:main:main": {"sessionId": "in", "updatedAt": 5}}')
    file(w, "state/agents/main/sessions/in.jsonl", PI)
    return w.folder / "state"


def other_export() -> bytes:
    with trails.open(":memory:") as other:
        made = other.create(id="other")
        made.append("user", "Hi")
        made.persist()
        out = io.BytesIO()
        export_session(other, "other", "nquads", out)
        return out.getvalue()


def ready_for_retention(world: World) -> None:
    """Let a rule stand by which sessions go that no tag names."""
    world.store.tags.remove("v1")
    world.store.retention.add(query=EVERY)


def with_a_file(world: World) -> None:
    """Let a turn write a file."""
    world.plan.append("tool", "Written.", files={"a.py": b"x = 1"})
    world.plan.persist()


OPERATIONS: dict[str, Operation] = {
    # --- Repository
    "Repository.session": Changes(lambda w: w.store.session("new"), by=None, why=FOR),
    "Repository.at": Reads(lambda w: w.store.at(datetime.now(UTC))),
    "Repository.refresh": Reads(lambda w: w.store.refresh()),
    "Repository.sync": Reads(lambda w: w.store.sync()),
    "Repository.find": Reads(lambda w: w.store.find({"team": "none"})),
    "Repository.payload": Reads(lambda w: w.store.payload(w.plan[0].payloads[0])),
    "Session.payload": Reads(lambda w: w.plan.payload(w.plan[0].payloads[0])),
    "Session.refresh": Reads(lambda w: w.plan.refresh()),
    "Repository.summaries": Reads(lambda w: w.store.summaries()),
    "Repository.stats": Reads(lambda w: w.store.stats()),
    "Repository.cost": Reads(lambda w: w.store.cost()),
    "Repository.close": Exempt("it ends the handle; what it flushes was committed before"),
    "Repository.create": Reads(lambda w: w.store.create(id="new")),
    "Repository.load": Reads(lambda w: w.store.load("plan")),
    "Repository.replay": Reads(lambda w: w.store.replay("plan")),
    "Repository.player": Reads(lambda w: w.store.player("plan").model(w.plan[:1])),
    "Repository.record": Reads(lambda w: w.store.record("plan")),
    "Repository.branches": Reads(lambda w: w.store.branches("plan")),
    "Repository.resolve": Reads(lambda w: w.store.resolve("plan")),
    "Repository.list": Reads(lambda w: w.store.list()),
    "Repository.set_label": Changes(lambda w: w.store.set_label("plan", "trip")),
    "Repository.delete": Changes(lambda w: w.store.delete("plan", children="cascade")),
    "Repository.detach": Changes(lambda w: w.store.detach("fork")),
    "Repository.flatten": Changes(lambda w: w.store.flatten("fork", id="flat")),
    "Repository.align": Reads(lambda w: w.store.align(["plan", "fork"])),
    "Repository.diff": Reads(lambda w: w.store.diff("plan", "fork")),
    "Repository.context": Reads(lambda w: w.store.context("plan")),
    "Repository.search": Reads(lambda w: w.store.search("Zermatt")),
    "Repository.subscribe": Reads(lambda w: w.store.subscribe(lambda notice: None)),
    "Repository.changes": Reads(lambda w: asyncio.run(_following(w.store))),
    "Repository.forest": Reads(lambda w: w.store.forest()),
    "Repository.ui": Reads(lambda w: w.store.ui().close()),
    "Repository.compare": Reads(lambda w: w.store.compare("plan")),
    "Repository.query": Reads(lambda w: w.store.query("deletions")),
    "Repository.select": Reads(lambda w: w.store.select("deletions")),
    "Repository.rows": Reads(lambda w: list(w.store.rows("SELECT ?s { ?s a trails:Session }"))),
    "Repository.ask": Reads(lambda w: w.store.ask("ASK { ?s a trails:Session }")),
    "Repository.construct": Reads(lambda w: w.store.construct("DESCRIBE <urn:trails:session:plan>")),
    "Repository.graph": Reads(lambda w: list(w.store.graph("plan"))),
    "Repository.redact": Changes(lambda w: w.store.redact("plan", 2)),
    "Repository.erase": Changes(lambda w: w.store.erase("plan", 0)),
    "Repository.redact_matching": Changes(lambda w: w.store.redact_matching("Zermatt")),
    "Repository.prune": Changes(lambda w: w.store.prune(keep_count=0), lambda w: w.store.tags.remove("v1")),
    "Repository.verify": Reads(lambda w: w.store.verify()),
    "Repository.info": Reads(lambda w: w.store.info()),
    # --- Session
    "Session.append": Reads(lambda w: w.plan.append("user", "More")),
    "Session.append_message": Reads(lambda w: w.plan.append_message({"role": "user", "content": "More"})),
    "Session.extend": Reads(lambda w: w.plan.extend([{"role": "user", "content": "More"}])),
    "Session.streaming": Changes(streamed, by=None, why=AUTHOR),
    "Session.discard_pending": Reads(lambda w: w.plan.discard_pending(), grown),
    "Session.set_system": Reads(lambda w: w.plan.set_system("Be kind")),
    "Session.persist": Changes(lambda w: grown(w).persist(), by=None, why=AUTHOR),
    "Session.sign": Changes(
        lambda w: w.plan.sign(new_principal_key("alice")[0]),
        by=None,
        why="a signature is the principal's whose key it is",
    ),
    "Session.signatures": Reads(lambda w: w.plan.signatures()),
    "Session.keep_as_fork": Changes(lambda w: w.plan.keep_as_fork(id="kept"), grown),
    "Session.set_label": Changes(lambda w: w.plan.set_label("trip")),
    "Session.fork": Reads(lambda w: w.plan.fork(at=1, id="other")),
    "Session.branches": Reads(lambda w: w.plan.branches()),
    "Session.diff": Reads(lambda w: w.plan.diff("fork")),
    "Session.tail": Reads(lambda w: w.plan.tail()),
    "Session.delete": Changes(lambda w: w.fork.delete(children="cascade")),
    "Session.detach": Changes(lambda w: w.fork.detach()),
    "Session.flatten": Changes(lambda w: w.fork.flatten(id="flat")),
    "Session.prov": Reads(lambda w: w.plan.prov()),
    "Session.table": Reads(lambda w: w.plan.table()),
    "Session.replay": Reads(lambda w: w.plan.replay()),
    "Session.cherry_pick": Reads(lambda w: w.fork.cherry_pick("plan", 2)),
    "Session.take": Changes(lambda w: w.plan.take("fork", "It went well."), by=None, why=AUTHOR),
    "Session.blame": Reads(lambda w: w.plan.blame()),
    "Session.bisect": Reads(lambda w: w.plan.bisect(lambda turns: len(turns) < 2)),
    "Session.context": Reads(lambda w: w.plan.context()),
    "Session.compact": Changes(lambda w: w.plan.compact(lambda _: "short", keep_turns=1), by=None, why=AUTHOR),
    "Session.run_with_compaction": Reads(lambda w: w.plan.run_with_compaction(lambda _: "yes", lambda _: "short")),
    # --- refs and batches
    "Refs.set": Changes(lambda w: w.store.refs.set("main", "plan", 1)),
    "Refs.move": Changes(lambda w: w.store.refs.move("main", "plan", 1), lambda w: w.store.refs.set("main", "plan")),
    "Refs.find": Reads(lambda w: w.store.refs.find("main")),
    "Refs.get": Reads(lambda w: w.store.refs.get("main"), lambda w: w.store.refs.set("main", "plan")),
    "Refs.list": Reads(lambda w: w.store.refs.list()),
    "Refs.history": Reads(lambda w: w.store.refs.history("main"), lambda w: w.store.refs.set("main", "plan")),
    "Refs.remove": Changes(lambda w: w.store.refs.remove("main"), lambda w: w.store.refs.set("main", "plan")),
    "Repository.checkout": Reads(lambda w: w.store.checkout("main"), lambda w: w.store.refs.set("main", "plan")),
    "Repository.checkout, pop": Changes(
        lambda w: w.store.checkout("main").pop(), lambda w: w.store.refs.set("main", "plan")
    ),
    "Repository.commit": Changes(batched),
    # --- tags and notes
    "Tags.add": Changes(lambda w: w.store.tags.add("v2", "plan")),
    "Tags.find": Reads(lambda w: w.store.tags.find("v1")),
    "Tags.get": Reads(lambda w: w.store.tags.get("v1")),
    "Tags.list": Reads(lambda w: w.store.tags.list()),
    "Tags.remove": Changes(lambda w: w.store.tags.remove("v1")),
    "Notes.add": Changes(lambda w: w.store.notes.add("plan", 0, "Where?")),
    "Notes.find": Reads(lambda w: w.store.notes.find(w.note.id)),
    "Notes.get": Reads(lambda w: w.store.notes.get(w.note.id)),
    "Notes.list": Reads(lambda w: w.store.notes.list("plan")),
    "Notes.remove": Changes(lambda w: w.store.notes.remove(w.note.id)),
    # --- registers
    "Registers.flag_incident": Changes(lambda w: w.store.registers.flag_incident()),
    "Session.flag_incident": Changes(lambda w: w.plan.flag_incident("death")),
    "Registers.close_incident": Changes(
        lambda w: w.store.registers.close_incident(w.store.registers.incidents()[0].incident),
        lambda w: w.store.registers.flag_incident(),
    ),
    "Registers.incidents": Reads(lambda w: w.store.registers.incidents()),
    "Registers.set_purpose": Changes(lambda w: w.store.registers.set_purpose("Trips")),
    "Session.set_purpose": Changes(lambda w: w.plan.set_purpose("Trips", "a")),
    "Registers.purpose": Reads(lambda w: w.store.registers.purpose("plan")),
    "Registers.purposes": Reads(lambda w: w.store.registers.purposes()),
    "Registers.exports": Reads(lambda w: w.store.registers.exports()),
    "Registers.backups": Reads(lambda w: w.store.registers.backups()),
    "Registers.add_backup": Changes(lambda w: w.store.registers.add_backup("tape 1", "ab" * 32)),
    "Registers.destroyed_backup": Changes(
        lambda w: w.store.registers.destroyed_backup(w.store.registers.backups()[0].backup),
        lambda w: w.store.registers.add_backup("tape 1", "ab" * 32),
    ),
    # --- files of the work
    "WorkFiles.list": Reads(lambda w: w.plan.files.list()),
    "WorkFiles.history": Reads(lambda w: w.plan.files.history()),
    "WorkFiles.read": Reads(lambda w: w.plan.files.read("a.py"), with_a_file),
    "WorkFiles.patch": Reads(lambda w: w.plan.files.patch(w.plan.files.history()[0]), with_a_file),
    "WorkFiles.blame": Reads(lambda w: w.plan.files.blame("a.py"), with_a_file),
    "WorkFiles.changes": Reads(lambda w: w.plan.files.changes(w.folder)),
    "WorkFiles.checkout": Reads(lambda w: w.plan.files.checkout(w.folder / "tree"), with_a_file),
    # --- holds and retention
    "Holds.place": Changes(lambda w: w.store.holds.place("plan", reason="Case 7")),
    "Holds.lift": Changes(
        lambda w: w.store.holds.lift(w.store.holds.list()[0].hold),
        lambda w: w.store.holds.place("plan", reason="Case 7"),
    ),
    "Holds.list": Reads(lambda w: w.store.holds.list("plan")),
    "Retention.add": Changes(lambda w: w.store.retention.add(query=EVERY)),
    "Retention.end": Changes(
        lambda w: w.store.retention.end(w.store.retention.rules()[0].rule), lambda w: w.store.retention.add(query=EVERY)
    ),
    "Retention.rules": Reads(lambda w: w.store.retention.rules()),
    "Retention.apply": Changes(lambda w: w.store.retention.apply(), ready_for_retention),
    "Registers.reads": Reads(lambda w: w.store.registers.reads()),
    # --- scores
    "Repository.score": Changes(lambda w: w.store.score("plan#1", "tone", "rude")),
    "Repository.scores": Reads(lambda w: w.store.scores("plan")),
    "Repository.score_all": Changes(
        lambda w: w.store.score_all(["plan"], len), by="urn:trails:agent:len", why="the scorer is the function's name"
    ),
    "Repository.agreement": Reads(
        lambda w: w.store.agreement("tone", "agent:witness", "agent:witness"),
        lambda w: w.store.score("fork", "tone", "bad"),
    ),
    "Repository.remove_score": Changes(lambda w: w.store.remove_score(w.score.id)),
    # --- proofs and upkeep
    "Proofs.verify": Reads(lambda w: w.store.proofs.verify()),
    "Proofs.checkpoint": Reads(lambda w: w.store.proofs.checkpoint(w.key)),
    "Proofs.turn": Reads(lambda w: w.store.proofs.turn("plan", 0, w.checkpoint)),
    "Proofs.absence": Reads(lambda w: w.store.proofs.absence("removal", None, w.checkpoint, w.checkpoint)),
    "Proofs.growth": Reads(lambda w: w.store.proofs.growth(w.checkpoint, w.checkpoint)),
    "Maintenance.vacuum": Reads(lambda w: w.store.maintenance.vacuum()),
    "Maintenance.make_vectors": Exempt("an index beside the quads, made anew from them at any time; it writes no quad"),
    "Maintenance.drop_vectors": Exempt("an index beside the quads, made anew from them at any time; it writes no quad"),
    "Maintenance.backup": Exempt("a store in memory has no files; it copies files and writes no quad"),
    "Maintenance.dump": Reads(lambda w: w.store.maintenance.dump(w.folder / "dump")),
    # --- Ledger
    "Ledger.head": Reads(lambda w: w.ledger.head("plan"), lambda w: w.ledger),
    "Ledger.head_moves": Reads(lambda w: w.ledger.head_moves("plan"), answered),
    "Ledger.receive": Changes(
        lambda w: w.ledger.receive("plan", "More", source="chat", author="bob"),
        lambda w: w.ledger,
        by="urn:trails:principal:bob",
        why="a message is its author's; where the host names none it is nobody's until a turn says it",
    ),
    "Ledger.inbox": Reads(lambda w: w.ledger.inbox("plan"), lambda w: w.ledger),
    "Ledger.due": Reads(lambda w: w.ledger.due("plan"), lambda w: w.ledger),
    "Ledger.drop": Changes(lambda w: w.ledger.drop("plan", 1), lambda w: w.ledger),
    "Ledger.process": Changes(
        answered,
        lambda w: w.ledger,
        by="urn:trails:agent:planner",
        why="an exchange is the work of the session's agent",
    ),
    "Ledger.exchanges": Reads(lambda w: w.ledger.exchanges("plan"), answered),
    "Ledger.retry": Changes(
        lambda w: w.ledger.retry("plan", w.ledger.exchanges("plan")[-1].number),
        failed,
        by="urn:trails:agent:planner",
        why="an exchange is the work of the session's agent",
    ),
    "Ledger.fail": Exempt("it ends an exchange that a killed process left; tests/ledger shows what it records"),
    "Ledger.fork_from": Changes(
        lambda w: w.ledger.fork_from(w.store.load("plan").turns[-1], "Else", id="late"), answered
    ),
    "Ledger.events": Reads(lambda w: w.ledger.events("plan"), lambda w: w.ledger),
    "Ledger.content": Reads(lambda w: w.ledger.content(w.ledger.events("plan")[0]), lambda w: w.ledger),
    "Ledger.delivered": Exempt("it needs an answer that went out; tests/ledger shows what it records"),
    "Ledger.deliveries": Reads(lambda w: w.ledger.deliveries("plan"), answered),
}


async def _following(store: Repository) -> None:
    store.changes()


def said(running: Any) -> str:
    return "Yes"


async def _shorter(_: Any) -> str:
    return "short"


async def _answer(_: Any) -> str:
    return "yes"


OPERATIONS |= {
    # --- Router
    "Router.key": Reads(lambda w: w.router.key("main"), lambda w: w.router),
    "Router.key_of": Reads(lambda w: w.kim, lambda w: w.router),
    "Router.route": Changes(
        lambda w: w.router.route(Inbound(channel="chat", peer="max", content="Hello")),
        lambda w: w.router,
        by=None,
        why="a message is its author's",
    ),
    "Router.session": Changes(lambda w: w.router.session("agent:main:new"), lambda w: w.router, by=None, why=FOR),
    "Router.reset": Changes(
        lambda w: w.router.reset(w.kim),
        lambda w: w.router,
        by="urn:trails:agent:main",
        why="a policy's decision is the session's agent's",
    ),
    "Router.resolve": Reads(lambda w: w.router.resolve(key=w.kim), lambda w: w.router),
    "Router.list": Reads(lambda w: w.router.list(), lambda w: w.router),
    "Router.sessions": Reads(lambda w: w.router.sessions(w.kim), lambda w: w.router),
    "Router.entry": Reads(lambda w: w.router.entry(w.kim), lambda w: w.router),
    "Router.patch": Changes(lambda w: w.router.patch(w.kim, {"thinkingLevel": "high"}), lambda w: w.router),
    "Router.merge": Changes(lambda w: w.router.merge(w.kim, {"systemSent": True}), lambda w: w.router),
    "Router.count": Exempt("counters are running sums of what turns say of their model calls, and nobody's decision"),
    "Router.alias": Changes(lambda w: w.router.alias("boss", w.kim), lambda w: w.router),
    "Router.unalias": Changes(lambda w: w.router.unalias("boss"), lambda w: w.router.alias("boss", w.kim)),
    "Router.aliases": Reads(lambda w: w.router.aliases(), lambda w: w.router),
    "Router.promote": Changes(lambda w: w.router.promote(w.kim, "agent:main:kim"), lambda w: w.router),
    "Router.merge_into": Changes(lambda w: w.router.merge_into(w.kim, w.lou), lambda w: w.router),
    "Router.moves": Reads(lambda w: w.router.moves(), lambda w: w.router),
    "Router.migrate": Changes(lambda w: w.router.migrate("per-channel-peer"), lambda w: w.router),
    "Router.undo": Changes(
        lambda w: w.router.undo(w.router.moves()[-1].operation), lambda w: w.router.promote(w.kim, "agent:main:kim")
    ),
    "Router.may_send": Reads(lambda w: w.router.may_send(w.kim), lambda w: w.router),
    "Router.should_respond": Reads(lambda w: w.router.should_respond(w.kim), lambda w: w.router),
    "Router.may_message": Reads(lambda w: w.router.may_message(w.kim, w.lou), lambda w: w.router),
    "Router.history": Changes(
        lambda w: w.router.history(w.kim, w.lou),
        lambda w: w.router,
        by="urn:trails:agent:main",
        why="it is the agent of the session that asks who reads",
    ),
    "Router.view": Reads(lambda w: w.router.view(w.kim), lambda w: w.router),
    "Router.query": Reads(lambda w: w.router.query(w.kim, "ASK { ?s ?p ?o }"), lambda w: w.router),
    "Router.check": Reads(lambda w: w.router.check(w.kim), lambda w: w.router),
    "Router.delete": Changes(lambda w: w.router.delete(key=w.kim, force=True), lambda w: w.router),
    "View.select": Reads(lambda w: w.router.view(w.kim).select("SELECT * { ?s ?p ?o }"), lambda w: w.router),
    "View.ask": Reads(lambda w: w.router.view(w.kim).ask("ASK { ?s ?p ?o }"), lambda w: w.router),
    "View.construct": Reads(lambda w: w.router.view(w.kim).construct("DESCRIBE <urn:x>"), lambda w: w.router),
    "View.query": Reads(lambda w: w.router.view(w.kim).query("ASK { ?s ?p ?o }"), lambda w: w.router),
    # --- Runs
    "Runs.get": Reads(lambda w: w.runs.get(w.run_id), lambda w: w.runs),
    "Runs.list": Reads(lambda w: w.runs.list(), lambda w: w.runs),
    "Runs.session_of": Reads(lambda w: w.runs.session_of("agent:main:main"), lambda w: w.runs),
    "Runs.system_prompt": Reads(lambda w: w.runs.system_prompt(w.run_id), lambda w: w.runs),
    "Runs.spawn": Changes(
        lambda w: w.runs.spawn("agent:main:main", "Again"),
        lambda w: w.runs,
        by="urn:trails:agent:main",
        why="it is the agent of the session that asks who spawns",
    ),
    "Runs.spawn_tool": Changes(
        lambda w: w.runs.spawn_tool("agent:main:main", {"task": "Again"}),
        lambda w: w.runs,
        by="urn:trails:agent:main",
        why="it is the agent of the session that asks who spawns",
    ),
    "Runs.work": Changes(
        lambda w: w.runs.work(), lambda w: w.runs, by="urn:trails:agent:main", why="a run is the work of its agent"
    ),
    "Runs.work_wide": Changes(
        lambda w: w.runs.work_wide(),
        lambda w: w.runs,
        by="urn:trails:agent:main",
        why="a run is the work of its agent",
    ),
    "Runs.threads": Exempt("it does what `work` does, on threads of its own"),
    "Runs.on_event": Changes(
        lambda w: w.runs.on_event({"runId": w.run_id, "stream": "lifecycle", "data": {"phase": "end"}}),
        lambda w: w.runs,
        by="urn:trails:agent:main",
        why="a run is the work of its agent",
    ),
    "Runs.started": Changes(
        lambda w: w.runs.started(w.run_id),
        lambda w: w.runs,
        by="urn:trails:agent:main",
        why="a run is the work of its agent",
    ),
    "Runs.ended": Changes(
        lambda w: w.runs.ended(w.run_id, "ok"),
        lambda w: w.runs,
        by="urn:trails:agent:main",
        why="a run is the work of its agent",
    ),
    "Runs.wait": Reads(lambda w: w.runs.wait(w.run_id, timeout=0), lambda w: w.runs.work()),
    "Runs.recover": Exempt("it goes on with what a killed process left; tests/runs shows what it records"),
    "Runs.tick": Reads(lambda w: w.runs.tick(), lambda w: w.runs.work()),
    "Runs.ticking": Reads(lambda w: w.runs.ticking(), lambda w: w.runs.work()),
    "Runs.sweep": Reads(lambda w: w.runs.sweep(), lambda w: w.runs.work()),
    "Runs.withhold": Changes(lambda w: w.runs.withhold(w.run_id), lambda w: w.runs.work()),
    "Runs.send": Changes(
        lambda w: w.runs.send("agent:main:main", "Hello", session_key=w.lou, timeout_seconds=0),
        lambda w: (w.router, w.runs.work()),
        by="urn:trails:agent:main",
        why="it is the agent of the session that sends",
    ),
    "Runs.send_tool": Changes(
        lambda w: w.runs.send_tool("agent:main:main", {"sessionKey": w.lou, "message": "Hello", "timeoutSeconds": 0}),
        lambda w: (w.router, w.runs.work()),
        by="urn:trails:agent:main",
        why="it is the agent of the session that sends",
    ),
    "Runs.import_file": Reads(lambda w: w.runs.import_file(w.runs.export_file()), lambda w: w.runs),
    "Runs.export_file": Reads(lambda w: w.runs.export_file(), lambda w: w.runs),
    # --- Tree and Node
    "Tree.main": Changes(lambda w: w.main, lambda w: w.tree),
    "Tree.spawn": Changes(lambda w: w.tree.spawn(w.main.id, "branch", "Look"), lambda w: w.main),
    "Tree.get": Reads(lambda w: w.tree.get("phone"), lambda w: w.main),
    "Tree.mains": Reads(lambda w: w.tree.mains(), lambda w: w.main),
    "Tree.at_work": Reads(lambda w: w.tree.at_work("chief"), lambda w: w.main),
    "Tree.on_cancel": Reads(lambda w: w.tree.on_cancel(lambda *_: None), lambda w: w.main),
    "Tree.suspend_idlest": Changes(lambda w: w.tree.suspend_idlest(1), lambda w: w.branch),
    "Tree.sweep": Changes(lambda w: w.tree.sweep(datetime.now(UTC) + timedelta(days=9)), lambda w: w.branch),
    "Tree.tick": Changes(lambda w: w.tree.tick(datetime.now(UTC) + timedelta(days=9)), lambda w: w.branch),
    "Tree.ticking": Reads(lambda w: w.tree.ticking(), lambda w: w.branch),
    "Tree.incorporate": Changes(lambda w: w.tree.incorporate(w.main.results()[0], "Found"), done, by=None, why=AUTHOR),
    "Tree.dismiss": Changes(lambda w: w.tree.dismiss(w.main.results()[0]), done),
    "Tree.send": Changes(
        lambda w: w.tree.send(w.main, w.branch, "Hurry"),
        lambda w: w.branch,
        by="urn:trails:agent:chief",
        why="a message is its sender's",
    ),
    "Tree.withhold": Changes(lambda w: w.tree.withhold("looker"), lambda w: w.branch),
    "Node.append": Reads(lambda w: w.branch.append("user", "More"), lambda w: w.branch),
    "Node.persist": Changes(
        lambda w: (w.branch.append("user", "More"), w.branch.persist()), lambda w: w.branch, by=None, why=AUTHOR
    ),
    "Node.context": Reads(lambda w: w.branch.context(), lambda w: w.branch),
    "Node.spawn": Changes(lambda w: w.main.spawn("branch", "Look"), lambda w: w.main),
    "Node.children": Reads(lambda w: w.main.children(), lambda w: w.branch),
    "Node.results": Reads(lambda w: w.main.results(), done),
    "Node.complete": Changes(lambda w: w.branch.complete("found"), lambda w: w.branch),
    "Node.fail": Changes(lambda w: w.branch.fail("lost"), lambda w: w.branch),
    "Node.cancel": Changes(lambda w: w.branch.cancel("stop"), lambda w: w.branch),
    "Node.suspend": Changes(lambda w: w.branch.suspend(), lambda w: w.branch),
    "Node.resume": Changes(lambda w: w.branch.resume(), lambda w: w.branch.suspend()),
    # --- functions over a store
    "import_path": Changes(lambda w: import_path(w.store, file(w, "in.jsonl", PI))),
    "import_bytes": Changes(lambda w: import_bytes(w.store, PI)),
    "import_folder": Changes(lambda w: import_folder(w.store, state_folder(w))),
    "import_rdf": Changes(lambda w: import_rdf(w.store, other_export(), "nquads")),
    "export_session": Reads(exported),
    "export_folder": Reads(lambda w: export_folder(w.store, w.folder / "out"), lambda w: w.router),
    "export": Reads(lambda w: export(w.store, io.BytesIO(), format="provn")),
    "draw": Reads(lambda w: draw(w.store, format="svg", session="plan")),
    "validate": Reads(lambda w: validate(w.store)),
    "import_document": Changes(lambda w: w.document),
    "read_document": Reads(lambda w: read_document(w.store, w.document), lambda w: w.document),
    "document_bytes": Reads(lambda w: document_bytes(w.store, w.document), lambda w: w.document),
    "documents": Reads(lambda w: documents(w.store), lambda w: w.document),
    "delete_document": Changes(lambda w: delete_document(w.store, w.document), lambda w: w.document),
    "rerun": Changes(lambda w: rerun(w.plan, lambda run: run.input())),
    "rerun_many": Changes(lambda w: rerun_many(w.plan, lambda run: run.input(), 2)),
    "audit": Reads(lambda w: audit(w.store)),
    "find_near_copies": Reads(lambda w: find_near_copies(w.store, "what was said in all of these sessions")),
    "make_pack": Reads(lambda w: evidence_pack.make_pack(w.store, audit(w.store))),
    # --- what is stored by `persist`, and begun by what only reads
    "Repository.create, persisted": Changes(lambda w: w.store.create(id="new").persist(), by=None, why=FOR),
    "Session.fork, persisted": Changes(lambda w: w.plan.fork(at=1, id="other").persist()),
    "Session.set_system, persisted": Changes(lambda w: w.plan.persist(), lambda w: w.plan.set_system("Be kind")),
    "Session.cherry_pick, persisted": Changes(lambda w: w.fork.persist(), lambda w: w.fork.cherry_pick("plan", 2)),
    "Router.may_send, refused": Changes(
        lambda w: Router(w.store, config={"session": {"sendPolicy": {"default": "deny"}}}).may_send(w.kim),
        lambda w: w.router,
        by="urn:trails:agent:main",
        why="a policy's decision is about the session's agent",
    ),
}


def names() -> set[str]:
    """Every public method of the public classes, properties apart, and every public function over a store."""
    found = {function.__name__ for function in FUNCTIONS}
    for each in CLASSES:
        found |= {
            f"{each.__name__}.{name}"
            for name, value in vars(each).items()
            if not name.startswith("_") and is_method(value)
        }
    return found


def is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


def test_every_public_operation_is_in_the_table() -> None:
    known = {name.partition(",")[0] for name in OPERATIONS}
    assert names() - known == set()
    assert known - names() == set()


def test_what_is_exempt_or_done_by_another_says_why() -> None:
    for name, operation in OPERATIONS.items():
        if isinstance(operation, Exempt):
            assert operation.why, name
        if isinstance(operation, Changes):
            assert bool(operation.why) == (operation.by != WITNESS), name


READERS = [name for name, each in OPERATIONS.items() if isinstance(each, Reads)]
CHANGERS = [name for name, each in OPERATIONS.items() if isinstance(each, Changes)]


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    yield made
    made.plan.discard_pending()
    made.fork.discard_pending()
    made.store.close()


@pytest.mark.filterwarnings("ignore::trails.PendingTurnsWarning")
@pytest.mark.parametrize("name", READERS)
def test_what_reads_changes_no_quad_and_no_line_of_the_log(world: World, name: str) -> None:
    operation = OPERATIONS[name]
    assert isinstance(operation, Reads)
    operation.ready(world)
    before, log = world.quads(), world.store.store.log.lines()
    operation.do(world)
    assert world.quads() == before
    assert world.store.store.log.lines() == log


def test_what_is_told_by_a_property_changes_nothing(world: World) -> None:
    done(world)
    things: tuple[object, ...] = (
        *(world.store, world.plan, world.fork, world.store.proofs, world.ledger, world.router, world.runs, world.tree),
        *(world.router.view(world.kim), world.main, world.branch),
    )
    before = world.quads()
    for thing in things:
        for name, value in vars(type(thing)).items():
            if isinstance(value, property) and not name.startswith("_"):
                getattr(thing, name)
    assert world.quads() == before


@pytest.mark.filterwarnings("ignore::trails.PendingTurnsWarning")
@pytest.mark.parametrize("name", CHANGERS)
def test_what_changes_the_store_says_who_did_what_and_when(world: World, name: str) -> None:
    operation = OPERATIONS[name]
    assert isinstance(operation, Changes)
    operation.ready(world)
    before, began = world.quads(), datetime.now(UTC)
    operation.do(world)
    after, ended = world.quads(), datetime.now(UTC)
    assert after != before, "nothing was changed"
    added = after - before
    told = [
        subject
        for subject in {quad.subject for quad in added}
        if on_record(subject, added, after, (began, ended), operation.by)
    ]
    assert told, "\n".join(sorted(map(str, added)))
    assert world.store.verify().findings == ()


def on_record(
    subject: Any, added: set[Quad], after: set[Quad], when: tuple[datetime, datetime], by: str | None
) -> bool:
    """Whether what was added says that somebody did something to a session at that time."""
    about = [quad for quad in after if quad.subject == subject]
    new = [quad for quad in added if quad.subject == subject]
    who = {str(getattr(quad.object, "value", "")) for quad in about if quad.predicate in WHO}
    names = [str(getattr(each, "value", "")) for each in (subject, *(quad.object for quad in about))]
    what = any(name.startswith(DONE_TO) for name in names)
    return bool(who if by is None else by in who) and what and any(is_within(quad.object, when) for quad in new)


def is_within(term: object, when: tuple[datetime, datetime]) -> bool:
    """Whether a term is a time from just before an operation to its end: some times are cut to milliseconds."""
    if not isinstance(term, Literal) or term.datatype != vocab.DATE_TIME:
        return False
    moment = datetime.fromisoformat(term.value)
    return when[0] - timedelta(milliseconds=2) <= moment <= max(when[1], when[0] + timedelta(days=10))


def test_the_check_itself_sees_what_is_missing() -> None:
    node, now = NamedNode("urn:trails:session:a/act/1"), datetime.now(UTC)
    by = Quad(node, vocab.ASSOCIATED_WITH, NamedNode(WITNESS), vocab.CATALOG)
    at = Quad(node, vocab.ENDED_AT, Literal(now.isoformat(), datatype=vocab.DATE_TIME), vocab.CATALOG)
    both, when = {by, at}, (now, now)
    assert on_record(node, both, both, when, WITNESS)
    assert not on_record(node, {by}, {by}, when, WITNESS)
    assert not on_record(node, {at}, {at}, when, WITNESS)
    assert not on_record(node, both, both, when, "urn:trails:agent:other")
    assert not on_record(node, both, both, (now + timedelta(seconds=1), now + timedelta(seconds=2)), WITNESS)
    away = NamedNode("urn:trails:tag:v1")
    moved = {Quad(away, each.predicate, each.object, each.graph_name) for each in both}
    assert not on_record(away, moved, moved, when, WITNESS)
    assert json.dumps(sorted(OPERATIONS))  # names are plain texts
