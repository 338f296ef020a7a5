"""From recorded publishes to a publish budget."""

from __future__ import annotations

import math

from headgate.attempts.records import PublishTimes
from headgate.tasks.controls import PublishBudget


def budget_for(times: PublishTimes, *, base: PublishBudget | None = None) -> PublishBudget:
    """A budget that holds what was observed: the p99 filled in, the timeout raised where it is too short."""
    base = base or PublishBudget()
    p99 = max(0.001, math.ceil(times.p99 * 1000) / 1000)
    timeout = max(base.publish_timeout_seconds, math.ceil(p99 + base.safety_margin_seconds))
    return PublishBudget(
        observed_publish_p99_seconds=p99,
        safety_margin_seconds=base.safety_margin_seconds,
        publish_timeout_seconds=float(timeout),
        completion_timeout_seconds=base.completion_timeout_seconds,
        shutdown_grace_seconds=base.shutdown_grace_seconds,
        heartbeat_interval_seconds=base.heartbeat_interval_seconds,
    )
