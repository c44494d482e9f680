"""The traffic of one experiment: every source and every sink, in one thread with one epoll loop.

Data go from sources to sinks. What a source sends is zeros, after the few bytes that say which flow it is.
"""

from __future__ import annotations

from bulk import begin_bulk
from loop import Loop
from namespace import Namespace
from scenario import Scenario
from web import begin_web


class Traffic(Loop):
    """Sources and sinks of a scenario, in two namespaces."""

    def __init__(self, scenario: Scenario, sources: Namespace, sinks: Namespace) -> None:
        super().__init__(scenario, sources, sinks)
        begin_bulk(self)
        begin_web(self)
