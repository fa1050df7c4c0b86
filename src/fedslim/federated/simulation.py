"""Simulate a federation in one process: the members, the protocol between them, and its costs.

Messages are encoded, masked and decoded as on a network. Secrets are derived from a seed, so that equal seeds give
equal bytes. The result depends on the seed only from effort 3 on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import shake_256
from itertools import chain, count
from typing import Any

import numpy as np

from fedslim._jit import forget_caches, helped_with, wait_for
from fedslim.data import ItemSecret, Partition, TransactionDatabase, Vocabulary
from fedslim.data.encoding import Encoding
from fedslim.data.vocabulary import labels_for, over
from fedslim.errors import ParameterError
from fedslim.federated.accounting import Account, RunResult
from fedslim.federated.records import run_html
from fedslim.mdl.driver import REPORT_EVERY, Progress, Stop
from fedslim.mdl.mining import check_width, prepare as prepare_engine, reporter
from fedslim.mdl.policy import HIGHEST_EFFORT, MAX_WIDTH, WIDTH
from fedslim.network.in_process import MemoryFederation
from fedslim.network.traffic import Communication
from fedslim.protocol.member import MemberInput
from fedslim.protocol.messages import Settings
from fedslim.protocol.outcome import code_table
from fedslim.protocol.preparation import MAX_ROUNDS, Outline, Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import Unsigned
from fedslim.protocol.server import ServerSession
from fedslim.protocol.variant import VARIANTS
from fedslim.protocol.wire_types import MAX_COUNT, MAX_MEMBERS, MAX_SEED
from fedslim.schema import Agreed, Conformed, Schema, SchemaRules
from fedslim.secagg.ring import Sketch

Databases = Partition | Mapping[str, TransactionDatabase] | Sequence[TransactionDatabase]
OnProgress = Callable[[Progress, Communication], None]

UNMASKED = ("so",)  # the variants without masks: the server sees the counts of every member

MAX_TRANSACTIONS = 1 << 40
"""The announced maximum: more than any experiment has, so that it reveals nothing about the data."""

MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run in one process; see `simulate`."""

    variant: str = "x"
    masked: bool = True
    seed: int = 0
    max_time: float | None = None
    max_rounds: int | None = None
    min_count: int = 1
    min_members_with: int = 1
    width: int = WIDTH
    effort: int = 1

    @classmethod
    def of(cls, members: int, *, masking: bool = True, width: int | None = None, **given: Any) -> RunOptions:
        """Return the options of a run of so many members; raise `ParameterError` unless they are valid."""
        variant, max_rounds, max_time = given.get("variant", "x"), given.get("max_rounds"), given.get("max_time")
        _check_variant(variant)
        if not isinstance(masking, bool):
            raise ParameterError(f"masking must be True or False, not {masking!r}")
        number = isinstance(max_time, (int, float)) and not isinstance(max_time, bool)
        if max_time is not None and not (number and math.isfinite(max_time) and max_time > 0):
            raise ParameterError(f"max_time must be a positive number of seconds or None, not {max_time!r}")
        if max_rounds is not None and not (_whole(max_rounds) and max_rounds > 0):
            raise ParameterError(f"max_rounds must be a whole number of at least 1 or None, not {max_rounds!r}")
        if width is None:
            width = WIDTH if variant == "x" else 1
        check_width(width)
        made = cls(masked=masking and variant not in UNMASKED, width=int(width), **given)
        if not (_whole(made.seed) and 0 <= made.seed <= MAX_SEED):
            raise ParameterError(f"seed must be a whole number from 0 to {MAX_SEED}, not {made.seed!r}")
        for name, most, paper in (
            ("min_count", MAX_COUNT, "has no smallest count"),
            ("min_members_with", members, "has no smallest count"),
            ("width", MAX_WIDTH, "tries one candidate in each step"),
            ("effort", HIGHEST_EFFORT, "has one greedy search"),
        ):
            value = getattr(made, name)
            if not (_whole(value) and 1 <= value <= most):
                raise ParameterError(f"{name} must be a whole number from 1 to {most}, not {value!r}")
            if value != 1 and variant != "x":
                msg = f"{name} is for variant x only; {variant} follows the paper, which {paper}; leave it out"
                raise ParameterError(msg)
        return made


@dataclass(frozen=True, slots=True)
class Simulation(RunResult):
    """The result of a simulated federation: the code table, how the search ended, and its costs."""

    options: RunOptions
    databases: Mapping[str, TransactionDatabase]
    partition: Partition | None = field(default=None, repr=False)

    @property
    def variant(self) -> str:
        """The variant of the protocol."""
        return self.options.variant

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(self.databases)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of transactions of each member."""
        return tuple(map(len, self.databases.values()))

    def settings(self) -> dict[str, Any]:
        """Return the options by name, and how the data were divided, ready for JSON."""
        partition = None
        if self.partition is not None:  # with items by their labels; the sizes are in `sizes`
            described, labels = self.partition.as_dict(), self.table.vocabulary
            dominant = [[[labels[item] for item in itemset] for itemset in hand] for hand in self.partition.dominant]
            partition = {**{name: described[name] for name in ("scheme", "parameters", "seed")}, "dominant": dominant}
        return {**asdict(self.options), "partition": partition}

    def as_dict(self) -> dict[str, Any]:
        """Return settings, sizes, results and costs by name, ready for JSON."""
        sizes = dict(zip(self.members, self.sizes, strict=True))
        return {**self.settings(), "sizes": sizes, **self.figures(len(sizes))}

    def _repr_html_(self) -> str:
        return run_html(self.variant, self.table, self.as_dict(), list(zip(self.members, self.sizes, strict=True)))


def simulate(  # noqa: PLR0913  # keyword-only options of a run
    databases: Databases,
    *,
    variant: str = "x",
    masking: bool = True,
    max_time: float | None = None,
    max_rounds: int | None = None,
    min_count: int = 1,
    min_members_with: int = 1,
    width: int | None = None,
    effort: int = 1,
    seed: int = 0,
    stop: Stop | None = None,
    on_progress: OnProgress | None = None,
) -> Simulation:
    """Run a federation of several members and a server in this process.

    Args:
        databases: A `Partition`, a mapping from member names to databases, or a list of databases, whose members are
            then called member-1, member-2 and so on. All must have the same vocabulary; `fedslim.data.encode_together`
            creates such databases.
        variant: `x` (exact), `sa` or `so`.
        masking: Whether answers are masked. Turn it off only to measure what masking costs. `so` never masks.
        max_time: Stop after this many seconds with the best table so far.
        max_rounds: Stop after about this many rounds with the best table so far.
        min_count: The smallest count to publish, for `x`: rarer items are merged, and rarer itemsets left out.
        min_members_with: How many members must have an itemset for it to be published, for `x`.
        width: How many candidates each step of the search tries, for `x`: 1 to 64, by default 8. 1 is SLIM as
            published. `sa` and `so` always try one.
        effort: How hard to search, for `x`: 1 to 8, as for `mine`. A higher one is never worse, and takes many more
            rounds.
        seed: The seed for keys and masks, and from effort 3 on for the local search: equal seeds give equal bytes.
        stop: If asked to stop, the run ends before the next round with the best table so far.
        on_progress: Called from time to time with the progress of the search and the traffic so far.

    Returns:
        The code table, the costs and the history of the run.

    Raises:
        ParameterError: A parameter is out of range, or the vocabularies differ.

    Examples:
        >>> from fedslim import simulate
        >>> from fedslim.data import builtin_members
        >>> simulation = simulate(dict(builtin_members("encounters")), variant="x")
        >>> len(simulation.table), simulation.communication.rounds, simulation.ending
        (140, 51, 'converged')
    """
    named = named_databases(databases)
    options = RunOptions.of(
        len(named),
        variant=variant,
        masking=masking,
        max_time=max_time,
        max_rounds=max_rounds,
        min_count=min_count,
        min_members_with=min_members_with,
        width=width,
        effort=effort,
        seed=seed,
    )
    prepare(variant)
    stop = stop or Stop()
    server, federation, account = _federation(named, options)
    outcome = federation.run(between=_between(server, stop.within(max_time), account.communication, on_progress))
    costs = account.communication, account.seconds, tuple(account.history)
    first = next(iter(named.values()))
    found = code_table(outcome.table, first.vocabulary, first.encoding), outcome.tally, outcome.ending
    partition = databases if isinstance(databases, Partition) else None
    return Simulation(*found, *costs, outcome.member_usages, options, named, partition)


def _federation(
    named: Mapping[str, TransactionDatabase], options: RunOptions
) -> tuple[ServerSession, MemoryFederation, Account]:
    """Return a server, the members with it in this process, and what accounts for their messages."""
    entropy, members = entropy_of(options.seed), tuple(named)
    chosen = asdict(options) | {"seed": options.seed if options.effort > 1 else 0}
    del chosen["max_time"]  # only the server's clock knows it
    settings = Settings(**chosen, max_transactions=MAX_TRANSACTIONS)
    server = ServerSession(members, settings, run=entropy(16), max_time=options.max_time)
    secret = ItemSecret.from_random(entropy(32))
    # In the order of the data, so that items are numbered as in one place.
    agreed = Vocabulary.of(next(iter(named.values())).vocabulary, secret)
    present = {name: MemberInput(database, members, settings, secret, agreed) for name, database in named.items()}
    account = Account(server)  # starts the clock of the history
    return server, MemoryFederation(server, present, entropy=entropy, trace=account), account


@cache
def prepare(variant: str = "x") -> None:
    """Compile the kernels that a run needs, or load them from the cache, so that compiling is not part of its time.

    If the cache cannot be written, the kernels are compiled for this process only.
    """
    _check_variant(variant)
    try:
        with helped_with("removal", *(["ranking"] if variant != "x" else [])):
            prepare_engine()
            _warm_up(variant)
    except OSError:
        forget_caches()
        _warm_up(variant)


def _warm_up(variant: str) -> None:
    # Candidates are accepted and rejected, and one takes covers from another itemset.
    rows = [[1, 2, 3, 4], [1, 2, 3], [1, 2], [3, 4], [5], [6, 7, 8, 9], [7, 8, 9], [9], [6, 7]] * 5
    database = TransactionDatabase.from_transactions(rows)
    wait_for("ranking")
    server, federation, _ = _federation({"a": database, "b": database}, RunOptions.of(2, variant=variant))
    federation.run()
    # Compile what only larger data use.
    if variant == "x":
        sketch = Sketch.for_entries(1, 9)
        sketch.put(np.zeros(sketch.words, np.uint64), np.zeros(1, np.int32), np.ones(1, np.int64))
        side: Any = server.variant
        side.search.now.ranking.warm_up()


# -- while it runs ---------------------------------------------------------------------------------------------------


def _between(
    server: ServerSession, stop: Stop, communication: Communication, on_progress: OnProgress | None
) -> Callable[[], None]:
    """Return what is called after every round: it checks for a stop and reports progress."""
    report: Callable[[], None] | None = None
    due = 0.0

    def between() -> None:
        nonlocal report, due
        if stop.asked:
            server.stop()
        if on_progress is None or server.variant is None or (now := time.monotonic()) < due:
            return
        if report is None:
            report = reporter(server.variant.search, 1, 1, stop, lambda progress: on_progress(progress, communication))
        report()
        due = now + REPORT_EVERY

    return between


def entropy_of(seed: int) -> Callable[[int], bytes]:
    """Return a generator of pseudorandom bytes. For simulations only: the seed reveals all keys."""
    numbers = count()

    def draw(length: int) -> bytes:
        return shake_256(f"fedslim simulation {seed} {next(numbers)}".encode()).digest(length)

    return draw


# -- the preparation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """The members' databases over one vocabulary, and what it took."""

    databases: Mapping[str, TransactionDatabase]
    encoding: Encoding
    preparation: Preparation
    communication: Communication
    seconds: float


def prepare_together(
    schema: Schema,
    sites: Mapping[str, Conformed],
    secret: ItemSecret,
    entropy: Callable[[int], bytes],
    *,
    masking: bool = True,
) -> Prepared:
    """Let members agree on cuts and vocabulary, and return their data as items. All labels are known in this process.

    Items are numbered by their ids, as in a federation: the same in one place is `fedslim mine --schema S --secret F`.
    """
    names = tuple(sites)
    outline = str(Outline.of(schema))
    settings = Settings(
        "prepare", masking, MAX_TRANSACTIONS, max_rounds=MAX_ROUNDS, schema=schema.digest(), outline=outline
    )
    none = Vocabulary((), secret.fingerprint)
    server = ServerSession(names, settings, run=entropy(16), vocabulary=none.digest)
    own = {
        name: MemberInput.preparing(Site(schema, one, secret), names, settings, Unsigned())
        for name, one in sites.items()
    }
    account = Account(server)
    made = MemoryFederation(server, own, entropy=entropy, trace=account).run().preparation
    assert made is not None  # noqa: S101  # the outcome of a preparation
    vocabulary = made.vocabulary(secret.fingerprint)
    databases = {name: made.database(schema, site, secret) for name, site in sites.items()}
    every = labels_for(vocabulary, secret, dict.fromkeys(chain(*(one.vocabulary for one in databases.values()))))
    numbered = {name: over(database, vocabulary, secret) for name, database in databases.items()}
    agreed = [made.agreed(schema, site, secret) for site in sites.values()]
    kept = {name: frozenset[str]().union(*(one.kept[name] for one in agreed)) for name in schema.capped_columns}
    rules = SchemaRules(schema, Agreed(agreed[0].cuts, kept))
    encoding = Encoding("schema", rules=rules)
    named = {n: replace(one, vocabulary=every, name=n, encoding=encoding) for n, one in numbered.items()}
    return Prepared(named, encoding, made, account.communication, account.seconds)


def named_databases(databases: Databases) -> dict[str, TransactionDatabase]:
    """Return the databases by member name; raise `ParameterError` unless all have one vocabulary."""
    given = databases.parts if isinstance(databases, Partition) else databases
    width = len(str(len(given)))  # so that the names sort in the order of the databases
    numbered = ((f"member-{number:0{width}}", database) for number, database in enumerate(given, 1))
    named: dict[Any, Any] = dict(given if isinstance(given, Mapping) else numbered)
    if not 1 <= len(named) <= MAX_MEMBERS:
        raise ParameterError(f"there are {len(named)} members; a federation has 1 to {MAX_MEMBERS}")
    for name, database in named.items():
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_LENGTH:
            msg = f"the name of a member is {name!r:.60}; give a string of 1 to {MAX_NAME_LENGTH} characters"
            raise ParameterError(msg)
        if not isinstance(database, TransactionDatabase):
            raise ParameterError(
                f"the data of {name} are of type {type(database).__name__}; give a TransactionDatabase for each member "
                "(fedslim.data.encode_together creates them), or use FedSlim"
            )
    first, *others = named.items()
    for name, database in others:
        if database.vocabulary != first[1].vocabulary:
            raise ParameterError(
                f"{first[0]} and {name} have different vocabularies; create their databases together with "
                "fedslim.data.encode_together"
            )
    return named


def _check_variant(variant: object) -> None:
    if variant not in VARIANTS:
        raise ParameterError(f"there is no variant {variant!r}; choose one of {', '.join(VARIANTS)}")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
