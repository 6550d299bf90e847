"""Scores from an event loop: the same calls, awaited; a scorer works beside the loop, which others use meanwhile."""

from __future__ import annotations

import threading

import anyio

from trails import Session, aio
from trails.aio import AsyncRepository

WAIT = 20.0
"""Seconds after which a test that hangs gives up."""


async def two_sessions(store: AsyncRepository) -> None:
    for name in ("one", "two"):
        chat = await store.create(id=name)
        chat.append("user", name)
        await chat.persist()


def test_scores_are_given_listed_compared_and_removed() -> None:
    def meets(session: Session) -> bool:
        return session.id == "one"

    async def main() -> None:
        async with aio.open(":memory:") as store:
            await two_sessions(store)
            done = await store.score_all(["one", "two"], meets, workers=2)
            assert [(score.ref, score.value) for score in done.scores] == [("one", True), ("two", False)]
            await store.score("one", "meets", True, by="bob")
            mine = await store.score("two", "meets", True, by="bob")
            found = await store.agreement("meets", "agent:meets", "bob")
            assert (found.n, found.same) == (2, 0.5)
            await store.remove_score(mine.id)
            assert len(await store.scores("two")) == 1

    anyio.run(main)


def test_others_go_on_while_a_scorer_takes_its_time() -> None:
    written = threading.Event()

    def waits(session: Session) -> bool:
        return written.wait(WAIT)

    async def main() -> None:
        async with aio.open(":memory:") as store:
            await two_sessions(store)
            with anyio.fail_after(WAIT):
                async with anyio.create_task_group() as group:
                    group.start_soon(lambda: store.score_all(["one"], waits))
                    await store.score("two", "other", 1)
                    written.set()
            assert [(score.name, score.value) for score in await store.scores("one")] == [("waits", True)]

    anyio.run(main)
