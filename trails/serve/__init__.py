"""One store for many: an HTTP API, a SPARQL endpoint and a console in the browser (extra `serve`).

`create_app` gathers the parts. Each part's module has a function `routes(service)`.
"""
