"""An agent gives a task to a sub-agent, and takes in what came of it.

Prints:
main: ['trains']
trains completed
The 9:04
"""

import trails

with trails.open(":memory:") as store:
    tree = trails.Tree(store)
    planner = tree.main("planner", "chat", system="Be brief.")
    trains = planner.spawn("branch", "Find a train", "Two friends.", id="trains")
    print("main:", [child.id for child in planner.children()])
    result = trains.complete("The 9:04")
    turn = tree.incorporate(result)
    print(trains.id, trains.state)
    print(turn.text.splitlines()[-1])
