"""Record what tools were called with, what they answered, and what a call took.

Prints:
weather {'place': 'Zermatt'} -> Snow
12 in, 4 out, 2.0 s
tool turns: 1 by weather
"""

from datetime import UTC, datetime, timedelta

import trails

start = datetime(2026, 3, 1, 12, tzinfo=UTC)
with trails.open(":memory:") as store:
    session = store.create(system="Be brief.")
    session.append("user", "How is it in Zermatt?", time=start)
    asked = session.append(
        "assistant",
        "I look.",
        model="m-1",
        usage={"input_tokens": 12, "output_tokens": 4},
        call=trails.Call(started=start, ended=start + timedelta(seconds=2), provider="acme"),
        tool_calls=[{"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}],
    )
    answered = session.append("tool", "Snow", tool_call_id="c1")
    session.persist()

    for call in asked.tool_calls:
        print(call.name, call.input, "->", answered.text)
    if asked.call is not None and asked.call.started is not None and asked.call.ended is not None and asked.usage:
        seconds = (asked.call.ended - asked.call.started).total_seconds()
        print(f"{asked.usage['input_tokens']} in, {asked.usage['output_tokens']} out, {seconds} s")
    tools = [turn for turn in session if turn.role == "tool"]
    print("tool turns:", len(tools), "by", *{turn.author for turn in tools})
