"""The statuses of calls of a compiled loop or transition: one vocabulary for the pool, the nodes and their drivers.

0: done. Above 0: the driver has something to do, and may call again. Below 0: the columns are too small for the next
step; the driver makes room, and the same call goes on. From REFUSED on: a policy's answer cannot be used.
"""

from __future__ import annotations

DONE = 0  # all that was asked for has happened

WATCHED = 1  # the watched job is about to finish, at pool.next_finish
STUCK = 2  # jobs are waiting, nothing runs, and the policy only ever wakes up to do nothing
PAUSED = 3  # the budget of events, or of instants, is used up
ASKED = 4  # the planner is to decide now
SELECT = 5  # the policy is to be selected: put `Cluster.select_s` off, and go on
FORESEE = 6  # a play-out is to find the wait of the job in slot `Pool.offender`
RAN_ALONE = 7  # within the loop: the job has been on dedicated machines since it began to wait

NEED_SLOTS = -21  # for the next job: grow the columns
NEED_SEGMENTS = -22  # for segments or absences: take them out
NEED_PLACEMENTS = -23  # to note where the next job goes
NEED_STEPS = -24  # for the plan of reservations
NEED_NODES = -25  # a number for another machine
NEED_FATES = -26  # the next machine's fate has not been drawn
NEED_LOG = -27  # in the log of decisions

REFUSED = 100  # + why, below: the policy's answer cannot be used
FORESEEN = 200  # + why: the same while playing forward

ACCEPTED = 0
TOO_MANY_UNITS = 1
NOT_POSITIVE = 2
BELOW_MINIMUM = 3
ABOVE_MAXIMUM = 4
NOT_WHOLE = 5
NAMED_TWICE = 6
NOT_ACTIVE = 7
BAD_WAKEUP = 8
BAD_GROUP = 9
BAD_KEY = 10
BAD_COUNT = 11
BAD_PLACE = 12
BAD_VICTIM = 13
BAD_WRITE = 14
BAD_WAIT = 15
BAD_ORDERS = 16
