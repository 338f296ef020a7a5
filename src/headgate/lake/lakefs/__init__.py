"""A lake on a lakeFS server: the same attempts, with a fence that the server decides.

`client` makes calls and `answers` says what answers mean; `api` is the endpoints we use; `hook`, `gate`, `fence` and
`proof` are the hard fence; `objects` moves bytes, `gateway` tells Spark how to; `lake` puts them together as a `Lake`.
"""

from headgate.lake.lakefs.client import Endpoint
from headgate.lake.lakefs.lake import FenceChoice, LakeFSLake

__all__ = ["Endpoint", "FenceChoice", "LakeFSLake"]
