"""Keep a chat over several runs of a program.

Prints:
2
4
user: Hello
assistant: You said Hello
user: Still there?
assistant: You said Still there?
"""

import trails


def reply(messages: list[str]) -> str:
    return f"You said {messages[-1]}"


def ask(text: str) -> int:
    with trails.open("chat.trails", create=True) as store, store.session("chat", principal="alice") as chat:
        chat.append("user", text)
        chat.append("assistant", reply([turn.text for turn in chat.turns]), model="m-1")
        return len(chat)


print(ask("Hello"))
print(ask("Still there?"))
with trails.open("chat.trails") as store:
    for turn in store.load("chat"):
        print(f"{turn.role}: {turn.text}")
