"""Runs for other programs: CSV, Parquet and MCAP, written whole, and read back bit for bit."""

from __future__ import annotations

import codecs
from pathlib import Path

from condyle.atomic_write import PathLike, atomic_file, file_errors
from condyle.errors import FileError
from condyle.runs import csv_table, file, mcap_log, parquet_table
from condyle.runs.run import Run, read_run

WRITERS = {"csv": csv_table.write_csv, "parquet": parquet_table.write_parquet, "mcap": mcap_log.write_mcap}


def export_run(run: Run, path: PathLike, kind: str | None = None) -> None:
    """None; the file holds the run as "csv", "parquet" or "mcap": by default, what its name ends in. It is whole or as it was."""
    chosen = Path(path).suffix[1:].lower() if kind is None else kind
    if chosen not in WRITERS:
        what = f"its name ends in '.{chosen}'" if kind is None else f"the kind is {kind!r:.20}"
        raise FileError(f"{path} cannot be exported, {what}: take .csv, .parquet or .mcap.")
    with atomic_file(path) as temporary:
        WRITERS[chosen](run, temporary)


def import_run(path: PathLike) -> Run:
    """The run in a file that `export_run` wrote, or in a run file: the same bits.

    Numbers that were changed in between are taken as they are, and `lost` says so; what is no table of a run is a FileError.
    """
    with file_errors(path, "read", "check its name and its permissions"), open(path, "rb") as start:
        first = start.read(16)
    if first.startswith(file.MAGIC):
        return read_run(path)
    if first.startswith(parquet_table.MAGIC):
        return parquet_table.read_parquet(path)
    if first.startswith(mcap_log.MAGIC):
        return mcap_log.read_mcap(path)
    if first.removeprefix(codecs.BOM_UTF8).startswith(csv_table.FIRST.encode()[: 16 - len(codecs.BOM_UTF8)]):
        return csv_table.read_csv(path)
    raise FileError(f"{path} is not a run: give a file that condyle export wrote, as .csv, .parquet or .mcap, or a run file.")
