"""Ray: workers are actors, questions are calls. No decision is made here.

This is the only module that imports ray: `pip install 'fedslim[ray]'`.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Ray reads this when it is imported. It would print these lines to stdout, in the middle of a result; `rows` tells of
# each worker that is started again.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", r"^A worker died or was killed|^The node with node id")

import ray
from ray.exceptions import RayError, RayTaskError

from fedslim.engines.row_worker import Part, RowWorker
from fedslim.engines.rows import WorkerLostError
from fedslim.errors import FedslimError, ParameterError, RunError

CONNECT_SECONDS = 10.0


class RayEngine:
    """Runs workers on the cluster that this process is connected to."""

    def __init__(self) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        self.cpus = int(sum(node["CPU"] for node in nodes))
        self._memories = [node.get("memory", 0.0) for node in nodes]

    def memory(self, workers: int) -> float:
        """Return the bytes that each of so many workers may use, which are spread over the nodes."""
        return float(min(self._memories) // -(-workers // len(self._memories)))

    def start(self, part: Part, *, again: bool) -> Any:
        """Start a worker. One that replaces a lost one may have to share a CPU, since there may be fewer now."""
        actor = ray.remote(RowWorker).options(num_cpus=0 if again else 1, scheduling_strategy="SPREAD", max_restarts=0)
        return actor.remote(part)

    def call(self, worker: Any, method: str, *about: Any) -> Any:
        """Call a method of a worker, and return a ticket for its result."""
        return getattr(worker, method).remote(*about)

    def result(self, ticket: Any) -> Any:
        """Wait for a result; raise `WorkerLostError` if there will be none."""
        try:
            return ray.get(ticket)
        except RayTaskError as error:
            if isinstance(error.cause, FedslimError):
                raise error.cause from None
            raise
        except RayError as error:
            raise WorkerLostError(f"{error!s:.200}".partition("\n")[0]) from error


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[RayEngine]:
    """Connect to a cluster, which must have a CPU for each worker, or start a Ray on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers about each cluster
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first error of a worker is told, not all
    address, own = address or os.environ.get("RAY_ADDRESS") or "local", not ray.is_initialized()
    local: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    try:
        if own and address not in {"local", "auto"} and "://" not in address:
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()  # Ray itself would try for minutes
        if own:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (OSError, RuntimeError, ValueError) as error:
        msg = (
            f"--address {address}: no Ray cluster can be reached ({error!s:.100}); give the address of its head node, "
            "and set RAY_AUTH_MODE=token if it asks for a token"
        )
        raise RunError(msg.replace("\n", " ")) from error
    try:
        found = RayEngine()
        if workers is not None and workers > found.cpus:
            msg = f"--workers {workers}: the cluster has {found.cpus} CPUs; give at most that many workers"
            raise ParameterError(msg)
        yield found
    finally:
        if own:
            ray.shutdown()
