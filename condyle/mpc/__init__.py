"""Model-predictive control and trajectory optimisation: the problem, and solvers that are compiled with it into one kernel."""

from condyle.mpc.block import SolverBlock as SolverBlock
from condyle.mpc.estimation import Estimate as Estimate
from condyle.mpc.estimation import Estimator as Estimator
from condyle.mpc.estimation import mhe as mhe
from condyle.mpc.problem import Problem as Problem
from condyle.mpc.problem import ocp as ocp
from condyle.mpc.solver import Solution as Solution
from condyle.mpc.space import quaternion as quaternion
