"""The Conductor worker: a supervisor with pollers in threads and bodies in executor processes.

`supervisor` is the worker from start to drained, `pollers` fetch attempts while an executor is free, `status` is how
others on this machine see it.
"""

from headgate.orchestrators.worker.status import LiveWorker, live_workers
from headgate.orchestrators.worker.supervisor import RESTART, Supervisor, grace_seconds

__all__ = ["RESTART", "LiveWorker", "Supervisor", "grace_seconds", "live_workers"]
