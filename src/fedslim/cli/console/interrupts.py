"""Handle Ctrl-C while kernels are compiled."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


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
