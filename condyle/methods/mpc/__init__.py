"""Model-predictive control and trajectory optimisation: the problem, and solvers that are compiled with it into one kernel."""

from condyle.methods.mpc.block import SolverBlock as SolverBlock
from condyle.methods.mpc.estimation import Estimate as Estimate
from condyle.methods.mpc.estimation import Estimator as Estimator
from condyle.methods.mpc.estimation import mhe as mhe
from condyle.methods.mpc.problem import Problem as Problem
from condyle.methods.mpc.problem import ocp as ocp
from condyle.methods.mpc.solver import Solution as Solution
from condyle.methods.mpc.space import quaternion as quaternion
