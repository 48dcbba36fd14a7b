"""Pictures of digits and operations: how many are right, where they are lost, what they cost."""

from __future__ import annotations

from typing import Any

import gmpy2
import numpy as np
from plots.style import BLUE, GREEN, INK, ORANGE, RED, VIOLET, labelled, levels, picture

import condyle as cd
from condyle.apps.demos.compiler import PERIODS, TURN, compiled, period, states, step

BITS = 512


# -- a million driven pendulums

LONG, SHORT, FINE = 40, 6, 240  # of two orbits: periods seen at their starts; periods seen at each of FINE steps
CELLS = (1200, 860)
ANGLES = {"xlim": (-np.pi, np.pi), "xticks": np.pi * np.linspace(-1.0, 1.0, 5), "xticklabels": ["-π", "-π/2", "0", "π/2", "π"]}


@picture("A million driven pendulums", 15.0, 7.0, colors=128, ncols=2, width_ratios=(2.25, 1.0))
def compiler(density: Any, right: Any) -> None:
    """Where they end, one of their orbits, and how fast a difference of one bit grows."""
    final = compiled()(states(1_000_000))
    low, high = final[:, 1].min() - 0.15, final[:, 1].max() + 0.15
    counts, _, _ = np.histogram2d(*final.T, bins=CELLS, range=[[-np.pi, np.pi], [low, high]])
    light = np.log1p(counts.T)
    density.imshow(
        light, origin="lower", extent=(-np.pi, np.pi, low, high), aspect="auto", cmap="inferno", vmax=np.quantile(light, 0.998)
    )
    title = f"Where {len(final):,} are after {PERIODS} periods of the drive: the same bits for every lane width, batch and thread"
    labelled(density, title, "angle, rad", "rate, rad per sqrt(l/g)", **ANGLES)
    density.grid(False)
    spec = right.get_subplotspec().subgridspec(2, 1)
    right.remove()
    single, apart = (density.figure.add_subplot(part) for part in spec)
    # the last bit of the angle is worth 4e-16
    orbits = cd.function(orbit, x=2)(np.array([[2.0, 0.0], [np.nextafter(2.0, 3.0), 0.0]]))
    angle, rate = (orbits.fine[0][:, 0] + np.pi) % TURN - np.pi, orbits.fine[0][:, 1]
    # the line breaks where the angle goes round
    single.plot(np.where(abs(np.diff(angle, append=angle[-1])) < np.pi, angle, np.nan), rate, color=ORANGE, lw=1.0)
    single.plot(angle[0], rate[0], "o", color=INK, ms=6)
    labelled(single, f"One orbit, {SHORT} periods from the dot", "angle, rad", "rate", **ANGLES)
    difference = orbits.coarse[0] - orbits.coarse[1]
    difference[:, 0] -= TURN * np.rint(difference[:, 0] / TURN)
    apart.semilogy(np.linalg.norm(difference, axis=1), color=ORANGE, lw=1.8)
    levels(apart, 1.0, ls=":")
    labelled(apart, "Two that start one bit apart: their distance", "periods", xlim=(0, LONG), ylim=(1e-17, 1e2))


def orbit(x: Any) -> Any:
    """The states at every step of SHORT periods, and at the beginning of each of LONG periods."""
    _, fine = cd.scan(lambda i, x, _: (step(i, x, FINE), x), x, count=SHORT * FINE)
    _, coarse = cd.scan(lambda i, x, _: (period(x), x), x, count=LONG)
    return {"fine": fine, "coarse": coarse}


# -- derivatives


@picture("The derivative of a loop: exact, or by difference quotients", height=5.2, ncols=1)
def derivatives(ax: Any) -> None:
    """The error of difference quotients against their step, beside that of the derivative of the loop itself."""
    f = compiled(period)
    x, e = np.array([0.5, -0.25]), np.array([1.0, 0.0])
    true = f.jacobian().on(f"mpfr:{BITS}")(x)[:, 0]
    steps = 2.0 ** -np.arange(2.0, 50.5, 0.5)
    ahead, behind, here = (f(x + s * steps[:, None] * e) for s in (1.0, -1.0, 0.0))
    quotients = {"forward": (ahead - here) / steps[:, None], "central": (ahead - behind) / (2.0 * steps[:, None])}
    for (name, rows), color in zip(quotients.items(), (ORANGE, BLUE), strict=True):
        errors = [largest_error(row, true) for row in rows]
        ax.loglog(steps, errors, "o-", color=color, ms=4, lw=1.2, label=f"{name} differences")
    exact = largest_error(f.jacobian()(x)[:, 0], true)
    ax.axhline(exact, color=GREEN, lw=2.2)
    ax.annotate(f"f.jacobian(): {exact:.0e}, no step to choose", (0.3, 1.8 * exact), color=GREEN, ha="left", va="bottom")
    ax.annotate("rounding:\nthe step is too small", (3e-13, 1e-7), color=INK, ha="center", fontsize=10)
    ax.annotate("truncation:\nthe step is too large", (1.2e-4, 4e-2), color=INK, ha="center", fontsize=10)
    title = "one period of a driven pendulum, 48 Runge-Kutta steps; truth: 512 bits"
    legend = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.18)}
    labelled(ax, title, "step of the quotient", "relative error", legend, xlim=(0.5, 5e-16), ylim=(1e-17, 1e1))


def largest_error(row: np.ndarray, true: np.ndarray) -> float:
    """Largest distance from the truth, which has more digits, over its largest entry."""
    with gmpy2.context(precision=BITS):
        return float(max(abs(gmpy2.mpfr(float(c)) - t) for c, t in zip(row, true, strict=True)) / max(abs(true)))


@picture("A linear solve is differentiated around, not through", height=4.6, ncols=1)
def linalg(ax: Any) -> None:
    """Operations of a solve and its gradient, by the rule around the solve and through the factorisation."""
    sizes = list(range(2, 17))

    def through(A: Any, b: Any) -> Any:
        return cd.linalg.cholesky_solve(cd.linalg.cholesky(A), b)

    def around(A: Any, b: Any) -> Any:
        return cd.linalg.solve(A, b, assume="positive")

    curves = {
        "gradient through cholesky and cholesky_solve": (ORANGE, lambda f: f(through).vjp()),
        'gradient of solve(A, b, assume="positive")': (BLUE, lambda f: f(around).vjp()),
        "the solution alone": (GREEN, lambda f: f(around)),
    }
    for name, (color, make) in curves.items():
        counts = [make(lambda solve, n=n: cd.function(solve, A=(n, n), b=n)).operations for n in sizes]
        ax.plot(sizes, counts, "o-", color=color, ms=4, lw=1.4, label=name)
    labelled(ax, "x = A^-1 b, A positive definite: gradients by A and b", "rows of A", "operations", "upper left")


# -- elementary functions and backends


@picture(
    "Errors of elementary functions in units of the last place (float64, against 200 bits)",
    height=6.4,
    nrows=2,
    ncols=2,
    sharey=True,
)
def elementary(*axes: Any) -> None:
    """The error of four functions in units of the last place over their range, against MPFR."""
    rng, count = np.random.default_rng(0), 6000
    # of few digits, so that the true angle lies anywhere between two numbers
    y, x = rng.uniform(-1.0, 1.0, (2, count)).astype(np.float32).astype(float)
    rows = (
        ("sin(x)", lambda a: np.sin(a), (rng.uniform(-20.0, 20.0, count),)),
        ("exp(x)", lambda a: np.exp(a), (rng.uniform(-700.0, 700.0, count),)),
        ("log(x)", lambda a: np.log(a), (np.exp2(rng.uniform(-6.0, 6.0, count)),)),
        ("atan2(y, x)", lambda a, b: np.arctan2(a, b), (y, x)),
    )
    for ax, (name, operation, points) in zip(axes, rows, strict=True):
        f = cd.function(operation, **dict.fromkeys(("a", "b")[: len(points)], ()))
        computed, true = f(*points), f.on("mpfr:200")(*points)
        with gmpy2.context(precision=200):
            gap = np.array([float(gmpy2.mpfr(float(c)) - t) for c, t in zip(computed, true, strict=True)])
        errors, across = gap / np.spacing(np.abs(true.astype(float))), points[0] if len(points) == 1 else np.arctan2(y, x)
        ax.plot(across, errors, ".", color=BLUE, ms=2.2, alpha=0.55, mew=0)
        worst = int(np.argmax(np.abs(errors)))
        ax.plot(across[worst], errors[worst], "o", color=RED, ms=6, mfc="none", mew=1.5)
        levels(ax, 0.5, -0.5, lw=1.0, ls=":")
        levels(ax, 2.0, -2.0, color=RED, lw=1.0, ls="--")
        unit = "x" if len(points) == 1 else "angle of (x, y), rad"
        labelled(ax, f"{name}: at most {abs(errors[worst]):.2f} ulp here", unit, "ulp", ylim=(-2.4, 2.4))
    axes[2].set_xscale("log", base=2)
    words = "dashed: the promise, 2 ulp.  dotted: half a unit, correct rounding.  circle: the worst."
    axes[0].figure.supxlabel(words, fontsize=10)


@picture("One function, x ← 3.99 x (1 − x), in four arithmetics: when its digits are lost", height=5.2, ncols=1)
def backends(ax: Any) -> None:
    """One chaotic orbit in four arithmetics: digits that are right after each step, and what the interval backend proves."""
    count = 70

    def logistic(x: Any) -> Any:
        return cd.scan(lambda i, x, _: (3.99 * x * (1.0 - x), x), x, count=count)[1]

    f, start, n = cd.function(logistic, x=()), 0.125 + 2.0**-20, np.arange(count)  # exact in float32, too
    true = f.on(f"mpfr:{BITS}")(start)
    orbits = {
        "float32 arrays": (f(np.float32(start)), ORANGE, (2.0, 2.0)),
        "float64 arrays": (f(start), BLUE, (38, 7.0)),
        'f.on("mpfr:113")': (f.on("mpfr:113")(start), VIOLET, (44, 24.5)),
    }
    for name, (path, color, place) in orbits.items():
        ax.plot(n, right_digits(path, true), "o-", color=color, ms=3.5, lw=1.3)
        ax.annotate(name, place, color=color)
    balls = f.on("interval")(start)
    proved = [-np.log10(max(float(ball.rad()), 1e-40) / max(abs(float(ball.mid())), 1e-40)) for ball in balls]
    ax.plot(n, np.maximum(proved, 0.0), color=GREEN, lw=2.0)
    arrow = {"arrowstyle": "->", "color": GREEN, "shrinkA": 2.0}
    ax.annotate('f.on("interval"): what is proved', (11.7, 9.4), (19, 17.0), color=GREEN, va="center", arrowprops=arrow)
    levels(ax, 0.0)
    labelled(ax, "digits that are right, by 512 bits", "iteration", "decimal digits", xlim=(0, count - 1), ylim=(-1.0, 36.0))


def right_digits(path: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Decimal digits in which two orbits agree."""
    with gmpy2.context(precision=BITS):
        gaps = [abs((gmpy2.mpfr(x if isinstance(x, gmpy2.mpfr) else float(x)) - t) / t) for x, t in zip(path, true, strict=True)]
        return np.array([float(-gmpy2.log10(gap)) if gap > 0 else np.nan for gap in gaps]).clip(-0.5)


# -- what dynamics costs


@picture("Operations for one state: each algorithm after tracing and simplification", height=5.4, ncols=1)
def dynamics(ax: Any) -> None:
    """Exact operations of each algorithm for one state, of four robots."""
    robots, width = [cd.load(name) for name in ("ur3", "birotor", "pidog", "fourlimb")], 0.16
    kinds = {
        "mass matrix": (VIOLET, lambda r: r.function("mass_matrix")),
        "inverse dynamics": (GREEN, lambda r: r.function("inverse_dynamics")),
        "forward dynamics": (BLUE, lambda r: r.function("forward_dynamics")),
        "its derivatives, structured": (ORANGE, lambda r: r.function("forward_dynamics_derivatives")),
        "the same through every operation": ("#d9dce1", lambda r: r.function("forward_dynamics").jacobian(wrt=["q", "v", "tau"])),
    }
    for k, (name, (color, kernel)) in enumerate(kinds.items()):
        counts, x = [kernel(robot).operations for robot in robots], np.arange(len(robots)) + (k - 2.0) * width
        ax.bar(x, counts, width=0.9 * width, color=color, label=name)
        for place, count in zip(x, counts, strict=True):
            ax.annotate(f"{count:,}", (place, 1.12 * count), rotation=90, ha="center", va="bottom", fontsize=9)
    legend, title = {"loc": "upper left", "ncols": 2}, "elementary functions written out, an fma counting one"
    labelled(ax, title, "", "operations", legend, yscale="log", ylim=(80, 1e6), axisbelow=True)
    ax.set_xticks(range(len(robots)), [f"{r.name}\n{r.nv} velocities" for r in robots])
    ax.grid(axis="x", visible=False)
