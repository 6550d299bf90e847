"""Catch what goes wrong by the class that says what it is.

Prints:
SessionNotFound: there is no session, label or tag 'plam' (did you mean 'plan'?)
TurnNotFound is an IndexError
InvalidInput is a ValueError
one root: True
"""

import trails

with trails.open(":memory:") as store:
    store.create(id="plan").persist()
    try:
        store.load("plam")
    except trails.SessionNotFound as error:
        print(f"{type(error).__name__}: {error.message.partition(';')[0]}")
    try:
        print(store.load("plan")[3])
    except IndexError as error:
        print(type(error).__name__, "is an IndexError")
    try:
        store.create(id="no spaces please")
    except ValueError as error:
        print(type(error).__name__, "is a ValueError")
    try:
        store.load("plan").fork(at=9)
    except trails.TrailsError as error:
        print("one root:", isinstance(error, trails.InvalidInput))
