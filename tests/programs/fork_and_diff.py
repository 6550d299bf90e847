"""Try another answer from the same question, and see where the two differ.

Prints:
common 1
changed: [('left', 'train'), ('right', 'bus')]
dinner forked from plan at 1 by bob
[{'role': 'user', 'content': 'How do we get there?', 'index': 0, 'branch': 'main'}]
"""

import trails

with trails.open("forks.trails", create=True) as store:
    plan = store.create(id="plan", principal="alice")
    plan.append("user", "How do we get there?")
    plan.append("assistant", "Take the train.")
    plan.persist()
    dinner = plan.fork(at=1, id="dinner", principal="bob")
    dinner.append("assistant", "Take the bus.")
    dinner.persist()

    difference = store.diff("plan", "dinner")
    print("common", difference.common)
    for entry in difference.entries:
        detail = entry.detail
        if detail.text:
            print(f"{entry.kind}:", [(span.side, span.text) for span in detail.text if span.side != "equal"])
    for record in plan.branches():
        print(record.id, "forked from", record.parent_session_id, "at", record.forked_at_index, "by", record.principal)
    print(store.replay("dinner", up_to_index=1))
