"""Real servers on this machine, for tests, benchmarks, the demo and people.

    python -m tools.servers install|up|down|status [lakefs|conductor|s3|spark …]

`install` puts each server, by its pinned version, into a cache that later runs share; `up` starts it on free loopback
ports with its data in a temporary folder. From Python the same servers are context managers:

    with lakefs_server() as lakefs:
        print(lakefs.url, lakefs.access_key, lakefs.secret_key)

`recipes` says how each part is built and started, `toolchains` finds Go, Maven and Java, `installs` is the cache,
`running` starts and stops processes, `state` remembers what `up` started.
"""

from tools.servers.recipes import PARTS, conductor_server, lakefs_server, s3_server, spark_cluster
from tools.servers.running import Server, ServerFailed
from tools.servers.toolchains import MissingToolchain, NotInstalled, Unavailable

__all__ = [
    "PARTS",
    "MissingToolchain",
    "NotInstalled",
    "Server",
    "ServerFailed",
    "Unavailable",
    "conductor_server",
    "lakefs_server",
    "s3_server",
    "spark_cluster",
]
