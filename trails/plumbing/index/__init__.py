"""The derived index of a store: figures of its sessions and the text of its turns, in SQLite beside the store's files.

It is an index and never the truth: all of it is made from what the store says, it carries the place in the store's log
up to which it holds, and whatever is in doubt is thrown away and made again.

    rows        what the store says of a session and its turns, as the index keeps it
    sidefile    one SQLite file with a seal: used where its bytes are those that were sealed, else made anew
    changes     which sessions lines of the log tell of
    figures     the figures: a row a session, a turn and a model call; lists and statistics
    texts       the texts: which turns may hold a text
    offers      names out of the figures for those who type, as they are, without the engine
    keeper      both of them, for one open store: brought up to date when somebody asks
"""
