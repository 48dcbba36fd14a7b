"""Set-up of all tests: reproducible examples, one private cache of compiled objects, plots without a screen."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# a first call compiles, so no example has a deadline; CI draws the same examples every time
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")

# set while this file is imported, not in the fixture: a test module may compile when it is collected
# CONDYLE_TEST_CACHE=DIRECTORY keeps compiled objects from one test run to the next
CACHE = tempfile.TemporaryDirectory(prefix="condyle-tests-")
if (
    "PYTEST_XDIST_WORKER" not in os.environ
):  # workers inherit the cache of the process that starts them: each kernel compiles once
    os.environ["CONDYLE_CACHE"] = os.environ.get("CONDYLE_TEST_CACHE", CACHE.name)
os.environ["MPLBACKEND"] = "Agg"
# two test processes whose BLAS has a thread per core wait for each other: an SVD of 60 x 60 then takes 26 ms instead of 1 ms
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def cache_directory() -> Iterator[Path]:
    """The private cache of this test run; the user's own is never used."""
    yield Path(os.environ["CONDYLE_CACHE"])
    CACHE.cleanup()


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays until the end: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()
