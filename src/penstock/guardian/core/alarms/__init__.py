"""Early warning: what is wrong with a cluster, how sure that is, and what is done about it.

finding.py      what a look shows of one thing        census.py     one walk over the partitions, for all that need it
dead_brokers.py, dead_disks.py, under_replication.py, filling_disks.py, skewed_leaders.py      a kind of anomaly each
streaks.py      how long a thing has been seen        alarm.py      an alarm, as the log has it
lifecycle.py    what becomes of an alarm              lookout.py    all that is found in one cluster
vantage.py      another look at a broker that its cluster misses        silence.py   whether silence speaks
evacuation.py   where the replicas of what is dead are to go     healing.py, submitting.py   the acts
early_warning.py  the duty of the leader              metrics.py    the alarms at /metrics

An alarm goes from suspect to confirmed, acting, and recovered or escalated:

    suspect    a look shows it                          (in the memory of the leader; all else is in the log)
    confirmed  looks that follow each other have shown it for long enough, and another vantage point agrees
    acting     it is being healed: the intent is committed, then the act is done
    recovered  looks that follow each other have not shown it for as long
    escalated  a person must look: too much is dead at once, it has come back, or healing has not helped

What was not looked at lately says nothing, neither that a thing is there nor that it is gone.
"""
