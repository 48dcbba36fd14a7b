"""Set-up of all tests: reproducible examples, one cache of compiled objects that is kept between runs, plots without a screen."""

import gc
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# kept from one run to the next; `make clean` removes it
KEPT_CACHE = Path(__file__).resolve().parent.parent / ".test_cache"

# a first call compiles, so no example has a deadline
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None, print_blob=True)

# without bytecode files every process that a test starts would compile the package again, and each run all tests
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["MPLBACKEND"] = "Agg"
# two test processes whose BLAS has a thread per core wait for each other: an SVD of 60 x 60 then takes 26 ms instead of 1 ms
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """--random and --empty-cache."""
    group = parser.getgroup("condyle")
    group.addoption("--random", action="store_true", help="new examples of Hypothesis, not the same ones in every run")
    group.addoption("--empty-cache", action="store_true", help="compile everything again, in a cache that is removed afterwards")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the examples and the cache before anything is collected: a test module may compile when it is imported."""
    settings.load_profile("random" if config.getoption("random") else "same")
    if hasattr(config, "workerinput"):
        return  # a worker inherits the cache of the process that started it: each kernel compiles once
    if config.getoption("empty_cache"):
        temporary = tempfile.TemporaryDirectory(prefix="condyle-tests-")
        config.add_cleanup(temporary.cleanup)
        os.environ["CONDYLE_CACHE"] = temporary.name
    else:
        os.environ["CONDYLE_CACHE"] = os.environ.get("CONDYLE_TEST_CACHE", str(KEPT_CACHE))


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays until the end: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()
