"""A store that a server keeps (`trails serve`), as a store of this process: every read and every commit is a request.

There is no index here, on disk or in memory. What an operation will read is asked for at once (`RemoteStore.ahead`).
"""
