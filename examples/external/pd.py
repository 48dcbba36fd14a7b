"""PD control of every joint to a pose, with gravity compensation, over shared memory or a WebSocket:
u = g + m (100 (target - q) - 20 v).

condyle serve ur3 --signal gravity --signal inertia --seconds 5 -o run.cdl &
python examples/external/pd.py robot 0 -1.2 1.2 -1.57 0 0
"""

import sys

import numpy as np

from condyle.workbench.connect.client import connect

where, *numbers = sys.argv[1:] or ["robot"]
with connect(where) as link:
    (size,) = link.commands["effort"]
    target = np.array([float(number) for number in numbers] or [0.0] * size)
    for state in link:
        wanted = 100.0 * (target - state["q"]) - 20.0 * state["v"]
        link.send(effort=state["gravity"] + state["inertia"] * wanted)
print(link.ended)
