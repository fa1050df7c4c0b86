"""Show progress on stderr: live on a terminal, a line from time to time elsewhere, or nothing.

Also the steps that all mining commands share: reading, compiling, time limits and Ctrl-C.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from fedslim.cli.console.output import is_terminal, rich_console, say, shown_label
from fedslim.format import count, duration, number, size

if TYPE_CHECKING:
    from rich.console import Console

    from fedslim.cli.console.options import Reading
    from fedslim.mdl.driver import Progress, Stop
    from fedslim.mdl.mining import Mined
    from fedslim.network.traffic import Communication
    from fedslim.report.view import ReportView

OnProgress = Callable[..., None]  # takes the progress, and optionally further phrases

WORTH_TELLING = 1.5  # seconds after which a step is worth a line in a log
FIRST_LINE, SHORTEST_PAUSE, MAX_PAUSE = 5.0, 10.0, 600.0
"""Seconds until the first line about mining, and the bounds of the pauses after it."""

RATE_SPAN = 10.0  # seconds over which the rate is averaged: it falls as the table grows, and the current one matters
MANY_A_SECOND = 10

PREPARING = "preparing the engine"
FIRST_USE = f"{PREPARING}, once for this installation (10 to 20 s)"
NOT_KEPT = (
    f"{PREPARING} (10 to 20 s each time, because the result cannot be cached); "
    "set NUMBA_CACHE_DIR to a folder that you can write to"
)

MAX_STEPS = 4096  # reports of progress to keep; of more, every other one is dropped
HINT = "Ctrl-C to stop with the best so far"
STOPPING = "stopping with the best so far; Ctrl-C again to discard it"


def reporter(*, quiet: bool) -> Reporter:
    """Return the reporter that fits stderr."""
    if quiet:
        return Reporter()
    if not is_terminal(sys.stderr):
        return Plain()
    console = rich_console(stderr=True)
    return Plain() if console.is_dumb_terminal else Lively(console)


class Reporter:
    """Shows nothing; the others show progress.

    A live page names the items of itemsets with `labels`, if they may be shown, and becomes the report `result`.
    """

    labels: Callable[[int], str] | None = None
    result: Callable[[], ReportView] | None = None

    def stage(self, _doing: str, *, worth_a_line: bool | None = None) -> AbstractContextManager[object]:
        """Show what the block does while it runs; in a log only if it is worth a line, by default if it takes long."""
        del worth_a_line
        return nullcontext()

    def mining(self, _name: str, _stop: Stop, _doing: str = "mining") -> AbstractContextManager[OnProgress | None]:
        """Show the progress of mining while the block runs; yield the function to call with it."""
        return nullcontext()


class Plain(Reporter):
    """Writes a few lines, for log files."""

    @contextmanager
    def stage(self, doing: str, *, worth_a_line: bool | None = None) -> Iterator[None]:
        """Write a line at once, or if the block takes long."""
        timer = threading.Timer(WORTH_TELLING, say, [f"fedslim: {doing}"])
        timer.daemon = True
        if worth_a_line:
            say(f"fedslim: {doing}")
        elif worth_a_line is None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def mining(self, name: str, stop: Stop, doing: str = "mining") -> Iterator[OnProgress | None]:
        """Write a line at growing intervals, so that a long run does not fill a log."""
        del stop
        facts, due = ProgressFacts(), FIRST_LINE

        def on_progress(progress: Progress, aside: Sequence[str] = ()) -> None:
            nonlocal due
            facts.learn(progress, aside)
            if progress.seconds >= due:
                due = progress.seconds + min(max(SHORTEST_PAUSE, progress.seconds / 2), MAX_PAUSE)
                parts = [duration(progress.seconds), *facts.policy, *facts.found, *facts.aside, *facts.outlook]
                say(f"fedslim: {doing} {shown_label(name)}: {', '.join(parts)}")

        yield on_progress


class Lively(Reporter):
    """Keeps a few lines on a terminal up to date, and removes them at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def stage(self, doing: str, *, worth_a_line: bool | None = None) -> AbstractContextManager[object]:
        """Show a spinner while the block runs."""
        from rich.text import Text

        del worth_a_line
        return self._console.status(Text(doing))

    @contextmanager
    def mining(self, name: str, stop: Stop, doing: str = "mining") -> Iterator[OnProgress | None]:
        """Show the progress live: the search updates it, and a thread of rich draws it."""
        from rich.console import Group
        from rich.live import Live
        from rich.padding import Padding
        from rich.spinner import Spinner
        from rich.text import Text

        facts, spinner = ProgressFacts(), Spinner("dots", style="green")

        def drawn() -> Group:
            """Return the current lines: the clock advances between two reports of the search."""
            head = [f"{doing} {shown_label(name)}", duration(stop.seconds), *facts.policy]
            spinner.update(text=Text(" · ".join(head)))
            hint = Text(STOPPING, style="yellow") if stop.asked else Text(HINT, style="dim")
            lines = [Text(" · ".join(part)) for part in facts.lines()]
            # Without padding on the right: otherwise the ^C that terminals echo would wrap to a new line, and rich
            # would remove one line too few.
            return Group(spinner, *(Padding(line, (0, 0, 0, 2), expand=False) for line in (*lines, hint)))

        how: dict[str, Any] = {"refresh_per_second": 8, "redirect_stdout": False}
        with Live(get_renderable=drawn, console=self._console, transient=True, **how):
            yield facts.learn


class ProgressFacts:
    """The latest report of a run as phrases; there are none before the first report."""

    def __init__(self) -> None:
        self.policy: list[str] = []  # the current greedy search, if there are several, or the local search after them
        self.found: list[str] = []  # so far, and how fast
        self.aside: Sequence[str] = ()
        self.outlook: list[str] = []  # the gain of the best candidate, and the remaining time
        self._recent: deque[tuple[float, int]] = deque()
        self._search = 1

    def learn(self, now: Progress, aside: Sequence[str] = ()) -> None:
        """Put a report into phrases; `aside` are further ones to show with it."""
        if now.policy != self._search:
            self._recent.clear()  # each search starts with an empty table
        self._recent.append((now.seconds, now.accepted))
        while self._recent[0][0] < now.seconds - RATE_SPAN:
            self._recent.popleft()
        start, before = self._recent[0]
        rate = (now.accepted - before) / (now.seconds - start) if now.seconds > start else 0.0
        search = count(now.iterations, "iteration") if now.iterations else f"search {now.policy} of {now.policies}"
        self._search, self.policy, self.aside = now.policy, [search] if now.policies > 1 else [], aside
        self.found = [
            count(now.itemsets, "itemset"),
            *([f"{number(rate, 0 if rate >= MANY_A_SECOND else 1)} per second"] if rate else []),
            f"{count(now.candidates, 'candidate')} tried",
            f"L% {now.percent:.2f}",
            *([f"best L% {now.best:.2f}"] if now.best is not None and now.best < now.percent else []),
        ]
        best = [f"best candidate now {number(now.best_gain, 1)} bits"] if math.isfinite(now.best_gain) else []
        left = [] if now.remaining is None else [f"about {duration(max(now.remaining, 1.0))} to go"]
        self.outlook = best + left

    def lines(self) -> list[Sequence[str]]:
        """Return the lines to show below the name."""
        return [line for line in (self.found, self.aside, self.outlook) if line]


# -- steps of mining commands ------------------------------------------------------------------------------------------


def read_and_prepare(reading: Reading, report: Reporter, load: Callable[[], Any] | None = None) -> Any:
    """Read the data, here or as `load` does, and compile the kernels for mining."""
    with report.stage(f"reading {shown_label(reading.source)}"):
        from fedslim.mdl.mining import prepare

        database = (load or reading.load)()
    compile_with_progress(report, prepare)
    return database


def compile_with_progress(report: Reporter, prepare: Callable[[], object]) -> None:
    """Compile kernels, and show it if there is something to compile; in a log, only the first compilation."""
    from fedslim._jit import at_first_compilation, kernels_are_kept

    with ExitStack() as steps:

        def on_compile(first: bool) -> None:
            reason = FIRST_USE if kernels_are_kept() else NOT_KEPT
            steps.enter_context(report.stage(reason if first else PREPARING, worth_a_line=first))

        with keep_interrupts(), at_first_compilation(on_compile):
            prepare()


def mined_with_progress(
    database: Any,
    name: str,
    report: Reporter,
    *,
    max_time: float | None = None,
    doing: str = "mining",
    steps: list[Progress] | None = None,
    **how: Any,
) -> Mined:
    """Mine with progress, a time limit and Ctrl-C; the progress is appended to `steps`, if there are any."""
    from fedslim.mdl.driver import Stop, stopping_on_interrupt
    from fedslim.mdl.mining import mine

    stop = Stop(max_time)  # the clock starts here: reading and compiling are not mining
    with stopping_on_interrupt(stop), report.mining(name, stop, doing) as show:

        def on_progress(progress: Progress) -> None:
            if show is not None:
                show(progress)
            if steps is not None:
                steps.append(replace(progress, latest=()))
                if len(steps) > MAX_STEPS:
                    del steps[1:-1:2]

        silent = show is None and steps is None
        return mine(database, stop=stop, on_progress=None if silent else on_progress, **how)


def traffic_too(show: OnProgress) -> Callable[[Progress, Communication], None]:
    """Return what shows the progress of a federation, with its rounds and bytes."""
    return lambda progress, traffic: show(
        progress, [count(traffic.rounds, "round"), f"{size(traffic.bytes_total)} sent"]
    )


# -- Ctrl-C while kernels are compiled --------------------------------------------------------------------------------


@contextmanager
def keep_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C got lost in it."""
    # In the compiler's callbacks into Python, every exception is printed and dropped, a KeyboardInterrupt too.
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # the caller handles Ctrl-C, or ignores it
        return
    lost = False

    def note(_signal: int, _frame: FrameType | None) -> None:
        nonlocal lost
        lost = True
        raise KeyboardInterrupt

    def drop(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            hook(dropped)

    hook, sys.unraisablehook = sys.unraisablehook, drop
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = hook
    if lost:
        raise KeyboardInterrupt
