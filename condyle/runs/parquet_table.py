"""Runs as Parquet tables: a column for each number, a row for each state, and what the run is about in the schema's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike, file_errors
from condyle.errors import CondyleError, FileError, require
from condyle.runs import json_codec
from condyle.runs.run import Run
from condyle.runs.table import headings, layout_in, others, run_of, told

KEY = b"condyle_run"
MAGIC = b"PAR1"
MOST_NUMBERS = 1 << 31


def write_parquet(run: Run, path: Path) -> None:
    """None; the columns are t, those of the state, and those of what acts from it to the next, empty in the last row."""
    pa, parquet = _packages()
    states, between = headings(run)
    columns = [pa.array(run.t), *[pa.array(np.ascontiguousarray(column)) for column in run.x.T]]
    columns += [pa.array([*column, None], pa.float64()) for column in others(run).T.tolist()]
    fields = [pa.field(name, pa.float64()) for name in ("t", *states, *between)]
    schema = pa.schema(fields, metadata={KEY: json_codec.text_of(told(run))})
    # a dictionary of values might take -0.0 for 0.0
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), path, use_dictionary=False, compression="zstd")


def read_parquet(path: PathLike) -> Run:
    """The run of a Parquet file that `write_parquet` wrote."""
    _, parquet = _packages()
    with file_errors(path, "read", "check its name and its permissions"):
        try:
            return _read(parquet.ParquetFile(path), path)
        except CondyleError:
            raise
        except Exception as error:
            # whatever the package raises for a damaged file
            raise FileError(f"{path} is not a run that was exported as Parquet, {error!s:.200}: export it again.") from None


def _read(stored: Any, path: PathLike) -> Run:
    metadata = stored.schema_arrow.metadata or {}
    if KEY not in metadata:
        raise json_codec.Wrong("its schema says nothing of a run")
    about = json_codec.from_text(metadata[KEY])
    layout = layout_in(about)
    width, rows = layout.row_bytes // 8 + 1, stored.metadata.num_rows
    if stored.metadata.num_columns != width or rows < 1 or rows * width > MOST_NUMBERS:
        raise json_codec.Wrong(f"it has {stored.metadata.num_columns} columns, not {width}, or no rows")
    table = stored.read()
    if any(str(field.type) != "double" for field in table.schema):
        raise json_codec.Wrong("it has columns that are not float64")
    columns = [table.column(k).slice(0, rows if k <= layout.nx else rows - 1) for k in range(1, width)]
    if any(column.null_count for column in columns):
        raise json_codec.Wrong("it has empty entries")
    if any(table.column(k).slice(rows - 1).null_count != 1 for k in range(layout.nx + 1, width)):
        raise json_codec.Wrong("its last row has more than a state")
    arrays = [column.to_numpy() for column in columns]
    if not all(np.isfinite(array).all() for array in arrays):
        raise json_codec.Wrong("it has numbers that are not finite")
    x = np.ascontiguousarray(np.stack(arrays[: layout.nx], axis=1))
    between = np.stack(arrays[layout.nx :], axis=1) if width - 1 > layout.nx else np.zeros((rows - 1, 0))
    return run_of(about, layout, x, between, path)


def _packages() -> tuple[Any, Any]:
    purpose = "Parquet tables"
    return require("pyarrow", "export", purpose), require("pyarrow.parquet", "export", purpose)
