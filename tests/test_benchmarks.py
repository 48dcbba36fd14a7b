"""The benchmarks run: each one once, tiny, so that they cannot rot. What they measure is never asserted."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import NAMES, app, summary
