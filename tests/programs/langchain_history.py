"""Keep the history of a LangChain program, and fork it.

Prints:
['human', 'ai']
['Plan a trip', 'By train?']
2 sessions
"""

from langchain_core.messages import AIMessage, HumanMessage

import trails
from trails.adapters.langchain import TrailsChatMessageHistory

with trails.open(":memory:") as store:
    history = TrailsChatMessageHistory("trip", store)
    history.add_messages([HumanMessage("Plan a trip"), AIMessage("Where to?")])
    print([message.type for message in history.messages])
    other = history.fork("other", at=1)
    other.add_messages([AIMessage("By train?")])
    print([message.content for message in other.messages])
    print(len(store.list()), "sessions")
