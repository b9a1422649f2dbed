"""Declared settings: name, doc, type, default, bounds, dynamic or not, under Kafka's property names.

`setting` is how one is declared, `values` how values are read and printed, `server` a node's settings (declared by area
in `broker/`), `topic` a topic's, `known` what Kafka knows and we ignore, `crosscheck` what settings must say of one
another, `describe` what DescribeConfigs tells, `limits` the bounds that nobody tunes.
"""
