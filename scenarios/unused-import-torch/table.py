"""Writes a table to memory and reads it again.

A step of a pipeline, as it was found: one of its imports is used by nothing below.
"""

import io
import json

import torch
import pyarrow
import pyarrow.parquet

numbers = json.loads("[1, 2, 3]") * 300
columns = [pyarrow.array(numbers), pyarrow.array([str(number) for number in numbers])]
file = io.BytesIO()
pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, ["number", "text"]), file)
file.seek(0)
print(pyarrow.parquet.read_table(file).num_rows, "rows")
