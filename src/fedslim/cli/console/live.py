"""`--live`: show a run on a page of this computer while it goes on, and its report when it ends.

watched = live_page(context, port, "fedslim mine", "chess")         # None without --live
report = watched_by(watched, reporter(quiet=quiet))
watched.result = lambda: view([record])
"""

# Typer evaluates annotations at run time, so modules with options do not postpone them.
import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fedslim.cli.console.options import whole
from fedslim.cli.console.progress import Reporter
from fedslim.cli.console.stream import say
from fedslim.cli.console.text import duration, number, shown_label

if TYPE_CHECKING:
    from fedslim.cli.console.progress import OnProgress
    from fedslim.mdl.driver import Progress, Stop
    from fedslim.report.captions import Fact
    from fedslim.report.feed import Feed
    from fedslim.report.view import ReportView

OPTION, ANY_PORT = "--live", "0"
EVERY = 0.5
"""Seconds between two looks at a server or member."""

Port = Annotated[
    int | None,
    typer.Option(
        OPTION,
        metavar="[PORT]",
        callback=whole(0, 65535),
        help="Show the run on a page for a browser on this computer; its address is printed.",
    ),
]


def with_port(arguments: list[str]) -> list[str]:
    """Add a port to a --live without one, as typer has no options with an optional value."""
    found = []
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        found.append(f"{OPTION}={ANY_PORT}" if word == OPTION and not following.isdecimal() else word)
    return found


@dataclass(slots=True)
class WatchedRun:
    """A run with a live page. `labels` names items, if itemsets may be shown; `result` is called at the end."""

    feed: "Feed"
    labels: Callable[[int], str] | None = None
    result: "Callable[[], ReportView] | None" = None

    def learn(self, progress: "Progress", aside: Sequence[str] = ()) -> None:
        """Show a report of a search, and further figures, such as "83 rounds"."""
        from fedslim.report.captions import Fact

        best = progress.percent if progress.best is None else min(progress.percent, progress.best)
        left = "–" if progress.remaining is None else f"about {duration(max(progress.remaining, 1.0))}"
        facts = [
            Fact("L%", f"{best:.2f}"),
            Fact("itemsets", number(progress.itemsets)),
            Fact("candidates tried", number(progress.candidates)),
            *_named(aside),
            Fact("time", duration(progress.seconds)),
            Fact("time left", left),
        ]
        name = self.labels
        latest = None if name is None else [(map(name, items), usage) for items, usage in progress.latest]
        self.feed.reach(progress.seconds, progress.itemsets, best)
        self.feed.show(facts=facts, latest=latest)

    @asynccontextmanager
    async def following(
        self, doing: str, look: Callable[[], None], stop: Callable[[], object] | None, curve: str = ""
    ) -> AsyncIterator[None]:
        """Look at a server or member from time to time, in its event loop."""
        loop = asyncio.get_running_loop()

        async def follow() -> None:
            while True:
                look()
                await asyncio.sleep(EVERY)

        self.feed.begin(doing, stop and (lambda: loop.call_soon_threadsafe(stop) and None), curve=curve)
        task = asyncio.create_task(follow())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            look()


def _named(aside: Sequence[str]) -> "list[Fact]":
    from fedslim.report.captions import Fact

    return [Fact(name, value) for value, _, name in (phrase.rpartition(" ") for phrase in aside)]


def live_page(context: typer.Context, port: int | None, title: str) -> WatchedRun | None:
    """Open the page of a command until it ends; return None without a port."""
    return None if port is None else context.with_resource(_opened(port, title, context.command_path))


@contextmanager
def _opened(port: int, title: str, command: str) -> Iterator[WatchedRun]:
    from fedslim.report.feed import Feed
    from fedslim.report.live import LivePage
    from fedslim.report.page import page

    feed = Feed(title, command)
    logger = logging.getLogger("fedslim")
    with LivePage(feed, port) as served:
        say(f"fedslim: watch this run at {served.address}")
        logger.addHandler(feed)
        run = WatchedRun(feed)
        try:
            yield run
            if run.result is not None:
                feed.begin("writing the report")
                feed.end(report=page(run.result()).encode())
        finally:
            logger.removeHandler(feed)


def watched_by(run: WatchedRun | None, inner: Reporter) -> Reporter:
    """Return a reporter that shows progress on the live page too, if there is one."""
    return inner if run is None else LiveReporter(run, inner)


class LiveReporter(Reporter):
    """Shows progress on a live page and by another reporter."""

    def __init__(self, run: WatchedRun, inner: Reporter) -> None:
        self._run, self._inner = run, inner

    def stage(self, doing: str) -> AbstractContextManager[object]:
        """Show what the block does while it runs."""
        self._run.feed.begin(doing)
        return self._inner.stage(doing)

    def step(self, doing: str, *, worth_a_line: bool) -> AbstractContextManager[object]:
        """Show what the block does from its start."""
        self._run.feed.begin(doing)
        return self._inner.step(doing, worth_a_line=worth_a_line)

    @contextmanager
    def mining(self, name: str, stop: "Stop", doing: str = "mining") -> "Iterator[OnProgress | None]":
        """Show the progress of mining while the block runs, and let the page stop it."""
        self._run.feed.begin(
            f"{doing} {shown_label(name)}", stop.ask, curve=doing.removesuffix(":").removesuffix(" of")
        )
        with self._inner.mining(name, stop, doing) as show:

            def on_progress(progress: "Progress", aside: Sequence[str] = ()) -> None:
                if show is not None:
                    show(progress, aside)
                self._run.learn(progress, aside)

            try:
                yield on_progress
            finally:
                self._run.feed.begin("finishing")
