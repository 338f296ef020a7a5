"""The Conductor server as an orchestrator.

`client` makes single calls and says what went wrong with them, `orchestrator` is the `Orchestrator` that attempts run
with, `identity` is the name of a server for good, `taskdefs` tells the server about tasks, `workflows` starts
workflows and looks at them, `opening` makes all of it from the settings.
"""

from headgate.orchestrators.conductor.client import Client, Endpoint
from headgate.orchestrators.conductor.opening import endpoint_of, open_conductor
from headgate.orchestrators.conductor.orchestrator import ConductorOrchestrator

__all__ = ["Client", "ConductorOrchestrator", "Endpoint", "endpoint_of", "open_conductor"]
