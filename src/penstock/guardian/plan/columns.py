"""Where what stands in the tables of a `State`: one row a replica, partition, broker, disk or topic.

A row of whole numbers has all that a loop asks of one replica side by side, so that it costs one look into memory.
And a function of twenty tables is compiled in a fraction of the time that one of fifty arrays needs.
"""

from __future__ import annotations

from penstock.guardian.plan.model import CPU, DISK_RESOURCES, NET_IN, NET_OUT, RESOURCES

# of a replica: its partition, where it is and was, whether it lies where nothing may stay, the replica with which it
# has changed places or -1, the number of its last move or 0, and whether it has moved lately and is left where it is
PARTITION, BROKER, DISK, ORIGIN_BROKER, ORIGIN_DISK, LEAVES, SWAPPED, TURN, RESTS = range(9)

# of a partition: its replicas, its topic, the replica that leads it and that led it, whether anything of it may be
# touched, and over how many racks and hosts it is to be spread
FIRST, END, TOPIC, LEADER, ORIGIN_LEADER, FREE, RACKS_WANTED, HOSTS_WANTED = range(8)

# of a broker: its disks, rack and host, whether replicas may come, whether it may lead, whether nothing leaves it, how
# many replicas it may hold, and how many it holds
FIRST_DISK, END_DISK, RACK, HOST, TAKES, MAY_LEAD, STAYS, HELD_MAX, HELD = range(9)

# of a disk: its broker, and whether replicas may come
OF_BROKER, DISK_TAKES = range(2)

# of a topic: its row of `State.pins`, its row of `State.leader_counts` or -1, and how many of its replicas a broker may
# hold before they are too many
PIN, NAMED, MOST = range(3)

# loads of a broker: what is used of each resource and how many it leads; the 95th percentiles of three resources and
# their limits; and 1 / share of what is used, 0 where there is no share
LEADERS = len(RESOURCES)
BROKER_PEAKS = (CPU, NET_IN, NET_OUT)
AT_PEAK = LEADERS + 1
LIMIT = AT_PEAK + len(BROKER_PEAKS)
SCALE = LIMIT + len(BROKER_PEAKS)
BROKER_LOADS = SCALE + LEADERS + 1

# loads of a disk, likewise; at the 95th percentile bytes, and writes and reads together
DISK_PEAKS = 2
DISK_AT_PEAK = len(DISK_RESOURCES)
DISK_LIMIT = DISK_AT_PEAK + DISK_PEAKS
DISK_SCALE = DISK_LIMIT + DISK_PEAKS
DISK_LOADS = DISK_SCALE + len(DISK_RESOURCES)

# the numbers of a score: the width within which nothing needs to be done, and the narrower one at which a search aims;
# what a replica too many of a topic costs, a leadership, an overload; how much a disk matters, and how much each
# resource of a broker and its leaders
WITHIN, BAND, TOPIC_COST, LEADER_COST, OVERLOAD, DISK_WEIGHT, WEIGHTS = range(7)
NUMBERS = WEIGHTS + LEADERS + 1

# counts of a search: moves made so far, and used slots of the table of topics on brokers
MOVES, SPREAD_USED = range(2)
