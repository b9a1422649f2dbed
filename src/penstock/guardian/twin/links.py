"""How copies share disks and network: max-min fair, as connections over the same links come to share them.

All rates rise together; where a link is full, the copies over it stay as they are, and the others go on rising. So no
copy can get more without one that has no more than it getting less.
"""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.model import Array

CLOSE = 1e-12
"""Links that are full at nearly the same rate are taken to be full at once."""


def fair_rates(free: Array, uses: Array) -> Array:
    """The rate of each copy, in the units of `free`.

    `free`: what copies may use of each link, 0 or more. `uses`: for each copy a row of links, -1 where it uses fewer;
    it uses one link at least, and none twice.
    """
    rates = np.zeros(len(uses))
    left = free.astype(float).copy()
    rising = np.ones(len(uses), np.bool_)
    there = uses >= 0
    while rising.any():
        counts = np.bincount(uses[rising][there[rising]], minlength=len(left))
        used = counts > 0
        more = (left[used] / counts[used]).min()
        rates[rising] += more
        left[used] -= more * counts[used]
        full = np.zeros(len(left), np.bool_)
        full[used] = left[used] <= CLOSE * np.maximum(free[used], 1.0)
        stopped = (full[np.maximum(uses, 0)] & there).any(axis=1)
        rising &= ~stopped
    return rates
