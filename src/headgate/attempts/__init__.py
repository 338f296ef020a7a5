"""Running one attempt, from input ref to published ref: the lifecycle, the local workspace, its garbage collection.

`lifecycle` is the protocol from top to bottom, `runtime` the parts it is handed, `stores` what it asks of a store and
`lake_store` a lake's answers. `fence`, `judging` and `reporting` talk to the orchestrator; `workspace`, `body` and
`kept` to this machine; `names` says whose a staging branch is; `gc` and `rewind` are for people; `records` remembers.
"""

from headgate.attempts.lake_store import lake_opener
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.records import AttemptRecords
from headgate.attempts.report import AttemptReport
from headgate.attempts.runtime import AttemptOptions, Runtime

__all__ = ["AttemptOptions", "AttemptRecords", "AttemptReport", "Runtime", "lake_opener", "run_attempt"]
