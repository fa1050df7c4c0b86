"""The driver of an engine's workers: it asks all of them, adds up, replaces those that are lost, and keeps a journal.

This module imports no engine, and would work with any that has the four methods of `RayEngine`. It decides nothing
about the search, which sees a function that answers questions.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fedslim import __version__
from fedslim.data import TransactionDatabase
from fedslim.data.readers import is_source
from fedslim.data.sql import is_url
from fedslim.data.textstream import is_stdin
from fedslim.engines import engine
from fedslim.engines.row_worker import Part, agree_on_items, divide
from fedslim.errors import DataError, JournalError, ParameterError, RunError
from fedslim.format import size
from fedslim.mdl.mining import PAYS_TO_KEEP_PAIRS, Mined, RowsElsewhere, mine
from fedslim.mdl.questions import MOVES, Change, Move, Question, SlotCounts, Supports, Tried
from fedslim.mdl.summed import TableLog, add_up
from fedslim.network.journal import KEY_BYTES, Journal

if TYPE_CHECKING:
    from fedslim.engines.ray import RayEngine

logger = logging.getLogger(__name__)

MAX_LOST = 5  # how often a worker may be lost while it does one thing

READING_BYTES, ENCODING_BYTES, STATE_BYTES = 40, 90, 40
"""The memory of a worker: for each cell of files to read, and for each item occurrence to encode and to search.

A greedy search takes 21 for each occurrence, and more where a state is copied; `bench/ray_rows.py` measures it.
"""

_REPEATED = ("read", "order_values", "encode", "begin")
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (SlotCounts, Change, Tried)}
_OTHER = {
    "data": "other data",
    "content": "other rows",
    "how": "other settings",
    "fedslim": "another version of fedslim",
}
"""How the run of a journal differs, by the part of the header."""

_DTYPES = (np.dtype(np.int64), np.dtype(np.int32))


class WorkerLostError(RunError):
    """A worker, or its machine, has ended."""


class Driver:
    """Asks workers, and brings those that replace a lost one to where the others are."""

    def __init__(self, engine: RayEngine, parts: Sequence[Part]) -> None:
        self._engine, self._parts = engine, parts
        self._workers = [engine.start(part, again=False) for part in parts]
        self._steps: list[tuple[Any, ...]] = []
        self._log = TableLog()
        self._pending: list[Move] = []  # moves that workers have not made
        self._recorded: deque[bytes] = deque()
        self._behind = False  # whether answers were recorded by an earlier driver, so these workers lack all moves
        self._journal: Journal | None = None

    def every(self, method: str, *about: Any) -> list[Any]:
        """Call a method of all workers, and return their results."""
        tickets = [self._engine.call(worker, method, *about) for worker in self._workers]
        results = [self._result(k, ticket, method, *about) for k, ticket in enumerate(tickets)]
        if method in _REPEATED:
            self._steps.append((method, *about))
        return results

    def _result(self, k: int, ticket: Any, method: str, *about: Any) -> Any:
        for _ in range(MAX_LOST):
            try:
                return self._engine.result(self._again(k, method, *about) if ticket is None else ticket)
            except WorkerLostError as error:
                logger.warning("worker %s of %s is started again: %s", k + 1, len(self._parts), error)
                reason, ticket = error, None
        raise RunError(f"worker {k + 1} of {len(self._parts)} was lost {MAX_LOST} times at the same point: {reason}")

    def _again(self, k: int, method: str, *about: Any) -> Any:
        self._workers[k] = worker = self._engine.start(self._parts[k], again=True)
        for step in self._steps:
            self._engine.result(self._engine.call(worker, *step))
        if method == "answer":
            about = (self._log.moves(), *about[1:])
        return self._engine.call(worker, method, *about)

    def ask(self, question: Question) -> Any:
        """Return the sum of the workers' answers, or note a move, which they make before the next question."""
        if isinstance(question, MOVES):
            self._pending.append(question)
            question.put_to(self._log)
            return None
        if self._recorded:
            answer, self._behind = decoded(self._recorded.popleft()), True
        else:
            moves = self._log.moves() if self._behind else self._pending
            answer, self._behind = add_up(self.every("answer", moves, question)), False
            if self._journal is not None:
                self._journal.append(encoded(answer))
        self._pending = []
        question.put_to(self._log)
        return answer

    def prepare(self, journal: Path | None = None, how: Mapping[str, Any] | None = None) -> RowsElsewhere:
        """Read the data, agree on items, and open the journal, if any; `how` is what its answers depend on."""
        first = self._parts[0]
        self._check_memory([part.cells for part in self._parts], READING_BYTES)
        versions, found, sizes = zip(*self.every("read"), strict=True)
        if set(versions) != {__version__}:
            msg = f"the workers have fedslim {min(set(versions) - {__version__})}, not {__version__}; install the same"
            raise RunError(msg)
        if len({one and one.vocabulary for one in found}) > 1:
            raise DataError(f"{first.source}: workers read different items; give them the same data")
        self._check_memory(sizes, ENCODING_BYTES if found[0] is None else STATE_BYTES)
        items = found[0] or agree_on_items(first.options["schema"], self.every)
        transactions = sum(self.every("encode", items))
        self.every("begin", sum(sizes) >= PAYS_TO_KEEP_PAIRS)
        rows = RowsElsewhere(self.ask, items.vocabulary, transactions, items.encoding, partial(self.every, "on_rows"))
        if journal is not None:
            supports = add_up(self.every("answer", [], Supports()))
            content = "\0".join((*items.vocabulary, str(rows.transactions))).encode("utf-8", "surrogatepass")
            digest = sha256(content + supports.tobytes()).hexdigest()
            self._open(journal, {"data": first.source, "content": digest, "how": dict(how or {})})
        return rows

    def _check_memory(self, sizes: Sequence[int], bytes_each: int) -> None:
        has, needs, n = self._engine.memory(len(sizes)), max(sizes) * bytes_each, len(sizes)
        if needs > has:
            enough = max(n + 1, math.ceil(sum(sizes) * bytes_each / has))
            raise DataError(
                f"{self._parts[0].source}: each of {n} workers needs about {size(needs)}, but has "
                f"{size(int(has))}; {enough} workers with that much memory would do"
            )

    def _open(self, path: Path, header: dict[str, Any]) -> None:
        header["fedslim"] = __version__
        key = bytes(KEY_BYTES)  # it detects a torn end; nobody else may write the file
        reopened = Journal.reopen(path, key=key) if path.exists() else None
        if reopened is None:
            self._journal = Journal.create(path, header, key=key)
            return
        self._journal, self._recorded = reopened.journal, deque(reopened.records)
        if other := [name for name in header if reopened.header.get(name) != header[name]]:
            self.close()
            differs = _OTHER[other[0]]
            msg = f"{path}: this journal is of a run with {differs}; repeat that command, or name another file"
            raise JournalError(msg)

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


# -- answers in a journal --------------------------------------------------------------------------------------------


def encoded(answer: Any) -> bytes:
    """Return an answer as bytes."""

    def plain(part: Any) -> Any:
        if isinstance(part, tuple):
            inner = [plain(each) for each in part]
            return {type(part).__name__: inner} if type(part).__name__ in _KINDS else inner
        if isinstance(part, np.ndarray):
            return msgspec.msgpack.Ext(_DTYPES.index(part.dtype), part.tobytes())
        return part

    return msgspec.msgpack.encode(plain(answer))


def decoded(data: bytes) -> Any:
    """Return what `encoded` was given."""

    def restored(part: Any) -> Any:
        if isinstance(part, dict):
            ((kind, inner),) = part.items()
            return _KINDS[kind](*map(restored, inner))
        return tuple(map(restored, part)) if isinstance(part, list) else part

    def array(code: int, content: memoryview) -> Any:
        return np.frombuffer(content, _DTYPES[code])

    return restored(msgspec.msgpack.decode(data, ext_hook=array))


# -- Ray -------------------------------------------------------------------------------------------------------------


@contextmanager
def rows_on_ray(  # noqa: PLR0913  # all but one by keyword
    data: str | Path | TransactionDatabase,
    *,
    workers: int | None = None,
    address: str | None = None,
    journal: Path | None = None,
    reading: Mapping[str, Any] | None = None,
    how: Mapping[str, Any] | None = None,
) -> Iterator[RowsElsewhere]:
    """Read data at the workers of a Ray cluster, for `mine`; see `mine_on_ray`."""
    ray = engine("ray")
    if workers is not None and workers < 1:
        raise ParameterError(f"workers must be a whole number of at least 1 or None, not {workers!r}")
    if not isinstance(data, TransactionDatabase):
        if is_stdin(Path(data)):
            raise ParameterError("-: several workers cannot read standard input; save the data, and give their path")
        here = not is_url(data) and is_source(data)  # not a name
        data = str(Path(data).absolute()) if here else str(data)
    with ray.cluster(address, workers) as cluster:
        parts = divide(data, workers or cluster.cpus, reading or {})
        if len(parts) < (workers or 0):
            logger.warning("%s: there are %s files, so %s workers", data, len(parts), len(parts))
        driver = Driver(cluster, parts)
        try:
            yield driver.prepare(journal, {name: str(each) for name, each in (how or {}).items()})
        finally:
            driver.close()


def mine_on_ray(
    data: str | Path | TransactionDatabase,
    *,
    workers: int | None = None,
    address: str | None = None,
    journal: str | Path | None = None,
    reading: Mapping[str, Any] | None = None,
    **how: Any,
) -> Mined:
    """Mine data whose rows are at the workers of a Ray cluster; the table is that of `mine`.

    Args:
        data: A folder or pattern of Parquet files, of which each worker reads its own if there is a schema; any other
            data that `load` reads, which every worker reads; or a database, which is sent to them in parts.
        workers: The number of workers; as many as the cluster has CPUs by default.
        address: The address of the cluster; without one, a Ray is started on this machine.
        journal: A file of answers. Repeating the call with it continues a run that was killed. It is not removed.
        reading: Options of `load`, such as `schema`.
        **how: Options of `mine`.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    path = None if journal is None else Path(journal)
    about = {name: how[name] for name in how if name not in {"stop", "on_progress"}}
    with rows_on_ray(data, workers=workers, address=address, journal=path, reading=reading, how=about) as rows:
        if (stop := how.get("stop")) is not None:
            stop.started = time.monotonic()  # reading is not mining
        return mine(rows, **how)
