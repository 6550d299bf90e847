"""A server that takes no writes, and a URL that no server can be reached by, are said to be that."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

import trails
from tests.support import clusters
from tests.support.clusters import Cluster
from trails import InvalidInput, StoreFailed, StoreReadOnly
from trails.store.postgres import link
from trails.store.postgres.link import Unreachable


@pytest.fixture(scope="module")
def standby(cluster: Cluster) -> Iterator[Cluster]:
    made = clusters.standby_of(cluster)
    yield made
    clusters.remove(made)


@pytest.fixture
def filled(url: str) -> str:
    with trails.open(url, create=True) as store:
        store.session("plan", autopersist=True).append("user", "Plan a trip")
    return url


def _at(standby: Cluster, cluster: Cluster, url: str) -> str:
    """Return the address of the store in the standby, once it is there."""
    address = url.replace(f"{cluster.folder}", f"{standby.folder}")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with trails.open(address, read_only=True) as store:
                if "plan" in store:
                    break
        except InvalidInput:
            time.sleep(0.05)
    return address


def test_a_write_on_a_standby_says_that_it_is_one_and_what_to_do(
    filled: str, cluster: Cluster, standby: Cluster
) -> None:
    with trails.open(_at(standby, cluster, filled)) as store:
        plan = store.load("plan")
        plan.append("user", "By train")
        begun = time.monotonic()
        with pytest.raises(
            StoreReadOnly, match=r"is a standby: nothing was written; name the primary .*read_only=True"
        ) as said:
            plan.persist()
        assert isinstance(said.value, StoreFailed)
        assert time.monotonic() - begun < link.PATIENCE / 2  # trying again would change nothing
        assert "try again" not in said.value.message
        plan.discard_pending()
        with pytest.raises(StoreReadOnly, match="is a standby"):
            trails.open(f"{_at(standby, cluster, filled)}-new", create=True)


def test_a_write_on_a_standby_of_several_hosts_waits_for_one_that_takes_it(
    filled: str, cluster: Cluster, standby: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = _at(standby, cluster, filled).replace(f"{standby.folder}", f"{standby.folder},{cluster.folder}")
    with trails.open(address) as store:
        plan = store.load("plan")
        plan.append("user", "By train")
        monkeypatch.setattr(link, "PATIENCE", 0.0)
        with pytest.raises(Unreachable, match=r"is a standby.*what is pending is kept"):
            plan.persist()
        plan.discard_pending()


def test_a_write_as_a_user_who_only_reads_says_so(filled: str) -> None:
    name = "reads_only"
    with psycopg.connect(filled.rpartition("&store=")[0], autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} SUPERUSER LOGIN")
        owner.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    with trails.open(filled.replace("user=postgres", f"user={name}")) as store:
        plan = store.load("plan")
        plan.append("user", "By train")
        with pytest.raises(StoreReadOnly, match=r"lets this user only read .*default_transaction_read_only"):
            plan.persist()
        plan.discard_pending()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("sslmod=require", "sslmod"),
        ("sslmode=requires", "sslmode"),
        ("connect_timeout=soon", "connect_timeout"),
        ("options=-c%20no_such=1", "no_such"),
        ("port=none", "port"),
    ],
)
def test_a_parameter_of_the_url_that_cannot_be_used_is_named(filled: str, wrong: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"a parameter that cannot be used .*{named}.*correct it") as said:
        trails.open(f"{filled}&{wrong}")
    assert "pending" not in said.value.message


def test_a_server_that_is_away_says_nothing_of_pending_turns_to_who_only_opens(url: str) -> None:
    with pytest.raises(StoreFailed, match=r"cannot be used .*try again") as said:
        trails.open(url.replace("host=", "host=/nowhere"))
    assert "pending" not in said.value.message
