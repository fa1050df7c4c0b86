"""Steps that all mining commands share: reading, compiling, time limits and Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedslim.cli.console.text import shown_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from fedslim.cli.console.options import Reading
    from fedslim.cli.console.progress import Reporter
    from fedslim.mdl.driver import Progress
    from fedslim.mdl.mining import Mined

ENDINGS = {
    "converged": "converged",
    "out of time": "out of time",
    "out of rounds": "out of rounds",
    "interrupted": "stopped by Ctrl-C",
    "member lost": "a member was lost",
}
"""How a run ended, in words for people."""

PREPARING = "preparing the engine"
FIRST_USE = f"{PREPARING}, once for this installation (10 to 20 s)"
NOT_KEPT = (
    f"{PREPARING} (10 to 20 s each time, because the result cannot be cached); "
    "set NUMBA_CACHE_DIR to a folder that you can write to"
)

MAX_STEPS = 4096
"""Reports of progress to keep; of more, every other one is dropped."""


def read_and_prepare(
    reading: Reading,
    report: Reporter,
    prepare: Callable[[], None] | None = None,
    load: Callable[[], Any] | None = None,
) -> Any:
    """Read the data, here or as `load` does, and compile what `prepare` needs, by default the kernels for mining."""
    with report.stage(f"reading {shown_label(reading.source)}"):
        database = (load or reading.load)()
    compile_with_progress(report, prepare or _engine)
    return database


def compile_with_progress(report: Reporter, prepare: Callable[[], None]) -> None:
    """Compile kernels, and show progress only if there is something to compile.

    The first compilation is worth a line in a log; later ones are shown on a terminal only.
    """
    from fedslim._jit import at_first_compilation, kernels_are_kept

    with ExitStack() as steps:

        def on_compile(first: bool) -> None:
            reason = FIRST_USE if kernels_are_kept() else NOT_KEPT
            steps.enter_context(report.step(reason if first else PREPARING, worth_a_line=first))

        with keep_interrupts(), at_first_compilation(on_compile):
            prepare()


def _engine() -> None:
    from fedslim.mdl.mining import prepare

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


# -- Ctrl-C while kernels are compiled --------------------------------------------------------------------------------


@contextmanager
def keep_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C got lost in it.

    In the compiler's callbacks into Python, every exception is printed and dropped, a KeyboardInterrupt too. This
    raises it again, and does not print it.
    """
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
