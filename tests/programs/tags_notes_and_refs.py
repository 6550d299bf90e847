"""Name places, write notes beside turns, and work on a name that moves.

Prints:
v1 plan 1
Well asked. by bob
main has ['Plan a trip', 'By train?']
[1]
"""

import trails

with trails.open(":memory:") as store:
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.append("assistant", "Where to?")
    plan.persist()
    tag = store.tags.add("v1", "plan@1")
    print(tag.name, tag.session_id, tag.length)
    store.notes.add("plan", 0, "Well asked.", by="bob")
    for note in store.notes.list("plan"):
        print(note.text, "by", note.author)
    store.refs.set("main", "plan", 1)
    with store.checkout("main") as main:
        main.append("assistant", "By train?")
    print("main has", [turn.content for turn in store.checkout("main")])
    print(sorted({move.at for move in store.refs.history("main") if move.at is not None}))
