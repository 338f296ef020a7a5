"""Executors: processes that run attempts, one at a time each, with their imports paid once.

A body in a thread cannot be ended, and one that holds the interpreter stops every other thread of its process. So
bodies run in processes of their own, and what has to go on whatever a body does stays in the process that started
them: leases, time limits, the report of an executor that died. An executor asks the orchestrator itself, over its own
connection: no fence goes through anybody else's queue.

`messages` is what the two sides say to each other, `child` is an executor from inside, `process` from outside,
`running` is one attempt in an executor, `pool` keeps several executors alive and busy, `burial` is what is owed to the
attempt of an executor that is gone.
"""

from headgate.orchestrators.executors.messages import Setup, TaskFacts
from headgate.orchestrators.executors.pool import Listener, Pool, Slot
from headgate.orchestrators.executors.running import Running

__all__ = ["Listener", "Pool", "Running", "Setup", "Slot", "TaskFacts"]
