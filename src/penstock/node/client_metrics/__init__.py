"""Client metrics (KIP-714): what clients are asked for, who they are, and what they have pushed.

`subscriptions` is what the metadata says, `instances` are the clients that this broker has heard of, `otlp` reads what
they push and `pushed` keeps it for /metrics; `node_part` has them all together as one part of a node. The handlers are
in `penstock.node.handlers.client_metrics`.
"""
