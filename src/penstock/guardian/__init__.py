"""Governance of clusters, as a service of its own and as programs that need only a model of a cluster.

core       the service, without the world: its log, calls, looks at clusters, alarms, plans at work. Pure
rest       its REST API, over HTTP      service.py   one node in an asyncio loop      client.py   who asks it
model      what each replica of a cluster costs, as a directory of Parquet files
plan       where replicas had better be. Pure       policy   what users' own Python files say of moves
twin       what a plan takes and does, on a model
telemetry  what brokers tell of themselves, read. Pure
"""
