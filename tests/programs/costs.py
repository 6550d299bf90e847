"""See what was used and what it cost, by model.

Prints:
m-1: 2 calls, 30 in, 12 out
total 0.27
"""

import trails

with trails.open(":memory:") as store:
    with store.session("chat") as chat:
        for text in ("one", "two"):
            chat.append("user", text)
            chat.append("assistant", text, model="m-1", usage={"input_tokens": 15, "output_tokens": 6})
    for row in store.stats(by="model", since="7d"):
        print(f"{row.group}: {row.calls} calls, {row.input_tokens} in, {row.output_tokens} out")
    spent = store.cost(prices={"m-1": {"input": 3_000.0, "output": 15_000.0}}, by="model").total
    print("total", spent.cost)
