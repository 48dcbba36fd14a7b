"""System identification of arms: inertial and friction parameters from logs, with confidence intervals.

    motion = excitation(robot)                    # a periodic motion within the limits that shows every parameter
    log = read_log(robot, "log.csv")              # t, q.NAME, u.NAME; or a run, or a bag
    found = identify(robot, log)                  # base parameters by least squares; consistent numbers of all links
    fitted = fit_simulation(loop, run, names)     # any parameters of a loop, through its simulation
    write_report(found, "report.html")            # tables and pictures in one page

`found.robot` is the robot with the identified numbers, `found.parameters` gives them to simulations and loops.
"""

from condyle.identify.excitation import FourierMotion as FourierMotion
from condyle.identify.excitation import excitation as excitation
from condyle.identify.fit import identify as identify
from condyle.identify.identified import Identified as Identified
from condyle.identify.log import Log as Log
from condyle.identify.log import read_log as read_log
