"""The Python interface of acados, with Condyle's solvers: scripts run after changing the import, within the subset below.

    from condyle.compat.acados import AcadosModel, AcadosOcp, AcadosOcpSolver, AcadosSim, AcadosSimSolver

Models are CasADi expressions (SX or MX), or Python functions of NumPy arrays, which need no CasADi. Nothing is generated on disk;
the first solve compiles. docs/from_acados.md has the table of what is supported; anything else raises with one sentence.
"""

from condyle.apps.compat.acados_description import NO_BOUND as ACADOS_INFTY
from condyle.apps.compat.acados_description import (
    AcadosModel,
    AcadosOcp,
    AcadosOcpConstraints,
    AcadosOcpCost,
    AcadosOcpDims,
    AcadosOcpOptions,
    AcadosSim,
    AcadosSimDims,
)
from condyle.apps.compat.acados_integrators import AcadosSimSolver
from condyle.apps.compat.acados_solver import AcadosOcpSolver
from condyle.apps.compat.acados_vehicle import AcadosVehicleSimSolver

__all__ = [
    "ACADOS_INFTY",
    "AcadosModel",
    "AcadosOcp",
    "AcadosOcpConstraints",
    "AcadosOcpCost",
    "AcadosOcpDims",
    "AcadosOcpOptions",
    "AcadosOcpSolver",
    "AcadosSim",
    "AcadosSimDims",
    "AcadosSimSolver",
    "AcadosVehicleSimSolver",
]
