"""The engine beside its peers, on the machine at hand.

    python bench/run.py                       all four parts
    python bench/run.py peers large           some of them
    python bench/run.py --quick               a few minutes, to see that everything works
    python bench/run.py --markdown            no runs: put the tables of the last results into docs/benchmarks.md

Every run that is measured has a process of its own. Results are JSON files in bench/results; Ctrl-C keeps what is done.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import report
from parts import PARTS, PEER_SETS, PUBLIC, Settings
from runner import HERE, ROOT, RunError, Runner

RESULTS = HERE / "results"
DOCS = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- results: written by bench/run.py --markdown -->", "<!-- end of results -->"


def main() -> int:
    """Run what the command line asks for; the exit code."""
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
        settings = Settings(options.quick, options.seconds or (10.0 if options.quick else 120.0), here["missing"])
        for part in options.parts or PARTS:
            print(f"{part} ({datetime.now(UTC):%H:%M} UTC)", file=sys.stderr)
            runner.begin()
            try:
                results = PARTS[part](runner, settings)
            except RunError as error:
                failed = True
                print(f"{part}: {error}", file=sys.stderr)
                continue
            for table in report.tables(part, results):
                print(table.text(), flush=True)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"stopped; what is done is in {folder.relative_to(ROOT)}", file=sys.stderr)
        return 130
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Benchmarks of fedslim; see docs/benchmarks.md.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to run: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="less of everything; results kept apart")
    parser.add_argument("--data", metavar="FOLDER", help="where the public data sets are (default: FEDSLIM_DATA)")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"CPU seconds that scikit-mine gets on each of {', '.join(PEER_SETS)} (120)",
    )
    parser.add_argument("--markdown", action="store_true", help="put the last results into docs/benchmarks.md")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if options.data is not None and not Path(options.data).is_dir():
        parser.error(f"{options.data}: this is not a folder")
    return options


def _write_docs() -> int:
    """Put the tables between the two marks of the page."""
    found = {part: results for part in PARTS if (results := report.read(RESULTS, part)) is not None}
    where = report.read(RESULTS, "machine")
    if not found or where is None:
        print("there are no results yet; run `make bench` first", file=sys.stderr)
        return 1
    blocks = [table.markdown() for part, results in found.items() for table in report.tables(part, results)]
    if any(results["changed"] for results in found.values()) or len({one["source"] for one in found.values()}) > 1:
        blocks.insert(0, "Some of these are results of different versions of the sources; run everything again.")
    page = DOCS.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text("\n\n".join([before + BEGIN, report.machine(where), *blocks, END + after]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
