"""Plans at work: what is to be moved, how far that is, and the executor that does it.

plans.py      plans, moves, limits and decisions, as the log has them      replaying.py  their records
checks.py     whether a plan fits the cluster that was seen                admission.py  which moves may begin now
looks.py      what the executor looks at before it acts                    progress.py   how far a look finds each move
acts.py       the requests that move something                             throttles.py  what holds copies back
budget.py     how fast copies may be, by what they do to others            endings.py    how plans begin and end
worker.py     one cluster's rounds: look, write the intent, act, write the outcome; throttling.py, the part of a round
              that is about throttles; steps.py, what a round yields to have something done
telling.py    a move in sentences
executor.py   the workers of all clusters, while this node leads and holds the lease
"""
