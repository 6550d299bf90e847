"""Policies over a store: who sends, answers, reads another's history, what a sandboxed session sees; and how sessions end."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import trails
from trails import HasChildren, Inbound, InvalidInput, Ledger, Repository, RequestRefused, Router
from trails.exchange import rdf_files
from trails.model import iris
from trails.rdf import conversation_records, query_files, vocab
from trails.session import store_restore
from trails.store.contract import Change, Committed

pytestmark = pytest.mark.any_store

DENY_DISCORD = {
    "session": {
        "sendPolicy": {
            "rules": [
                {"action": "allow", "match": {"channel": "telegram"}},
                {"action": "deny", "match": {"channel": "discord"}},
            ]
        }
    }
}


def hello(channel: str = "telegram", **more: Any) -> Inbound:
    return Inbound(**{"channel": channel, "peer": "1", "content": "Hello"} | more)


def answered(store: Repository, session_id: str, text: str = "Yes.") -> None:
    Ledger(store).process(session_id, lambda running: text)


# --- sending and answering


def test_whether_a_session_may_send_is_said_with_the_rule_that_decided(store: Repository) -> None:
    router = Router(store, config=DENY_DISCORD)
    router.session("discord:group:dev"), router.route(hello(kind="group"))
    assert router.may_send("discord:group:dev").rule == "session.sendPolicy.rules[1]"
    assert router.may_send("telegram:group:1").rule == "session.sendPolicy.rules[0]"
    assert (router.may_send("main").allowed, router.may_send("main").rule) == (True, "session.sendPolicy.default")
    router.patch("telegram:group:1", {"sendPolicy": "deny"})
    found = router.may_send("telegram:group:1")
    assert (bool(found), found.rule) == (False, "entry.sendPolicy")
    assert Router(store).may_send("telegram:group:1").rule == "entry.sendPolicy"
    assert Router(store).may_send("main").rule == "default"


def test_a_denied_send_is_noted_and_an_allowed_one_or_a_check_is_not(store: Repository) -> None:
    router = Router(store, config=DENY_DISCORD)
    session = router.session("discord:group:dev").id
    router.check("discord:group:dev")
    router.may_send("discord:group:dev", note=False)
    router.may_send("main")
    assert store.query("denied-sends").to_dicts() == []  # type: ignore[union-attr] # a SELECT
    router.may_send("discord:group:dev", channel="discord")
    [row] = store.query("denied-sends").to_dicts()  # type: ignore[union-attr] # a SELECT
    expected = (iris.session(session), "session.sendPolicy.rules[1]", "discord")
    assert (row["session"], row["rule"], row["channel"]) == expected
    assert store.verify().findings == ()


DENY_JOBS = {"session": {"sendPolicy": {"rules": [{"action": "deny", "match": {"keyPrefix": "cron:"}}]}}}


@pytest.mark.parametrize(("key", "allowed"), [("cron:daily", False), ("agent:ops:cron:daily", False), ("main", True)])
def test_a_key_prefix_matches_the_key_without_its_agent(store: Repository, key: str, allowed: bool) -> None:
    router = Router(store, config=DENY_JOBS)
    asked_before = router.may_send(key)
    router.session(key)
    found = router.may_send(key)
    assert asked_before == found == router.check(key).send
    assert found.allowed is allowed
    assert found.rule == ("session.sendPolicy.default" if allowed else "session.sendPolicy.rules[0]")


def test_a_rule_by_the_beginning_of_a_key_meets_the_whole_key_too(store: Repository) -> None:
    def router(**match: str) -> Router:
        return Router(store, config={"session": {"sendPolicy": {"rules": [{"action": "deny", "match": dict(match)}]}}})

    assert not router(keyPrefix="agent:main:cron:").may_send("cron:daily")
    assert router(keyPrefix="agent:ops:cron:").may_send("cron:daily")
    assert not router(rawKeyPrefix="agent:main:").may_send("cron:daily")
    assert router(rawKeyPrefix="cron:").may_send("cron:daily")


def test_what_is_allowed_by_the_beginning_of_a_key_is_not_denied_by_default(store: Repository) -> None:
    policy = {"default": "deny", "rules": [{"action": "allow", "match": {"keyPrefix": "cron:"}}]}
    router = Router(store, config={"session": {"sendPolicy": policy}})
    assert router.may_send("cron:daily").rule == "session.sendPolicy.rules[0]"
    assert not router.may_send("main")


def test_a_group_is_answered_as_its_session_says(memory: Repository) -> None:
    router = Router(memory)
    assert not router.should_respond("telegram:group:1")
    assert router.should_respond("telegram:group:1", mentioned=True)
    assert router.should_respond("main").rule == "direct"
    router.patch("telegram:group:1", {"groupActivation": "always"})
    found = router.should_respond("telegram:group:1")
    assert (found.allowed, found.rule) == (True, "entry.groupActivation")


# --- reading another's history


def test_an_agent_reads_its_own_sessions_and_each_reading_is_recorded(store: Repository) -> None:
    router = Router(store)
    group = router.route(hello(kind="group", peer="9"))
    answered(store, group.session_id)
    main = router.session("main").id
    turns = router.history("main", "telegram:group:9")
    assert [(turn["role"], turn["content"]) for turn in turns] == [("user", "Hello"), ("assistant", "Yes.")]
    assert [turn["content"] for turn in router.history("main", "telegram:group:9", limit=1)] == ["Yes."]
    rows = store.query("history-reads").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [(row["requester"], row["target"], row["allowed"], row["rule"]) for row in rows] == [
        (iris.session(main), iris.session(group.session_id), True, "same agent")
    ] * 2
    assert [(row["action"], row["from"], row["through"], row["for"]) for row in rows] == [
        ("history", 0, 1, iris.principal(store.record(main).principal)),
        ("history", 1, 1, iris.principal(store.record(main).principal)),
    ]
    assert store.query(f"ASK {{ ?a prov:used <{iris.session(group.session_id)}> }}")
    router.history("main", "main")
    assert len(store.query("history-reads").to_dicts()) == 2  # type: ignore[union-attr] # one's own is no reading across
    assert store.verify().findings == ()


def test_another_agents_history_is_read_where_both_are_allowed(store: Repository) -> None:
    def router(**policy: Any) -> Router:
        return Router(store, config={"tools": {"agentToAgent": policy}})

    router().session("agent:ops:main"), router().session("main")
    with pytest.raises(RequestRefused, match="is disabled") as refused:
        router().history("main", "agent:ops:main")
    assert refused.value.code == "FORBIDDEN"
    with pytest.raises(RequestRefused, match=r"denied by tools\.agentToAgent\.allow"):
        router(enabled=True, allow=["main"]).history("main", "agent:ops:main")
    assert router(enabled=True, allow=["main", "ops"]).history("main", "agent:ops:main") == []
    rows = store.query("history-reads").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [(row["allowed"], row["rule"]) for row in rows] == [
        (False, "tools.agentToAgent.enabled"),
        (False, "tools.agentToAgent.allow"),
        (True, "tools.agentToAgent.allow"),
    ]


def test_a_tools_turns_are_read_only_where_they_are_asked_for(memory: Repository) -> None:
    router = Router(memory)
    session = router.session("slack:group:a")
    session.append("assistant", "Let me look.", tool_calls=[{"id": "c", "name": "f", "arguments": {}}])
    session.append("tool", "Snow", tool_call_id="c")
    session.persist()
    router.session("main")
    assert [turn["role"] for turn in router.history("main", "slack:group:a")] == ["assistant"]
    assert [turn["role"] for turn in router.history("main", "slack:group:a", tools=True)] == ["assistant", "tool"]


# --- what a sandboxed session sees


@pytest.fixture
def family(store: Repository) -> Router:
    """A main session that spawned `one`, which spawned `two`; a stranger, a fork of `one`, and a session of no key.

    Each has a turn that says SECRET and its own name, a tag, and an entry with a text.
    """
    router = Router(store)
    for key in ("main", "agent:main:subagent:one", "agent:main:subagent:two", "slack:group:strange"):
        session = router.session(key)
        session.append("user", f"SECRET of {key}")
        session.persist()
        router.merge(key, {"lastHeartbeatText": f"beat of {key}"})
        store.tags.add(f"tag-{key.rpartition(':')[2]}", session.id)
    router.patch("agent:main:subagent:one", {"spawnedBy": "agent:main:main", "label": "one"})
    router.patch("agent:main:subagent:two", {"spawnedBy": "agent:main:subagent:one"})
    router.patch("slack:group:strange", {"label": "stranger"})
    fork = router.session("agent:main:subagent:one").fork(id="fork")
    fork.append("user", "SECRET of the fork")
    fork.persist()
    plain = store.create(id="plain")
    plain.append("user", "SECRET of nobody")
    plain.persist()
    return router


ESCAPES = [
    "SELECT ?x { GRAPH ?g { ?t prov:value ?x } }",
    "SELECT ?x { GRAPH <STRANGER> { ?t prov:value ?x } }",
    "SELECT ?x { ?t prov:value ?x }",
    "SELECT ?x { ?s (!<urn:nothing>)+ ?x }",
    "SELECT ?x { <STRANGER> ?p ?x }",
    "SELECT ?x { ?x a trails:Session }",
    "SELECT ?x { ?x trails:label ?l }",
    "SELECT ?x { ?c a trails:Conversation ; trails:key ?x }",
    "SELECT ?x { ?s (trails:spawnedBy|^trails:spawnedBy)* ?x }",
    "SELECT ?x { ?tag trails:tagName ?x }",
    "SELECT ?x FROM <STRANGER> { ?t prov:value ?x }",
    "SELECT ?x FROM NAMED <STRANGER> { GRAPH ?g { ?t prov:value ?x } }",
    "SELECT ?x FROM <STRANGER> FROM NAMED <STRANGER> { { ?t prov:value ?x } UNION { GRAPH ?g { ?t prov:value ?x } } }",
    "SELECT ?x { { SELECT ?x { GRAPH <STRANGER> { ?t ?p ?x } } } }",
    "SELECT ?x { VALUES ?g { <STRANGER> <STRANGER/entry> <STRANGER/ledger> } GRAPH ?g { ?s ?p ?x } }",
    "SELECT ?x { BIND(IRI('STRANGER') AS ?g) GRAPH ?g { ?s ?p ?x } }",
    "SELECT ?x { ?s ?p ?x FILTER(EXISTS { GRAPH <STRANGER> { ?a ?b ?c } }) }",
    "SELECT (GROUP_CONCAT(?v) AS ?x) { GRAPH ?g { ?t prov:value ?v } }",
    "SELECT ?x { GRAPH ?g { ?s trails:lastHeartbeatText ?x } }",
    "CONSTRUCT { ?s ?p ?o } { GRAPH ?g { ?s ?p ?o } }",
    "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }",
    "CONSTRUCT WHERE { <STRANGER> ?p ?o }",
    "DESCRIBE <STRANGER>",
    "DESCRIBE ?s { GRAPH ?g { ?s prov:value ?v } }",
    "ASK { GRAPH <STRANGER> { ?s ?p ?o } }",
    "ASK { <STRANGER> ?p ?o }",
    "ASK { FILTER(EXISTS { GRAPH ?g { ?t prov:value 'SECRET of slack:group:strange' } }) }",
]


@pytest.mark.parametrize("union", [True, False])
def test_no_query_looks_past_what_a_session_may_see(family: Router, store: Repository, union: bool) -> None:
    stranger = family.session("slack:group:strange").id
    hidden = {stranger, "fork", "plain", "strange", family.session("main").id + "/"}
    view = family.view("agent:main:subagent:one")
    assert set(view.sessions) == {family.session(f"agent:main:subagent:{name}").id for name in ("one", "two")}
    for text in ESCAPES:
        found = view.query(text.replace("STRANGER", iris.session(stranger)), union=union)
        if isinstance(found, bool):
            assert not found, text
            continue
        said = str(found if isinstance(found, list) else [[str(term) for term in row] for row in found])
        assert not [name for name in hidden if name in said], text
        assert "SECRET of main" not in said, text
        assert "beat of main" not in said, text


def test_the_hidden_is_there_for_those_queries_to_find(family: Router, store: Repository) -> None:
    stranger = iris.session(family.session("slack:group:strange").id)
    found = store.query(f"SELECT ?x {{ GRAPH <{stranger}> {{ ?t prov:value ?x }} }}").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert found == [{"x": "SECRET of slack:group:strange"}]


def test_a_session_sees_itself_and_what_it_spawned_whole(family: Router, store: Repository) -> None:
    view = family.view("main")
    assert len(view.sessions) == 3
    texts = {row["x"] for row in view.query("SELECT ?x { ?t a trails:Turn ; prov:value ?x }").to_dicts()}  # type: ignore[union-attr] # a SELECT
    assert texts == {f"SECRET of {key}" for key in ("main", "agent:main:subagent:one", "agent:main:subagent:two")}
    one = family.session("agent:main:subagent:one").id
    assert [row["content"] for row in view.query("transcript", session=one).to_dicts()] == [  # type: ignore[union-attr]
        "SECRET of agent:main:subagent:one"
    ]
    text = "SELECT ?x FROM <ONE> { ?t prov:value ?x }".replace("ONE", iris.session(one))
    chosen = view.query(text).to_dicts()  # type: ignore[union-attr] # a SELECT
    assert chosen == [{"x": "SECRET of agent:main:subagent:one"}]
    assert family.query("main", "ASK { ?c a trails:Conversation ; trails:label 'one' }") is True
    family.view("agent:main:subagent:two")


def test_every_query_of_the_catalogue_runs_over_a_view(family: Router) -> None:
    view = family.view("agent:main:subagent:one")
    stranger = family.session("slack:group:strange").id
    for name, query in query_files.catalogue().items():
        wanted = [each for each in query.parameters if not each.optional and each.kind == "session"]
        needed: dict[str, Any] = dict.fromkeys((each.name for each in wanted), stranger)
        if any(not each.optional and each.kind != "session" for each in query.parameters):
            continue
        assert "SECRET of slack" not in str([list(map(str, row)) for row in view.query(name, **needed)]), name  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    ["SELECT * { SERVICE <http://example.org/> { ?s ?p ?o } }", "not SPARQL", "INSERT DATA { <a:a> <a:b> <a:c> }"],
)
def test_a_view_takes_no_other_text_than_the_store_does(family: Router, text: str) -> None:
    with pytest.raises(InvalidInput):
        family.view("main").query(text)


def test_a_session_still_sees_what_it_spawned_before_a_reset_but_not_what_it_was(family: Router) -> None:
    old = family.session("main").id
    new = family.reset("main").session_id
    seen = family.view("main").sessions
    assert (new in seen, old in seen, len(seen)) == (True, False, 3)


def test_a_sandboxed_session_reads_the_history_of_what_it_spawned_alone(family: Router, store: Repository) -> None:
    assert len(family.history("main", "agent:main:subagent:two", sandboxed=True)) == 1
    with pytest.raises(RequestRefused, match="not visible from this sandboxed") as refused:
        family.history("agent:main:subagent:one", "main", sandboxed=True)
    assert refused.value.code == "FORBIDDEN"
    rows = store.query("history-reads").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [row["allowed"] for row in rows] == [True, False]


def test_a_view_cannot_write(family: Router, store: Repository) -> None:
    before = len(store.store)
    family.view("main")
    assert len(store.store) == before


# --- deleting


def test_a_main_session_is_not_deleted_by_its_key_but_by_its_id_with_force(store: Repository) -> None:
    router = Router(store)
    main = router.session("main").id
    for name in ("main", "agent:main:main"):
        with pytest.raises(RequestRefused, match=r"Cannot delete the main session \(agent:main:main\)"):
            router.delete(key=name)
    with pytest.raises(RequestRefused, match="without force"):
        router.delete(id=main)
    router.alias("boss", "main")
    with pytest.raises(RequestRefused, match="Cannot delete the main session"):
        router.delete(key="boss")
    assert router.delete(id=main, force=True) == [main]
    with pytest.raises(RequestRefused, match="Either key or sessionId"):
        router.delete()


def test_a_deleted_session_takes_its_entry_label_and_aliases_with_it(store: Repository) -> None:
    router = Router(store, config={"session": {"dmScope": "per-peer"}})
    first = router.route(hello(peer="555"))
    answered(store, first.session_id)
    router.patch(first.key, {"label": "desk"})
    router.merge(first.key, {"lastHeartbeatText": "A private word", "mine": {"a": "private"}})
    router.promote(first.key, "agent:main:dm:alice")
    router.alias("boss", "agent:main:dm:alice")
    router.unalias("boss")
    router.delete(key="agent:main:dm:alice")
    left = {str(quad) for quad in store.store.quads((None, None, None, None))}
    assert not [quad for quad in left if any(word in quad for word in ("private", "alice", "dm:555", "desk", "Hello"))]
    store.create(id="other", label="desk").persist()
    again = router.route(hello(peer="555"))
    assert again.created
    assert store.verify().findings == ()


def test_sessions_before_a_reset_outlive_the_current_one(store: Repository) -> None:
    router = Router(store)
    first = router.route(hello(kind="group"))
    current = router.reset(first.key)
    router.delete(key=first.key)
    assert store.record(first.session_id).key == first.key
    assert store.verify().findings == ()
    new = router.route(hello(kind="group"))
    assert router.sessions(first.key) == [first.session_id, new.session_id]
    assert current.session_id not in store
    store.delete(first.session_id)
    assert store.verify().findings == ()


def test_a_session_with_spawned_ones_is_deleted_with_them_or_not_at_all(family: Router, store: Repository) -> None:
    store.tags.remove("tag-one"), store.tags.remove("tag-two")
    store.delete("fork")
    with pytest.raises(HasChildren):
        family.delete(key="agent:main:subagent:one")
    gone = family.delete(key="agent:main:subagent:one", children="cascade")
    assert len(gone) == 2
    assert [info.key for info in family.list()] == ["agent:main:slack:group:strange", "agent:main:main"]
    assert store.verify().findings == ()


def test_what_is_written_of_a_session_while_it_is_deleted_goes_too(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(store)
    session = router.route(hello(kind="group")).session_id
    commit, waiting = store.store.commit, ["another writer"]

    def commit_after_another(change: Change) -> Committed:
        if waiting:
            waiting.clear()
            store.set_label(session, "late")
            router.alias("boss", "telegram:group:1")
        return commit(change)

    monkeypatch.setattr(store.store, "commit", commit_after_another)
    router.delete(key="telegram:group:1")
    monkeypatch.undo()
    assert waiting == []
    left = {str(quad) for quad in store.store.quads((None, None, None, None))}
    assert not [quad for quad in left if "late" in quad or "boss" in quad or "group:1" in quad]
    assert store.verify().findings == ()


# --- redacting, exporting, verifying


def test_a_redaction_reaches_what_entries_repeat_of_the_turn(store: Repository) -> None:
    router = Router(store)
    first = router.route(hello(content="My PIN is 4711"))
    answered(store, first.session_id, "I forgot 4711.")
    router.session("slack:group:other")
    router.merge("main", {"lastHeartbeatText": "is 4711", "subject": "Chat", "notes": ["My PIN is 4711, she said"]})
    router.merge("slack:group:other", {"subject": "My PIN is 4711", "displayName": "Kept"})
    done = store.redact(first.session_id, 0)
    assert {field for _, field in done.fields} == {"lastHeartbeatText", "notes", "subject"}
    assert "PIN" not in str(store.store.quads((None, None, None, None)))
    assert router.entry("slack:group:other")["displayName"] == "Kept"
    assert router.entry("main")["subject"] == "Chat"
    assert store.verify().findings == ()


def test_what_is_said_of_a_key_goes_with_an_export_and_comes_back(store: Repository) -> None:
    router = Router(store, config={"session": {"dmScope": "per-peer"}})
    first = router.route(hello(peer="555"))
    router.patch(first.key, {"label": "desk", "thinkingLevel": "low"})
    router.merge(first.key, {"mine": {"a": [1, None]}})
    done = router.promote(first.key, "agent:main:dm:alice")
    file = io.BytesIO()
    rdf_files.export_session(store, first.session_id, "nquads", file)
    with trails.open(":memory:") as other:
        report = rdf_files.import_rdf(other, file.getvalue(), "nquads")
        assert (report.problems, report.sessions_created) == ([], [first.session_id])
        there = Router(other, config={"session": {"dmScope": "per-peer"}})
        assert there.entry("agent:main:dm:555") == router.entry("agent:main:dm:alice")
        assert there.resolve(label="desk") == "agent:main:dm:alice"
        assert [(event.channel, event.peer) for event in Ledger(other).inbox(first.session_id)] == [("telegram", "555")]
        again = io.BytesIO()
        rdf_files.export_session(other, first.session_id, "nquads", again)
        assert again.getvalue() == file.getvalue()
        assert other.verify().findings == ()
        there.undo(done.operation)
        assert there.session("agent:main:dm:555").id == first.session_id
        assert rdf_files.import_rdf(other, file.getvalue(), "nquads").unchanged == [first.session_id]


def test_a_key_that_has_a_session_here_keeps_it_when_another_one_is_imported(memory: Repository) -> None:
    with trails.open(":memory:") as other:
        away = Router(other)
        arriving = away.route(hello(content="Away")).session_id
        away.patch("main", {"label": "desk"})
        away.alias("boss", "main")
        file = io.BytesIO()
        rdf_files.export_session(other, arriving, "nquads", file)
    router = Router(memory)
    here = router.session("main").id
    memory.create(id="plain", label="desk").persist()
    report = rdf_files.import_rdf(memory, file.getvalue(), "nquads")
    assert len(report.problems) == 1 or len(report.problems) == 2
    assert "as an earlier session of the key 'agent:main:main'" in report.problems[0].reason
    assert router.session("main").id == here
    assert set(router.sessions("main")) == {here, arriving}
    assert router.aliases() == []
    assert memory.verify().findings == ()


def test_a_redacted_text_does_not_come_back_with_an_imported_entry(memory: Repository) -> None:
    router = Router(memory)
    session = router.session("main")
    session.append("user", "My PIN is 4711")
    session.persist()
    router.merge("main", {"lastHeartbeatText": "My PIN is 4711", "subject": "Chat"})
    file = io.BytesIO()
    rdf_files.export_session(memory, session.id, "nquads", file)
    memory.redact(session.id, 0)
    copy = memory.flatten(session.id, id="copy")
    assert copy.turns[0].redacted
    router.delete(id=session.id, force=True)
    rdf_files.import_rdf(memory, file.getvalue(), "nquads", restore=True)
    assert "PIN" not in str(memory.store.quads((None, None, None, None)))
    assert router.entry("main")["subject"] == "Chat"
    assert memory.verify().findings == ()


def test_keys_and_entries_are_in_a_dump(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a.trails", create=True) as store:
        router = Router(store)
        router.route(hello())
        router.patch("main", {"label": "desk", "sendPolicy": "deny"})
        router.alias("boss", "main")
        entry = router.entry("main")
        store.maintenance.dump(tmp_path / "all.nq.gz")
    assert store_restore.load_dump(tmp_path / "all.nq.gz", tmp_path / "b.trails").ok
    with trails.open(tmp_path / "b.trails") as store:
        assert Router(store).entry("boss") == entry


def test_an_altered_entry_alias_or_key_is_found(memory: Repository) -> None:
    router = Router(memory)
    session = router.session("main").id
    router.patch("main", {"sendPolicy": "deny", "label": "desk"})
    router.alias("boss", "main")
    graph = conversation_records.overrides_graph(session)
    policy = vocab.ENTRY_FIELDS["sendPolicy"]
    node = ox.NamedNode(iris.session(session))
    conversation = ox.NamedNode(iris.conversation("agent:main:main"))
    alias = ox.NamedNode(iris.alias("agent:main:boss"))
    changes = [
        (ox.Quad(node, policy, ox.Literal("deny"), graph), ox.Quad(node, policy, ox.Literal("allow"), graph)),
        (
            ox.Quad(conversation, vocab.LABEL, ox.Literal("desk"), vocab.CATALOG),
            ox.Quad(conversation, vocab.LABEL, ox.Literal("other"), vocab.CATALOG),
        ),
        (
            ox.Quad(alias, vocab.REASON, ox.Literal("manual"), vocab.CATALOG),
            ox.Quad(alias, vocab.REASON, ox.Literal("merge"), vocab.CATALOG),
        ),
    ]
    for old, new in changes:
        assert memory.verify().findings == ()
        memory.store.commit(Change(add=[new], remove=[old]))
        assert [finding.session_id for finding in memory.verify().findings] == [session], new
        assert [finding.session_id for finding in memory.verify(session).findings] == [session], new
        memory.store.commit(Change(add=[old], remove=[new]))
    stray = ox.Quad(node, ox.NamedNode("urn:x:y"), ox.Literal("z"), graph)
    memory.store.commit(Change(add=[stray]))
    assert {finding.code for finding in memory.verify().findings} == {"row-altered", "bad-key"}


def test_a_configuration_that_is_wrong_is_refused_with_its_path(memory: Repository) -> None:
    for config, path in (
        ({"session": {"dmScope": "per-person"}}, "session.dmScope"),
        ({"session": {"reset": {"hour": 4}}}, "session.reset.hour"),
        ({"session": {"sendPolicy": {"rules": [{"action": "deny", "match": {"chanel": "x"}}]}}}, "chanel"),
        ({"agents": {"defaults": {"userTimezone": "Mars/Olympus"}}}, "Mars/Olympus"),
    ):
        with pytest.raises(InvalidInput, match=path):
            Router(memory, config=config)
