"""Three hundred calls that people get wrong: each is told what is wrong and what to write, and nothing of a session is lost."""

from __future__ import annotations

import asyncio
import inspect
import pathlib
import threading
import types
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from operator import delitem, setitem
from typing import Any

import pytest

import trails
from trails import Repository, TrailsError, WrongCall

MISTAKES = [
    # --- opening
    ("trails.open()", r"trails.open\(\) needs 'location'; it is called as open\(location"),
    ("trails.open(None)", "a store's location is a path or ':memory:', a text, not None"),
    ("trails.open(3)", "a store's location is a path or ':memory:', a text, not 3"),
    ("trails.open(b'agent.trails')", "a store's location is a path"),
    ("trails.open('')", "not an empty text"),
    ("trails.open(':memory:', True)", "takes location by position, all else by name, as create="),
    ("trails.open(':memory:', creat=True)", r"has no parameter 'creat' \(did you mean create="),
    ("trails.open(':memory:', durability='fast')", "durability"),
    ("trails.open(tmp / 'nothing')", "there is no Trails store at"),
    ("trails.open('ftp://example.org/store')", "name a folder"),
    ("trails.Store(':memory:')", r"trails has no 'Store': trails.open\(...\) gives a store"),
    ("trails.connect('agent.db')", r"trails has no 'connect': trails.open\(...\)"),
    ("trails.Sesion", r"trails has no 'Sesion' \(did you mean 'Session'"),
    ("trails.load('plan')", "trails has no 'load': store.load"),
    ("trails.Repository('agent.trails')", r"trails.open\(path\) opens the store"),
    ("trails.Repository()", "Repository.* needs 'store'"),
    ("trails.Session('plan')", r"store.create\(...\) makes one"),
    ("trails.Session()", "Session.* needs 'worktree'|store.create"),
    ("trails.Turn('user', 'hello')", "fields of a Turn are given by name"),
    ("trails.Turn(role='user', content='hello')", "this is no Turn: .*it has no 'content'|session_id: Field required"),
    ("trails.ToolCall(id='c1', nmae='x', arguments='{}')", r"it has no 'nmae' \(did you mean 'name'"),
    ("trails.Limits(childern=3)", r"it has no 'childern' \(did you mean 'children'"),
    # --- creating
    ("store.create('chat')", "takes nothing by position, all else by name, as id="),
    ("store.create(pricipal='alice')", r"has no parameter 'pricipal' \(did you mean principal="),
    ("store.create(user='alice')", r"has no parameter 'user' \(did you mean principal="),
    ("store.create(name='x')", r"has no parameter 'name' \(did you mean label="),
    ("store.create(metadata={})", r"has no parameter 'metadata' \(did you mean meta="),
    ("store.create(id=3)", "session id must be a string, not int"),
    ("store.create(id='')", "session id must have 1 to 200 characters"),
    ("store.create(id='my plan')", "session id"),
    ("store.create(id=['plan'])", "session id must be a string, not list"),
    ("store.create(principal=3)", "principal must be a string, not int"),
    ("store.create(principal='')", "principal"),
    ("store.create(label=b'trip')", "label"),
    ("store.create(meta='temperature=1')", "meta"),
    ("store.create(meta=[1])", "meta"),
    ("store.create(meta={'a': object()})", "meta|metadata"),
    ("store.create(system=['Be brief.'])", "system must be a string, not list"),
    ("store.create(created='2026-01-01')", "created"),
    ("store.create(created=datetime(2026, 1, 1))", "time zone|naive|aware"),
    ("store.create(spawned_by='nobody')", "there is no session, label or tag 'nobody'"),
    # --- finding
    ("store.load()", "Repository.load.. needs 'session'"),
    ("store.load(None)", "a session is named by its id, IRI, label or tag, .* not by None"),
    ("store.load(3)", "not by a value of type int"),
    ("store.load(b'plan')", "not by a value of type bytes"),
    ("store.load(tmp)", "not by a value of type"),
    ("store.load(['plan'])", "not by a value of type list"),
    ("store.load('')", "no session, label or tag ''|1 to 200"),
    ("store.load('plam')", r"\(did you mean 'plan'\?\)"),
    ("store.load(id='plan')", r"has no parameter 'id'"),
    ("store.load('plan', 'other')", "takes session by position"),
    ("store['nobody']", "there is no session, label or tag 'nobody'"),
    ("store[0]", "not by a value of type int"),
    ("store.get('plan')", r"a Repository has no 'get' \(did you mean 'load'\?\)"),
    ("store.sessions", r"a Repository has no 'sessions' \(did you mean 'list'\?\)"),
    ("store.fork('plan')", r"a Repository has no 'fork' \(a Session has 'fork': store.load\(id\).fork\)"),
    ("store.save()", r"a Repository has no 'save' \(a Session has 'persist': store.load\(id\).persist\)"),
    ("store.vacuum()", r"a Repository has no 'vacuum' \(a Maintenance has 'vacuum': store.maintenance.vacuum\)"),
    ("store.grep('alps')", r"a Repository has no 'grep' \(did you mean 'search'\?\)"),
    ("store.forks('plan')", r"a Repository has no 'forks' \(did you mean 'branches'\?\)"),
    ("s.search('alps')", r"a Session has no 'search' \(a Repository has 'search': store.search\)"),
    ("store.branch('x')", r"session.fork\(at=N\) makes a branch"),
    ("s.counterfactual(3)", "withhold_turns"),
    ("store.lsit()", r"a Repository has no 'lsit' \(did you mean 'list'\?\)"),
    ("store.list('alice')", "takes nothing by position, all else by name"),
    ("store.list(limit=0)", "limit must be 1 to 1000"),
    ("store.list(limit='all')", "limit"),
    ("store.list(since='last week')", "since"),
    ("store.list(since=datetime(2026, 1, 1))", "time zone|naive|aware"),
    ("store.list(cursor='x')", "cursor"),
    ("store.list(page=2)", "has no parameter 'page'"),
    ("store.search()", "nothing|what is looked for|text"),
    ("store.search(3)", "string"),
    ("store.replay('plan', 1)", "takes session by position, all else by name, as up_to_index="),
    ("store.replay('plan', up_to_index=-1)", "up_to_index"),
    ("store.diff('plan')", "needs 'b'"),
    ("store.diff('plan', 3)", "a diff is of sessions"),
    ("store.diff('plan', 'plan@9')", "so there is no plan@9"),
    # --- appending
    ("s.append('hello')", "is empty: give it a text"),
    ("s.append({'role': 'user', 'content': 'hello'})", r"append_message\(message\)"),
    ("s.append(role='user', text='hello')", r"has no parameter 'text' \(did you mean content="),
    ("s.append(role='user', message='hello')", r"has no parameter 'message' \(did you mean content="),
    ("s.append()", "needs 'role' and 'content'|append"),
    ("s.append('user', 'hello', 'gpt')", "takes role, content by position"),
    ("s.append('user', None)", "is empty: give it a text"),
    ("s.append('user', 3)", "content"),
    ("s.append('user', b'hello')", "content"),
    ("s.append('user', {'text': 'hello'})", "text"),
    ("s.append('user', object())", "content"),
    ("s.append('user', '')", "is empty"),
    ("s.append(None, 'hello')", "role"),
    ("s.append(3, 'hello')", "role"),
    ("s.append('', 'hello')", "role"),
    ("s.append('user', 'hello', role='user')", "got 'role' twice"),
    ("s.append('user', 'hello', time='now')", "time"),
    ("s.append('user', 'hello', time=datetime(2026, 1, 1))", "time zone|naive|aware"),
    ("s.append('user', 'hello', time=1700000000)", "time"),
    ("s.append('assistant', 'hello', usage='12 tokens')", "usage"),
    ("s.append('assistant', 'hello', usage=12)", "usage"),
    ("s.append('assistant', 'hello', usage={'input_tokens': 'many'})", "input_tokens"),
    ("s.append('assistant', 'hello', tool_calls='weather')", "tool_calls|tool call"),
    ("s.append('assistant', 'hello', tool_calls=['weather'])", "tool call"),
    ("s.append('assistant', 'hello', tool_calls={'id': 'c1', 'name': 'weather'})", "tool_calls|tool call"),
    ("s.append('assistant', 'hello', tool_calls=3)", "tool calls must be several"),
    ("s.append('assistant', 'hello', tool_calls=[{'name': 3}])", "tool call"),
    ("s.append('tool', 'Snow', tool_call_id=3)", "tool_call_id"),
    ("s.append('tool', 'Snow', tool_call_id='c1', is_error='no')", "is_error"),
    ("s.append('tool', 'Snow', tool_results=3)", "tool_results|tool result"),
    ("s.append('tool', 'Snow', tool_results=['c1'])", "tool result"),
    ("s.append('assistant', 'hello', meta='x')", "meta"),
    ("s.append('assistant', 'hello', model=3)", "model"),
    ("s.append('assistant', 'hello', author=3)", "author"),
    ("s.append('assistant', 'hello', call='gpt')", "call"),
    ("s.append('assistant', 'hello', compaction='x')", "compaction"),
    ("s.append('user', '\\ud800')", "lone surrogate"),
    ("s.append('user', [1, 2])", "part"),
    ("s.append('user', [{'type': 'text', 'text': float('nan')}])", "NaN|nan|JSON"),
    ("s.add('user', 'hello')", r"a Session has no 'add' \(did you mean 'append'\?\)"),
    ("s.messages", r"a Session has no 'messages' \(did you mean 'turns'\?\)"),
    ("s.save()", r"a Session has no 'save' \(did you mean 'persist'\?\)"),
    ("s.persist('now')", "takes nothing by position"),
    ("s.persist(sign=3)", "key"),
    ("setattr(s, 'title', 'Trip')", "a session's 'title' cannot be set"),
    ("setattr(s, 'label', 'trip')", r"a session's 'label' cannot be set; set_label\(\)"),
    ("setattr(s, 'principal', 'bob')", "fork it with another principal"),
    ("setattr(s[0], 'content', 'other')", "a Turn is frozen: its 'content' cannot be set"),
    # --- forking, deleting
    ("s.fork('x')", "fork index|at"),
    ("s.fork(at='2')", "fork index|at"),
    ("s.fork(at=True)", "fork index|at"),
    ("s.fork(at=1.0)", "fork index|at"),
    ("s.fork(at=99)", "0 to|99"),
    ("s.fork(at=-1)", "0 to|-1"),
    ("s.fork(index=1)", r"has no parameter 'index' \(did you mean at="),
    ("s.fork(1, 'b')", "takes at by position"),
    ("store.delete()", "needs 'session'"),
    ("store.delete('nobody')", "there is no session"),
    ("store.delete('plan', cascade=True)", r"has no parameter 'cascade' \(did you mean children="),
    ("store.delete('plan', children=True)", "children is"),
    ("store.delete('plan', children='keep')", "children is"),
    ("store.redact('plan')", "needs 'index'"),
    ("store.redact('plan', '0')", "index"),
    ("store.redact('plan', True)", "index"),
    ("store.redact('plan', 99)", "99"),
    ("store.redact_matching('')", "2 characters|text"),
    ("store.prune()", "an age .older_than., a number"),
    ("store.prune(older_than=30)", "older_than"),
    ("store.set_label('plan')", "needs 'label'"),
    ("store.set_label('plan', 3)", "label"),
    ("store.tags.add('v1')", "needs 'ref'"),
    ("store.tags.add('v 1', 'plan')", "tag"),
    ("store.tags.get('nope')", "there is no tag"),
    ("store.notes.add('plan', 'first', 'text')", "index"),
    ("store.notes.add('plan', 0)", "needs 'text'"),
    # --- reading
    ("s[5]", "has no turn 5"),
    ("s['0']", "by index"),
    ("s.tail('3')", "count"),
    ("s.tail(-1)", "count"),
    ("s.context(max_tokens='4k')", "max_tokens"),
    ("s.context(max_tokens=0)", "max_tokens"),
    ("s.context(max_tokens=-5)", "max_tokens"),
    ("s.context(tokens=5)", r"has no parameter 'tokens' \(did you mean max_tokens="),
    ("s.bisect('x')", "predicate|callable|function"),
    ("s.blame('0')", "index|start"),
    ("s.compact('x')", "summarise|callable|function"),
    ("s.cherry_pick('plan')", "needs 'indexes'"),
    ("s.cherry_pick('plan', 'first')", "index"),
    ("s.cherry_pick(3, 0)", "session"),
    # --- asking
    ("store.query()", "needs 'text'"),
    ("store.query(3)", "the query must be a string"),
    ("store.query('')", "SPARQL|query|empty"),
    ("store.query('SELECT *')", "SPARQL|expected|error"),
    ("store.query('transcipt', session='plan')", "did you mean 'transcript'"),
    ("store.query('transcript')", "needs the parameter 'session'"),
    ("store.query('transcript', sesion='plan')", r"did you mean 'session'\?"),
    ("store.query('transcript', session=3)", "session"),
    ("store.query('DELETE WHERE { ?s ?p ?o }')", "update"),
    ("store.select('ASK { ?s ?p ?o }')", r"use store.ask\(\)"),
    ("store.ask('SELECT * { ?s ?p ?o }')", r"use store.select\(\)"),
    ("store.compare('plan', columns='tokns')", r"did you mean 'tokens'"),
    ("store.compare('plan', at='1')", "at"),
    ("store.graph(3)", "a session is named by"),
    ("store.verify('nobody')", "there is no session"),
    ("store.subscribe('x')", "callback|callable|function"),
    ("store.context('plan', max_tokens=10, counter=5)", "counter is a function from a text"),
    ("store.context()", "needs 'session'"),
    # --- what stands on top
    ("trails.Tree()", "needs 'store'"),
    ("trails.Tree('agent.trails')", "a Tree works on an open store"),
    ("trails.Runs(None)", "a Runs works on an open store"),
    ("trails.Ledger(':memory:')", "a Ledger works on an open store"),
    ("trails.Router(s)", "a Router works on an open store"),
    ("trails.Tree(store).get(3)", "a session is named by"),
    ("trails.Tree(store).get('plan')", "plan"),
    ("trails.Tree(store).main()", "needs 'agent' and 'channel'"),
    ("trails.Tree(store).main('planner', 'chat').spawn('brunch', 'x')", "brunch"),
    ("trails.Tree(store).main('planner', 'chat').spawn('worker')", "task"),
    ("trails.Tree(store).main('planner', 'chat').spawn('worker', 'x', ttl=5)", "ttl"),
    ("trails.Tree(store).ticking('fast')", "a clock ticks every so many seconds"),
    ("trails.Tree(store).tick('now')", "now"),
    ("trails.Runs(store).spawn()", "needs"),
    ("trails.Runs(store).get('nope')", "nope"),
    ("trails.Ledger(store).enqueue('plan')", "needs|has no 'enqueue'"),
    ("trails.Router(store).session()", "needs"),
    # --- the words of git, pandas, MLflow, SQL and LangChain
    ("trails.clone('a', 'b')", r"trails.push\(store, sessions, other\) copies"),
    ("trails.commit()", "write store.commit, with store"),
    ("trails.log('plan')", r"trails.open\(path\) opens a store"),
    ("trails.fork('plan')", "write session.fork, with store"),
    ("trails.read_sql('SELECT 1', store)", r"store.select\(query\) asks a store in SPARQL"),
    ("trails.set_tracking_uri('x')", r"trails.open\(path\) opens a store"),
    ("trails.start_run()", r"store.session\(id\) begins a session"),
    ("trails.open('a.trails', mode='r')", r"has no parameter 'mode' \(did you mean read_only= or create="),
    ("trails.open('a.trails', readonly=True)", "did you mean read_only="),
    ("trails.open(':memory:', 'w')", "takes location by position, all else by name"),
    ("trails.open([':memory:'])", "a store's location is a path"),
    ("trails.open(':memory:', create='yes')", "'create' must be True or False, not 'yes'"),
    ("trails.open(tmp / 'new', create=1)", "'create' must be True or False, not 1"),
    ("trails.open('sqlite:///agent.db')", "name a folder"),
    ("store.log()", "did you mean 'changes'"),
    ("store.merge('plan', 'spare')", r"a Session has 'take': store.load\(id\).take"),
    ("store.rebase('plan', 'spare')", r"a Session has 'fork'"),
    ("store.reset('plan', 1)", r"a Session has 'fork'"),
    ("store.status()", "did you mean 'info'"),
    ("store.show('plan')", "did you mean 'load'"),
    ("store.push('elsewhere')", r"trails.push\(store, sessions, other\)"),
    ("store.export('plan')", "export_session"),
    ("store.checkout('plan')", r"there is no ref 'plan'.*load\('plan'\) opens a session"),
    ("store.cursor()", "did you mean 'query'"),
    ("store.head()", r"store.load\(id\).head"),
    ("store.iloc[0]", "did you mean 'list'"),
    ("store.df", "did you mean 'list'"),
    ("store.groupby('model')", "did you mean 'list'"),
    ("store.log_metric('accuracy', 0.5)", "did you mean 'score'"),
    ("store.search_runs()", "did you mean 'list'"),
    ("store.backup('x')", "store.maintenance.backup"),
    ("setitem(store, 'plan', s)", r"nothing of a Repository can be set by \['plan'\]"),
    ("store['plan':'spare']", "not by a value of type slice"),
    (
        "store.load('plan', create=True)",
        r"has no parameter 'create': store.session\(id\) loads a session or creates it",
    ),
    ("store.create(messages=[{'role': 'user', 'content': 'hello'}])", r"session.extend\(messages\) appends them"),
    ("store.verify(deep=True)", "every digest is recomputed in any case"),
    ("s.persist(message='first')", r"store.notes.add\(session, index, text\)"),
    ("s.context(model='m-1')", "counter= counts tokens as the model does"),
    ("s.append('user', 'hello', parent=0)", r"session.fork\(at=N\) goes on from an earlier turn"),
    ("store.load({'id': 'plan'})", "not by a value of type dict"),
    ("store.load(pathlib.Path('plan'))", "not by a value of type PosixPath"),
    ("store.list(limit=10_000)", "limit must be 1 to 1000"),
    ("store.list(limit=2.0)", "limit must be a whole number"),
    ("store.list(principal=['alice', 'bob'])", "principal must be a string, not list"),
    ("store.list(since=date(2026, 1, 1))", "since must be a datetime with a time zone, or a text.*7d"),
    ("store.list(since=1767225600.0)", "since must be a datetime with a time zone, or a text"),
    ("store.list(since=timedelta(days=7))", "or how long ago: 30m, 12h, 7d"),
    ("store.list(until='7 days ago')", "or how long ago: 30m, 12h, 7d"),
    ("store.list(order='asc')", "order is one of newest, oldest"),
    ("store.list(order_by='created')", r"did you mean order="),
    ("store.list(sort='-created')", "sort is one of created"),
    ("store.list(meta='model=x')", "meta is a mapping"),
    ("store.list(where='turns > 5')", r"did you mean text= or meta="),
    ("store.list(offset=10)", r"did you mean cursor="),
    ("store.list()['plan']", r"a Page is a list, and has no \['plan'\]"),
    ("store.list().sort_values('turns')", r"a Page has no 'sort_values': to_pandas\(\)"),
    ("store.search('trip', k=5)", r"did you mean limit="),
    ("store.search(query='trip')", r"did you mean text="),
    ("store.search(['trip', 'alps'])", "the text must be a string, not list"),
    ("store.create(parent='plan')", r"did you mean spawned_by="),
    ("store.create(id=uuid.uuid4())", "session id must be a string, not UUID"),
    ("store.create(system={'role': 'system', 'content': 'Be brief.'})", "system must be a string, not dict"),
    ("store.create(meta={'when': datetime(2026, 1, 1)})", "meta holds a datetime, which JSON cannot carry"),
    ("store.create(meta={1: 'a'})", "a meta key must be a string"),
    # --- turns are no dicts, and never change
    ("s.append('hello', 'user')", "The role comes before the content"),
    ("s.append('user', (part for part in ['a']))", "content must be a string or a list of parts, not generator"),
    ("s.append('user', pathlib.Path('prompt.txt'))", "not PosixPath"),
    ("s.append('user', 'hello', timestamp=datetime.now())", r"did you mean time="),
    ("s.append('assistant', 'hello', tokens=12)", r"did you mean usage="),
    ("s.append('assistant', 'hello', cost=0.1)", r"did you mean usage="),
    ("s.append('assistant', 'hello', usage={'input_tokens': -3})", "a whole number of tokens"),
    ("s.append('assistant', tool_calls=[{'name': 'weather'}])", "a tool call has no 'id'; it looks like"),
    ("s.append('assistant', tool_calls=[{'id': 'c1', 'args': {}}])", "a tool call has no 'name'; it looks like"),
    ("s.append('tool', 'Snow', id='c1')", r"did you mean tool_call_id="),
    ("s.append_message('hello')", "a message must be a mapping"),
    ("s.append_message(['user', 'hello'])", r"a list of them goes to extend\(\)"),
    ("s.append_message({'text': 'hello'})", "a message has a role"),
    ("s.get_messages()", "did you mean 'turns' or 'context'"),
    ("s.log()", "did you mean 'turns'"),
    ("s.checkout(0)", "a Repository has 'checkout'"),
    ("s.pop()", "did you mean 'discard_pending' or 'fork'"),
    ("s.insert(0, 'user', 'hello')", "did you mean 'append'"),
    ("s.to_df()", "did you mean 'to_pandas'"),
    ("s.score('accuracy', 0.5)", "a Repository has 'score': store.score"),
    ("s.compare('spare')", "a Repository has 'compare': store.compare"),
    ("s.turns.append('hello')", r"turns have no 'append'.*session.append\(role, content\)"),
    ("setitem(s.turns, 0, 'hello')", "turns never change"),
    ("delitem(s.turns, 0)", "turns never change"),
    ("setitem(s, 0, 'hello')", "turns never change"),
    ("delitem(s, 0)", r"store.redact\(session, index\)"),
    ("s[0]['role']", r"a Turn is no dict.*turn.role"),
    ("s[0].timestamp", "a Turn has no 'timestamp'.*'time'"),
    ("s[0].message", "a Turn has no 'message'.*'text'"),
    ("s.record['id']", r"a SessionRecord is no dict"),
    ("s.record.name", r"a SessionRecord has no 'name' \(did you mean 'label' or 'id'"),
    ("s.fork('experiment')", "label='experiment'"),
    ("s.fork(name='other')", r"did you mean label="),
    ("s.context(4000)", "max_tokens=4000"),
    ("s.context(limit=4000)", r"did you mean max_tokens="),
    ("s.context(counter=3)", "counter is a function from a text"),
    ("s.cherry_pick(far, 0)", "is of another store"),
    ("store.compare([s, far])", "there is no session, label or tag 'far'"),
    ("store.compare('plan', 'spare')", r"several go as one list, \['plan', 'spare'\]"),
    ("store.compare(['plan', 'spare'])['turns']", r"a Comparison has no \['turns'\]: to_pandas\(\)"),
    ("store.compare(['plan', 'spare']).sort_values('turns')", r"to_pandas\(\) gives a data frame"),
    ("store.query('SELECT * FROM turns')", "looks like SQL"),
    ("store.query('DELETE FROM turns')", "begins an update, and queries only read"),
    ("store.select('transcript', 'plan')", "parameters go by name"),
    ("store.select('SELECT ?s { ?s ?p ?o }').fetchall()", r"a Solutions has no 'fetchall' \(did you mean 'to_dicts'"),
    ("store.select('SELECT ?s { ?s ?p ?o }')['s']", r"Solutions has no \['s'\]: to_pandas\(\)"),
    ("store.tags['v1']", r"a Tags has no items.*'get'"),
    ("store.tags.create('v1', 'plan')", "did you mean 'add'"),
    ("store.tags.add('v1', 'plan', 1)", "'plan@1'"),
    ("store.holds.add('plan')", "did you mean 'place'"),
    ("store.graph('plan', format='png')", r"session.prov\(\) gives W3C PROV"),
    ("store.redact(s[0])", "needs 'index'"),
    ("store.delete(['plan', 'spare'])", "not by a value of type list"),
    ("store.prune(older_than='30d')", r"timedelta\(days=30\)"),
    ("trails.push(store, 'elsewhere')", "needs 'other'"),
    ("trails.rerun('plan', 'gpt')", r"store.load\(id\)"),
    ("closed.create()", "is closed; open that again"),
    ("closed.search('trip')", "is closed"),
    ("trails.aio.open(':memory:').create()", "open the store by `async with trails.aio.open"),
    # --- another loop, another life
    ("run(enter(store))", "trails.aio.open"),
    ("copy(store)", "cannot be copied"),
    ("copy(s)", "cannot be copied"),
]

WORKS = [
    ("store.load(s).id", "plan"),
    ("store.load(s.record).id", "plan"),
    ("store.delete(store.load('spare'))", ["spare"]),
    ("store.diff(s, s.record).common", 1),
    ("s in store", True),
    ("s[0] in s", True),
    ("store.load('trip').id", "plan"),
    ("len(store)", 2),
    ("trails.open(':memory:').close()", None),
]


@pytest.fixture
def far() -> Iterator[trails.Session]:
    """A session of another store."""
    with trails.open(":memory:") as store, store.session("far") as session:
        session.append("user", "Far away")
        session.persist()
        yield session


@pytest.fixture
def names(memory: Repository, tmp_path: pathlib.Path, far: trails.Session) -> dict[str, Any]:
    """What a mistake is made with: a store with two sessions, and one of them held, with a turn that is pending."""
    held = memory.create(id="plan", label="trip")
    held.append("user", "Plan a trip")
    held.persist()
    memory.create(id="spare").persist()
    held.append("user", "To the Alps")

    async def enter(store: Any) -> None:
        async with store:
            pass

    import copy

    closed = trails.open(":memory:")
    closed.close()
    return {
        "trails": trails, "store": memory, "s": held, "tmp": tmp_path, "datetime": datetime, "timedelta": timedelta,
        "far": far, "closed": closed, "pathlib": pathlib, "uuid": uuid, "date": date, "setitem": setitem, "delitem": delitem,
        "run": asyncio.run, "enter": enter, "copy": copy.copy,
    }  # fmt: skip


@pytest.mark.parametrize(("code", "message"), MISTAKES, ids=[code for code, _ in MISTAKES])
def test_a_mistake_is_told_and_loses_nothing(names: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(TrailsError, match=message) as raised:
        eval(code, names)  # noqa: S307 - the code stands above
    assert len(str(raised.value)) < 600
    store, session = names["store"], names["s"]
    assert [turn.content for turn in session][:2] == ["Plan a trip", "To the Alps"]
    if session.pending:
        session.persist()
    assert [turn.content for turn in store.load("plan")][:2] == ["Plan a trip", "To the Alps"]
    assert store.verify().ok


@pytest.mark.parametrize(("code", "answer"), WORKS, ids=[code for code, _ in WORKS])
def test_what_people_mean_just_works(names: dict[str, Any], code: str, answer: object) -> None:
    assert eval(code, names) == answer  # noqa: S307 - the code stands above
    names["s"].discard_pending()


def test_there_are_three_hundred_mistakes_and_more() -> None:
    assert len(MISTAKES) > 300
    assert len({code for code, _ in MISTAKES}) == len(MISTAKES)


AFTER_CLOSE: dict[str, Callable[[Repository, trails.Session], object]] = {
    "load": lambda store, s: store.load("plan"),
    "create": lambda store, s: store.create().persist(),
    "append": lambda store, s: s.append("user", "more"),
    "fork": lambda store, s: s.fork(),
    "persist": lambda store, s: s.persist(),
    "list": lambda store, s: store.list(),
    "in": lambda store, s: "plan" in store,
    "len": lambda store, s: len(store),
    "iterate": lambda store, s: list(store),
    "query": lambda store, s: store.query("ASK { ?s ?p ?o }"),
    "verify": lambda store, s: store.verify(),
    "diff": lambda store, s: store.diff("plan", "plan"),
    "delete": lambda store, s: store.delete("plan"),
    "tags": lambda store, s: store.tags.list(),
    "tree": lambda store, s: trails.Tree(store),
}


@pytest.mark.parametrize("call", AFTER_CLOSE)
def test_a_call_after_close_says_that_the_store_is_closed(opener: Callable[[str], Repository], call: str) -> None:
    store = opener("one")
    session = store.create(id="plan")
    session.append("user", "a")
    session.persist()
    session.append("user", "pending")
    with pytest.warns(trails.PendingTurnsWarning):
        store.close()
    with pytest.raises(trails.StoreFailed, match="closed"):
        AFTER_CLOSE[call](store, session)


def test_a_call_of_a_handle_from_another_thread_works_or_is_told(memory: Repository) -> None:
    session = memory.create(id="plan")
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(session.append("user", "a")))
    thread.start()
    thread.join()
    assert [turn.content for turn in session] == ["a"]
    assert session.persist() == 1


def test_a_call_that_fits_keeps_its_signature_its_docstring_and_its_own_errors(memory: Repository) -> None:
    append = trails.Session.append
    assert list(inspect.signature(append).parameters)[:3] == ["self", "role", "content"]
    assert "Add a turn at the end" in (append.__doc__ or "")
    assert isinstance(append, types.FunctionType)

    def broken(_: object) -> object:
        raise TypeError("of my own")

    session = memory.create()
    session.append("user", "a")
    session.append("user", "b")
    with pytest.raises(TypeError, match=r"^of my own$") as raised:
        session.bisect(broken)  # type: ignore[arg-type]
    assert not isinstance(raised.value, TrailsError)
    session.discard_pending()


def test_a_wrong_call_is_a_type_error_and_a_missing_name_an_attribute_error(memory: Repository) -> None:
    with pytest.raises(TypeError) as raised:
        memory.load()  # type: ignore[call-arg] # that is the test
    assert isinstance(raised.value, WrongCall)
    assert not hasattr(memory, "sessions")
    assert getattr(memory, "_sessions", None) is None
    assert not hasattr(trails, "Store")
