"""Guardian over HTTP: the calls of `guardian.core` for people and their tools, with tokens and roles.

`door` has the listener and its connections, `desk` makes calls of requests and responses of answers, `app` puts the
routes together with what OpenAPI says of them. What a call means, and who may make it, is decided in `guardian.core`.
"""
