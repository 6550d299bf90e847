"""Receive messages once, answer them in order, and record what was delivered.

Prints:
once: True
completed On my way: Is it open?
delivery 1 sent
"""

import trails
from trails.runtime.message_exchanges import Running


def answer(running: Running) -> str:
    return f"On my way: {running.messages[-1].content}"


with trails.open(":memory:") as store:
    store.create(id="desk", agent="clerk").persist()
    ledger = trails.Ledger(store)
    event = ledger.receive("desk", "Is it open?", source="mail", event_id="m-1", channel="smtp")
    print("once:", ledger.receive("desk", "Is it open?", source="mail", event_id="m-1").number == event.number)
    (exchange,) = ledger.process("desk", answer)
    print(exchange.state, store.load("desk")[-1].content)
    (out,) = ledger.events("desk", direction="outbound")
    delivery = ledger.delivered(out)
    print("delivery", delivery.attempt, delivery.outcome)
