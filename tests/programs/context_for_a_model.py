"""Give a model what fits: the system prompt, the first turn, the newest turns and the question.

Prints:
system user user assistant user assistant user
5 turns left out, 56 of 60 tokens
anthropic: Be brief. 5
cannot: what cannot be left out takes 23
"""

import trails

with trails.open(":memory:") as store:
    session = store.create(id="trip", system="Be brief.")
    for number in range(4):
        session.append("user", f"Question {number}: how far is it?")
        session.append("assistant", f"Answer {number}: not far.")
    session.append("user", "One more.")
    session.append("assistant", "Yes?")
    session.persist()

    shown = store.context("trip", "In May?", max_tokens=60)
    print(*(message["role"] for message in shown.openai()))
    print(f"{len(shown.dropped)} turns left out, {shown.tokens} of {shown.max_tokens} tokens")
    request = shown.anthropic()
    print("anthropic:", request.get("system"), len(request["messages"]))
    tight = session.context(max_tokens=1)
    if not tight.within_budget and tight.why is not None:
        print("cannot:", " ".join(tight.why.split()[:7]))
