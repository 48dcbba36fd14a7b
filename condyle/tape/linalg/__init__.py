"""Dense linear algebra of small matrices, inside a trace and on plain arrays, with the same bits.

With traced arguments a function records its operations where it is called. With plain arrays it is compiled once for their
shapes and called; leading axes are the batch. The order of all operations is written in the functions' files: sums go from the
first index to the last, each term by one fma, and one reciprocal per pivot is multiplied.

Nothing raises on singular, indefinite or non-finite matrices: that lane's results are infinite or NaN, or large if a matrix is
singular only up to rounding.
"""

from condyle.tape.linalg.householder import least_squares, qr
from condyle.tape.linalg.jacobi import eigh
from condyle.tape.linalg.partial_pivoting import det, inverse, lu, lu_solve, solve
from condyle.tape.linalg.products import matmul, solve_triangular
from condyle.tape.linalg.stages import Gains, Trajectory, block_tridiagonal_solve, riccati, riccati_rollout
from condyle.tape.linalg.symmetric import (
    cholesky,
    cholesky_downdate,
    cholesky_solve,
    cholesky_update,
    ldl,
    ldl_solve,
    ldl_update,
)

__all__ = [
    "matmul",
    "solve_triangular",
    "cholesky",
    "cholesky_solve",
    "cholesky_update",
    "cholesky_downdate",
    "ldl",
    "ldl_solve",
    "ldl_update",
    "lu",
    "lu_solve",
    "solve",
    "inverse",
    "det",
    "qr",
    "least_squares",
    "eigh",
    "riccati",
    "riccati_rollout",
    "Gains",
    "Trajectory",
    "block_tridiagonal_solve",
]
