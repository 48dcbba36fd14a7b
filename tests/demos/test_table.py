"""The table of machines: every one runs, and gives the same bits on what looks like another processor."""

import json
from pathlib import Path

import pytest
from processors import OLD, elsewhere

from condyle.demos.table import MACHINES

CHILD = """
import json, sys
from condyle.demos.table import MACHINES
print(json.dumps({name: MACHINES[name].run().hash for name in sys.argv[1:]}))
"""


@pytest.mark.parametrize("name", MACHINES)
def test_a_run_is_the_same_on_another_processor(name: str, tmp_path: Path) -> None:
    assert json.loads(elsewhere(CHILD, tmp_path, OLD, name)) == {name: MACHINES[name].run().hash}
