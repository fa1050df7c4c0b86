"""Compare the engine with its peers on this machine.

    python bench/run.py                       all seven parts
    python bench/run.py peers large           some of them
    python bench/run.py --quick               a few minutes, to check that everything works
    python bench/run.py --markdown            no runs: update the tables in docs/explanation/benchmarks.md

Every measured run has its own process. Results are JSON files in bench/results; Ctrl-C keeps those that are complete.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import federation_report
import report
from parts import PARTS, PEER_SETS, PUBLIC, Settings
from runner import HERE, ROOT, RunError, Runner

RESULTS = HERE / "results"
DOCS = ROOT / "docs" / "explanation" / "benchmarks.md"
TABLES = {
    **report.MAKERS,
    "local": report.local_tables,
    "federation": federation_report.tables,
    "network": federation_report.network_tables,
}
SECTIONS = {
    ("<!-- results: written by bench/run.py --markdown -->", "<!-- end of results -->"): tuple(report.MAKERS),
    ("<!-- local: written by bench/run.py --markdown -->", "<!-- end of local -->"): ("local",),
    ("<!-- federation: written by bench/run.py --markdown -->", "<!-- end of federation -->"): ("federation",),
    ("<!-- network: written by bench/run.py --markdown -->", "<!-- end of network -->"): ("network",),
}
"""The markers around the tables in docs/explanation/benchmarks.md."""


def main() -> int:
    """Run the parts given on the command line, and return the exit code."""
    options = _options()
    if options.markdown:
        return _write_docs()
    folder = RESULTS / "quick" if options.quick else RESULTS
    runner = Runner(folder, options.data)
    print(f"results go to {folder.relative_to(ROOT)}", file=sys.stderr)
    failed = False
    try:
        here = runner.fedslim("looking around", "look", names=PUBLIC)
        runner.save("machine", {"machine": here["machine"], "versions": here["versions"]})
        print(report.machine(here))
        for name, reason in here["missing"].items():
            print(f"skipping {name}: {reason}", file=sys.stderr)
        settings = Settings(
            options.quick,
            options.seconds or (10.0 if options.quick else 120.0),
            here["missing"],
            tuple(options.sets or ()),
            options.most,
        )
        for part in options.parts or PARTS:
            print(f"{part} ({datetime.now(UTC):%H:%M} UTC)", file=sys.stderr)
            runner.begin()
            try:
                results = PARTS[part](runner, settings)
            except RunError as error:
                failed = True
                print(f"{part}: {error}", file=sys.stderr)
                continue
            for table in TABLES[part](results):
                print(table.text(), flush=True)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"stopped; what is done is in {folder.relative_to(ROOT)}", file=sys.stderr)
        return 130
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benchmarks of fedslim; see docs/explanation/benchmarks.md.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to run: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="less of everything; results in a separate folder")
    parser.add_argument("--data", metavar="FOLDER", help="where the public data sets are (default: FEDSLIM_DATA)")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"CPU seconds that scikit-mine gets on each of {', '.join(PEER_SETS)} (120)",
    )
    parser.add_argument(
        "--sets",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="data sets of the federation and of the local search (default: seven)",
    )
    parser.add_argument(
        "--most", type=float, default=120.0, metavar="S", help="CPU seconds of each local search, up to 1200 (120)"
    )
    parser.add_argument("--markdown", action="store_true", help="put the last results into the page of benchmarks")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if unknown := [name for name in options.sets or () if name not in PUBLIC]:
        parser.error(f"there is no data set {unknown[0]!r} here; choose among {', '.join(PUBLIC)}")
    if options.data is not None and not Path(options.data).is_dir():
        parser.error(f"{options.data}: this is not a folder")
    return options


def _write_docs() -> int:
    """Put the tables between the markers of the page; a section without results is left unchanged."""
    where = report.read(RESULTS, "machine")
    page, written = DOCS.read_text(), 0
    for (begin, end), parts in SECTIONS.items():
        found = {part: results for part in parts if (results := report.read(RESULTS, part)) is not None}
        if not found or where is None:
            continue
        written += 1
        blocks = [table.markdown() for part, results in found.items() for table in TABLES[part](results)]
        if any(results["changed"] for results in found.values()) or len({one["source"] for one in found.values()}) > 1:
            blocks.insert(0, "Some of these are results of different versions of the sources; run everything again.")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = "\n\n".join([before + begin, report.machine(where), *blocks, end + after])
    if not written:
        print("there are no results yet; run `make bench` first", file=sys.stderr)
        return 1
    DOCS.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
