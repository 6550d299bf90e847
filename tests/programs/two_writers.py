"""Two programs write one session: the second keeps its turns as a fork.

Prints:
conflict in plan
plan-b holds ['Plan a trip', 'And back?']
"""

import trails

with trails.open("shared.trails", create=True) as store:
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.persist()
    first, second = store.load("plan"), store.load("plan")
    first.append("user", "Thanks")
    second.append("user", "And back?")
    first.persist()
    try:
        second.persist()
    except trails.HeadConflict as conflict:
        print("conflict in", second.id if conflict.message else "")
        kept = second.keep_as_fork(id="plan-b")
        print(kept.id, "holds", [turn.content for turn in kept])
