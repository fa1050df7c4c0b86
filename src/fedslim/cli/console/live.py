"""`--live`: show a run on a page of this computer while it goes on, and its report when it ends."""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedslim.cli.console.options import option, whole
from fedslim.cli.console.output import say, shown_label
from fedslim.cli.console.progress import OnProgress, Reporter
from fedslim.format import count, duration, number, size

if TYPE_CHECKING:
    from fedslim.federated.deployment import DeployedMember, DeployedServer
    from fedslim.mdl.driver import Progress, Stop
    from fedslim.report.captions import Fact
    from fedslim.report.feed import Feed
    from fedslim.safeguards.audit import AuditLog

OPTION, ANY_PORT = "--live", "0"
PREPARING = "preparing: the members agree on cuts and items"
EVERY = 0.5  # seconds between two looks at a server or member

PORT = option(
    "[PORT]",
    "Show the run on a page for a browser on this computer; its address is printed.",
    whole(0, 65535),
    name=OPTION,
)


def with_port(arguments: list[str]) -> list[str]:
    """Add a port to a --live without one, as typer has no options with an optional value."""
    options = arguments.index("--") if "--" in arguments else len(arguments)
    return [
        f"{OPTION}={ANY_PORT}" if word == OPTION and at < options and not "".join(following).isdecimal() else word
        for at, word in enumerate(arguments)
        for following in [arguments[at + 1 : at + 2]]
    ]


class LiveReporter(Reporter):
    """Shows progress on a live page and by another reporter."""

    def __init__(self, feed: "Feed", inner: Reporter) -> None:
        self.feed, self._inner = feed, inner

    def stage(self, doing: str, *, worth_a_line: bool | None = None) -> contextlib.AbstractContextManager[object]:
        """Show what the block does while it runs."""
        self.feed.begin(doing)
        return self._inner.stage(doing, worth_a_line=worth_a_line)

    @contextlib.contextmanager
    def mining(self, name: str, stop: "Stop", doing: str = "mining") -> "Iterator[OnProgress | None]":
        """Show the progress of mining while the block runs, and let the page stop it."""
        curve = doing.partition(", to")[0].removesuffix(":").removesuffix(" of")
        self.feed.begin(f"{doing} {shown_label(name)}", stop.ask, curve=curve)
        with self._inner.mining(name, stop, doing) as show:

            def on_progress(progress: "Progress", aside: Sequence[str] = ()) -> None:
                if show is not None:
                    show(progress, aside)
                self.learn(progress, aside)

            try:
                yield on_progress
            finally:
                self.feed.begin("finishing")

    def learn(self, progress: "Progress", aside: Sequence[str] = ()) -> None:
        """Show a report of a search, and further figures, such as "83 rounds"."""
        from fedslim.report.captions import Fact

        best = progress.percent if progress.best is None else min(progress.percent, progress.best)
        left = "" if progress.remaining is None else f"about {duration(max(progress.remaining, 1.0))} left"
        now = f"now {progress.percent:.2f}" if best < progress.percent else ""
        facts = [
            Fact("L%", f"{best:.{0 if best.is_integer() else 2}f}", now),
            Fact("itemsets", number(progress.itemsets)),
            Fact("candidates tried", number(progress.candidates)),
            *_named(aside),
            Fact("time", duration(progress.seconds), left),
        ]
        name = self.labels
        latest = None if name is None else [(map(name, items), usage) for items, usage in progress.latest if usage]
        self.feed.reach(progress.seconds, progress.itemsets, best)
        self.feed.show(facts=facts, latest=latest)

    @contextlib.asynccontextmanager
    async def following(
        self, doing: str, look: Callable[[], None], stop: Callable[[], object] | None = None, curve: str = ""
    ) -> AsyncIterator[None]:
        """Look at a server or member from time to time, in its event loop."""
        loop = asyncio.get_running_loop()

        async def follow() -> None:
            while True:
                look()
                await asyncio.sleep(EVERY)

        self.feed.begin(doing, None if stop is None else partial(loop.call_soon_threadsafe, stop), curve=curve)
        task = asyncio.create_task(follow())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            look()


def _named(aside: Sequence[str]) -> "list[Fact]":
    from fedslim.report.captions import Fact

    return [Fact(name, value) for value, _, name in (phrase.rpartition(" ") for phrase in aside)]


def report_on_saved(shown: Reporter, folders: Iterable[Path]) -> None:
    """Let the page become the report on the runs that were saved in these folders."""
    from fedslim.federated.records import RUN, load_run
    from fedslim.report.view import view

    saved = [folder / RUN for folder in folders if (folder / RUN).exists()]
    shown.result = (lambda: view([load_run(path) for path in saved])) if saved else None


def server_watched_by(
    watched: Reporter, run: "DeployedServer", name: str, stop: Callable[[], object]
) -> contextlib.AbstractAsyncContextManager[None]:
    """Show a server's state on the live page, if there is one, inside the block."""
    if not isinstance(watched, LiveReporter):
        return contextlib.nullcontext()
    from fedslim.federated.accounting import names_at_server
    from fedslim.format import brief
    from fedslim.mdl.driver import Stop
    from fedslim.mdl.mining import reporter
    from fedslim.report.captions import is_unnamed
    from fedslim.report.feed import LiveMember

    report: Callable[[], None] | None = None

    def began() -> Callable[[], None]:
        """Show the history, also that before a restart, and return what shows the rest."""
        session, account = run.session, run.account
        assert session is not None and session.variant is not None and account is not None  # noqa: S101, PT018
        rare = session.settings.min_count > 1 or session.settings.min_members_with > 1
        labels = () if rare else brief(names_at_server(session, session.gathering.items))
        names = [name.replace("item ", "№ ", 1) if is_unnamed(name) else name for name in labels]
        watched.labels = None if rare else names.__getitem__
        elapsed = session.elapsed(time.monotonic())
        waited = account.seconds - elapsed  # until all members had joined
        for step in account.history:
            watched.feed.reach(max(0.0, step.seconds - waited), step.itemsets, step.L_percent)

        def learn(progress: "Progress") -> None:
            # With rare itemsets to hide, nothing exact: see `Account`.
            shown = replace(progress, percent=float(round(progress.percent))) if rare else progress
            traffic = account.communication
            watched.learn(shown, [count(session.rounds, "round"), f"{size(traffic.bytes_total)} sent"])

        clock = Stop()
        clock.started -= elapsed
        return reporter(session.variant.search, 1, 1, clock, learn)

    def look() -> None:
        nonlocal report
        if run.network is None or run.session is None:
            return
        found = run.network.status()
        members = [
            LiveMember(name, member["here"], member["state"], found["contacts"].get(name))
            for name, member in found["members"].items()
        ]
        preparing = run.session.settings.variant == "prepare"
        if preparing and run.account is not None:
            rounds, traffic = run.session.rounds, run.account.communication
            watched.feed.show(facts=_named([count(rounds, "round"), f"{size(traffic.bytes_total)} sent"]))
        watched.feed.show(doing=PREPARING if preparing else "serving", members=members)
        if found["L_percent"] is not None:
            report = report or began()
            report()

    return watched.following("serving", look, stop, curve=name)


def member_watched_by(
    watched: Reporter, run: "DeployedMember", audit: "AuditLog"
) -> contextlib.AbstractAsyncContextManager[None]:
    """Show on the live page what leaves a member, which knows neither the compression nor the other members."""
    if not isinstance(watched, LiveReporter):
        return contextlib.nullcontext()
    from fedslim.report.captions import Fact
    from fedslim.safeguards.audit import Amount

    began, sent = time.monotonic(), defaultdict[str, Amount](Amount)
    audit.on_entry = lambda line: sent[line.kind].add(line)

    def look() -> None:
        here = run.network is not None and run.network.connected
        facts = [
            Fact("server", "connected" if here else "not connected"),
            Fact("rounds answered", number(run.session.position)),
            Fact("sent", size(sum(amount.bytes for amount in sent.values()))),
            Fact("time", duration(time.monotonic() - began)),
        ]
        kinds = sorted(sent.items(), key=lambda each: -each[1].bytes)
        rows = [(kind, replace(amount)) for kind, amount in kinds]
        watched.feed.show(doing="taking part" if run.database is not None else PREPARING, facts=facts, sent=rows)

    return watched.following("taking part", look)


def live_page(context: typer.Context, port: int | None, title: str, inner: Reporter) -> Reporter:
    """Open the page of a command until it ends, if there is a port; return a reporter that shows progress on it too."""
    return inner if port is None else context.with_resource(_opened(port, title, context.command_path, inner))


@contextlib.contextmanager
def _opened(port: int, title: str, command: str, inner: Reporter) -> "Iterator[LiveReporter]":
    from fedslim.report.feed import Feed
    from fedslim.report.live import LivePage
    from fedslim.report.page import page

    feed = Feed(title, command)
    logger = logging.getLogger("fedslim")
    with LivePage(feed, port) as served:
        say(f"fedslim: watch this run at {served.address}")
        logger.addHandler(feed)
        run = LiveReporter(feed, inner)
        try:
            yield run
            if run.result is not None and served.was_opened:  # otherwise nobody waits for the report
                feed.begin("writing the report")
                feed.end(report=page(run.result()).encode())
        finally:
            logger.removeHandler(feed)
