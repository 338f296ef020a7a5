"""Logging: lines for people on a terminal, JSON lines in files, the attempt's identity on each, no secrets on any.

Parts of Headgate log as any library does, with `logging.getLogger(__name__)` and facts in `extra=`; `bound` puts the
identity of an attempt on every line of a block. Only the CLI and the worker call `configure`; bodies may use structlog
or the standard library, and their lines go the same way.
"""

from headgate.logs.configure import configure, unconfigure
from headgate.logs.facts import FactsFormatter, FactsLogger
from headgate.logs.identity import bound
from headgate.logs.redact import HIDDEN, Redactor

__all__ = ["HIDDEN", "FactsFormatter", "FactsLogger", "Redactor", "bound", "configure", "unconfigure"]
