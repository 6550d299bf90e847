"""Random records for reruns."""

from __future__ import annotations

import random

from trails import Repository, Session


def recorded(store: Repository, name: str, chance: random.Random) -> tuple[Session, list[int]]:
    """A random transcript, and the indices of its answers of models and tools."""
    s = store.create(id=name)
    script = []
    for _ in range(chance.randrange(1, 5)):
        s.append("user", f"go {chance.randrange(3)}")
        for _ in range(chance.randrange(3)):
            names = [chance.choice(["dice", "look"]) for _ in range(chance.randrange(1, 4))]
            calls = [{"id": f"{len(s)}-{n}", "name": each, "arguments": {"n": 0}} for n, each in enumerate(names)]
            script.append(len(s))
            s.append("assistant", f"say {chance.randrange(3)}", tool_calls=calls)
            chance.shuffle(calls)
            for call in calls:
                script.append(len(s))
                s.append("tool", f"answer {chance.randrange(3)}", tool_call_id=str(call["id"]))
        script.append(len(s))
        s.append("assistant", f"say {chance.randrange(3)}")
    s.persist()
    return s, script
