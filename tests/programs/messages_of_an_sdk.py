"""Append what model SDKs return, and get the history back in the shape of each.

Prints:
['user', 'assistant', 'tool', 'assistant']
weather c1
['user', 'assistant', 'tool', 'assistant']
['message', 'function_call', 'function_call_output', 'message']
"""

import trails

history: list[dict[str, object]] = [
    {"role": "user", "content": "How is it?"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Snow"},
]
with trails.open(":memory:") as store, store.session("chat") as chat:
    chat.extend(history)
    chat.append_message({"role": "assistant", "content": "Take skis."})
    print([turn.role for turn in chat])
    (call,) = chat[1].tool_calls
    print(call.name, call.id)
    shown = chat.context()
    print([message["role"] for message in shown.openai()])
    print([item.get("type", "message") for item in shown.responses()["input"]])
