"""Read a long table from PostgreSQL, SQLite, DuckDB and Parquet: seconds and peak memory, beside pandas.

    python bench/sources.py                     # ten million rows; PostgreSQL only where its programs are installed
    python bench/sources.py --rows 1000000

Each way runs in a process of its own, one after the other. Peak memory is that of the whole process, with libraries.
fedslim makes a database of transactions, pandas only a DataFrame of rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pandas as pd

PAIR = {"transaction_column": "visit", "item_column": "item"}
ROWS = "select n / 8 as visit, 'item ' || (n * 7919 % 2003) as item from "


def read_once(kind: str, how: str, place: str) -> None:
    """Read in one way, and print the figures as JSON."""
    from fedslim.data import load  # noqa: PLC0415  # what is measured

    query = "select visit, item from pairs"
    began, before = time.perf_counter(), time.process_time()
    if how == "fedslim":
        found = load(place, **PAIR, **({} if kind == "parquet" else {"query": query}))  # type: ignore[arg-type]
        size = len(found)
    else:
        size = len(_with_pandas(kind, place, query))
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu, peak = used.ru_utime + used.ru_stime - before, used.ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_MB": peak, "size": size}))


def _with_pandas(kind: str, place: str, query: str) -> pd.DataFrame:
    if kind == "parquet":
        return pd.read_parquet(place)
    if kind == "duckdb":
        import duckdb  # noqa: PLC0415

        return pd.DataFrame(duckdb.connect(place.partition("///")[2], read_only=True).sql(query).df())
    if kind == "sqlite":
        with closing(sqlite3.connect(place.partition("///")[2])) as connection:
            return pd.read_sql(query, connection)
    import adbc_driver_postgresql.dbapi as driver  # noqa: PLC0415

    with driver.connect(place) as connection:
        return pd.read_sql(query, connection)


def make(folder: Path, rows: int, stack: ExitStack) -> dict[str, str]:
    """Write the same rows to every source, and return where they are."""
    import duckdb  # noqa: PLC0415

    places = {"parquet": str(folder / "pairs.parquet")}
    with duckdb.connect(str(folder / "pairs.duckdb")) as connection:
        connection.execute(f"create table pairs as {ROWS.replace('/', '//')} range({rows}) r(n)")
        connection.execute(f"copy pairs to '{places['parquet']}' (format parquet)")
    places["duckdb"] = f"duckdb:///{folder / 'pairs.duckdb'}"
    with closing(sqlite3.connect(folder / "pairs.db")) as lite, lite:
        numbers = f"with recursive r(n) as (select 0 union all select n + 1 from r where n < {rows - 1})"  # noqa: S608
        lite.execute(f"create table pairs as {numbers} {ROWS} r")
    places["sqlite"] = f"sqlite:///{folder / 'pairs.db'}"
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "data"))
    from postgres import running  # type: ignore[import-not-found]  # noqa: PLC0415

    try:
        server = stack.enter_context(running())
    except FileNotFoundError:
        print("PostgreSQL is not installed, and left out", file=sys.stderr)
        return places
    server.run(f"create table pairs as {ROWS} generate_series(0::bigint, {rows - 1}) n")
    return {"postgresql": server.url(), **places}


def main() -> None:
    """Make the data and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args()
    if given.one:
        read_once(*given.one)
        return
    print(f"{given.rows:,} rows\n{'source':12} {'with':8} {'seconds':>8} {'CPU':>8} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for kind, place in make(Path(folder), given.rows, stack).items():
            for how in ("fedslim", "pandas"):
                command = [sys.executable, __file__, "--one", kind, how, place]
                done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                print(f"{kind:12} {how:8} {done['seconds']:8.1f} {done['cpu']:8.1f} {done['peak_MB']:8.0f}", flush=True)


if __name__ == "__main__":
    main()
