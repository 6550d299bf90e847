"""What somebody did to a mirror, or a kill while it was begun anew: it is refused, and begun anew it is whole."""

from __future__ import annotations

from collections.abc import Callable

import pyoxigraph as ox
import pytest

from tests.support.sparql_servers import StandIn
from trails import InvalidInput, Mirror, MirrorFailed, Repository
from trails.exchange.remotes import mirror

pytestmark = pytest.mark.slow

Make = Callable[..., StandIn]
_STATE = "<urn:trails:mirror>"


def told(store: Repository, *ids: str) -> None:
    for each in ids:
        with store.session(each) as session:
            session.append("user", f"Hello from {each}")


def graphs(server: StandIn) -> set[str]:
    """The names of a server's graphs in which something is said."""
    return {quad.graph_name.value for quad in server.store if isinstance(quad.graph_name, ox.NamedNode)}


@pytest.mark.parametrize("value", ['"many"', '"-1"', "<urn:elsewhere>"])
def test_a_mirror_whose_position_was_altered_is_refused_and_begun_anew(
    memory: Repository, stand_in: Make, value: str
) -> None:
    server = stand_in()
    told(memory, "chat")
    Mirror(memory, server.url).sync()
    place = f"GRAPH {_STATE} {{ {_STATE} <urn:trails:mirror:position>"
    server.store.update(f"DELETE WHERE {{ {place} ?o }} }} ; INSERT DATA {{ {place} {value} }} }}")
    with pytest.raises(InvalidInput, match="begin it anew"):
        Mirror(memory, server.url)
    Mirror(memory, server.url, anew=True).sync()
    assert Mirror(memory, server.url).verify().ok


def test_a_session_whose_next_turn_was_altered_in_the_mirror_is_written_as_a_whole(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in()
    told(memory, "chat")
    Mirror(memory, server.url).sync()
    server.store.update(
        f"DELETE {{ GRAPH {_STATE} {{ ?s <urn:trails:mirror:next> ?o }} }} "
        f'INSERT {{ GRAPH {_STATE} {{ ?s <urn:trails:mirror:next> "soon" }} }} '
        f"WHERE {{ GRAPH {_STATE} {{ ?s <urn:trails:mirror:next> ?o }} }}"
    )
    told(memory, "chat")
    mirror = Mirror(memory, server.url)
    mirror.sync()
    assert mirror.verify().ok


@pytest.mark.parametrize("catalogue", ["default", "named"])
def test_begun_anew_a_mirror_that_lost_its_notes_keeps_nothing_that_was_deleted(
    memory: Repository, stand_in: Make, catalogue: str
) -> None:
    server = stand_in()
    told(memory, "chat", "gone")
    Mirror(memory, server.url, catalogue=catalogue).sync()  # type: ignore[arg-type]
    server.store.update(f"DROP GRAPH {_STATE}")
    server.store.update('INSERT DATA { <urn:mine> <urn:p> "default" . GRAPH <urn:mine> { <urn:s> <urn:p> "named" } }')
    memory.delete("gone", by="alice")
    mirror = Mirror(memory, server.url, catalogue=catalogue, anew=True)  # type: ignore[arg-type]
    mirror.sync()
    assert "urn:trails:session:gone" not in graphs(server)
    assert not [quad for quad in server.store if "Hello from gone" in str(quad)]
    assert sorted(quad.object.value for quad in server.store if "urn:mine" in str(quad)) == ["default", "named"]
    server.store.update("DELETE WHERE { <urn:mine> ?p ?o }")
    assert mirror.verify().ok


def test_beginning_anew_that_was_cut_short_leaves_no_mirror_that_is_gone_on_with(
    memory: Repository, stand_in: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = stand_in()
    told(memory, "one", "two")
    Mirror(memory, server.url).sync()
    monkeypatch.setattr(mirror, "_MOST", 0)
    server.fail_after = len(server.updates) + 4
    with pytest.raises(MirrorFailed):
        Mirror(memory, server.url, anew=True)
    server.fail_after = None
    with pytest.raises(InvalidInput, match="does not say how far it is"):
        Mirror(memory, server.url)
    Mirror(memory, server.url, anew=True).sync()
    assert Mirror(memory, server.url).verify().ok


def test_a_server_that_gives_few_rows_is_asked_for_all_its_graphs_page_by_page(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in(name="Virtuoso/07", rows=4)
    told(memory, *(f"s{number}" for number in range(6)))
    Mirror(memory, server.url).sync()
    mirror = Mirror(memory, server.url, anew=True)
    assert not [each for each in graphs(server) if "session" in each]
    mirror.sync()
    assert mirror.verify().ok


def test_begun_anew_with_its_catalogue_elsewhere_a_mirror_has_it_there_alone(
    memory: Repository, stand_in: Make
) -> None:
    server = stand_in()
    told(memory, "chat")
    Mirror(memory, server.url).sync()
    Mirror(memory, server.url, catalogue="named", anew=True).sync()
    assert not list(server.store.quads_for_pattern(None, None, None, ox.DefaultGraph()))
    Mirror(memory, server.url, catalogue="default", anew=True).sync()
    assert "urn:trails:catalog" not in graphs(server)
    assert Mirror(memory, server.url).verify().ok
