"""The completeness audit: records per topic and ten minutes of event time, at every place that should have them.

tally      counts records by bucket, vectorised
producer   what producers say that they have sent: records of an audit topic
logs       what topics hold, of one cluster or of its copy
lake       what lake tables hold
table      all counts, and how far the logs are counted, in one Delta table
compare    where the places differ
"""
