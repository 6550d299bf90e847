"""Store a reply while it arrives.

Prints:
Take the train.
6 tokens, m-1
"""

from collections.abc import Iterator

import trails


def stream() -> Iterator[str]:
    yield from ("Take ", "the ", "train.")


with trails.open(":memory:") as store, store.session("chat") as chat:
    chat.append("user", "How do I get there?")
    with chat.streaming("assistant", model="m-1") as streamed:
        for chunk in stream():
            streamed.write(chunk)
        streamed.usage = {"output_tokens": 6}
    last = chat[-1]
    print(last.content)
    print(f"{last.usage['output_tokens'] if last.usage else 0} tokens, {last.model}")
