"""System identification of arms: inertial and friction parameters from logs, with confidence intervals.

    motion = excitation(robot)                    # a periodic motion within the limits that shows every parameter
    log = Log.of(robot, t, q, tau)                # or read_log of workbench/runs/logs.py: tables, runs, bags
    found = identify(robot, log)                  # base parameters by least squares; consistent numbers of all links
    fitted = fit_simulation(loop, run, names)     # any parameters of a loop, through its simulation
    write_report(found, "report.html")            # tables and pictures in one page

`found.robot` is the robot with the identified numbers, `found.parameters` gives them to simulations and loops.
"""

from condyle.methods.identify.excitation import FourierMotion as FourierMotion
from condyle.methods.identify.excitation import excitation as excitation
from condyle.methods.identify.fit import identify as identify
from condyle.methods.identify.identified import Identified as Identified
from condyle.methods.identify.log import Log as Log
from condyle.methods.identify.report import write_report as write_report
from condyle.methods.identify.simulation_fit import SimulationFit as SimulationFit
from condyle.methods.identify.simulation_fit import fit_simulation as fit_simulation
