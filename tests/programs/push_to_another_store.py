"""Copy sessions to another store, as git pushes branches.

Prints:
['plan'] 1
nothing new: 0
"""

import trails

with trails.open("here.trails", create=True) as here, trails.open("there.trails", create=True) as there:
    plan = here.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.persist()
    moved = trails.push(here, ["plan"], there)
    print([each.session_id for each in moved.sessions], len(there.load("plan")))
    again = trails.push(here, ["plan"], there)
    print("nothing new:", sum(each.turns_added for each in again.sessions))
