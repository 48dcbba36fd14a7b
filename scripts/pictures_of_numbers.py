"""Pictures of digits: how many are right, where they are lost, what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gmpy2
import million_pendulums
import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.apps.demos.compiler import compiled, period, states

BITS = 512
BOOL = gmpy2.context(precision=200)


def compiler(path: Path) -> None:
    """A million driven pendulums: where they end, one orbit, and how fast a difference of one bit grows."""
    million_pendulums.draw(compiled()(states(1_000_000)), path)


# -- derivatives


def derivatives(path: Path) -> None:
    """The error of difference quotients against their step, beside that of the derivative of the loop itself."""
    f = compiled(period)
    x, e = np.array([0.5, -0.25]), np.array([1.0, 0.0])
    true = f.jacobian().on(f"mpfr:{BITS}")(x)[:, 0]
    steps = 2.0 ** -np.arange(2.0, 50.5, 0.5)
    ahead, behind, here = (f(x + s * steps[:, None] * e) for s in (1.0, -1.0, 0.0))
    quotients = {
        "forward differences": (ORANGE, (ahead - here) / steps[:, None]),
        "central differences": (BLUE, (ahead - behind) / (2.0 * steps[:, None])),
    }
    exact = off(f.jacobian()(x)[:, 0], true)
    figure = sheet("The derivative of a loop: exact, or by difference quotients", height=5.2)
    ax = figure.subplots()
    for name, (color, columns) in quotients.items():
        ax.loglog(steps, [off(column, true) for column in columns], "o-", color=color, ms=4, lw=1.2, label=name)
    ax.axhline(exact, color=GREEN, lw=2.2)
    ax.annotate(f"f.jacobian(): {exact:.0e}, no step to choose", (0.3, 1.8 * exact), color=GREEN, ha="left", va="bottom")
    ax.annotate("rounding:\nthe step is too small", (3e-13, 1e-7), color=INK, ha="center", fontsize=10)
    ax.annotate("truncation:\nthe step is too large", (1.2e-4, 4e-2), color=INK, ha="center", fontsize=10)
    ax.set_xlim(0.5, 5e-16)
    ax.set_ylim(1e-17, 1e1)
    labelled(
        ax, "one period of a driven pendulum, 48 Runge-Kutta steps; truth: 512 bits", "step of the quotient", "relative error"
    )
    ax.legend(frameon=False, fontsize=10, loc="lower right", bbox_to_anchor=(1.0, 0.18))
    save(figure, path)


def linalg(path: Path) -> None:
    """Operations of a solve and its gradient, by the rule around the solve and through the factorisation."""
    sizes = np.arange(2, 17)

    def counts(solve: Any) -> list[int]:
        return [cd.function(solve, A=(n, n), b=n).vjp().operations for n in sizes.tolist()]

    curves = {
        "gradient through cholesky and cholesky_solve": (
            ORANGE,
            counts(lambda A, b: cd.linalg.cholesky_solve(cd.linalg.cholesky(A), b)),
        ),
        'gradient of solve(A, b, assume="positive")': (BLUE, counts(lambda A, b: cd.linalg.solve(A, b, assume="positive"))),
    }
    value = [cd.function(lambda A, b: cd.linalg.solve(A, b, assume="positive"), A=(n, n), b=n).operations for n in sizes.tolist()]
    figure = sheet("A linear solve is differentiated around, not through", height=4.6)
    ax = figure.subplots()
    for name, (color, numbers) in curves.items():
        ax.plot(sizes, numbers, "o-", color=color, ms=4, lw=1.4, label=name)
    ax.plot(sizes, value, "o-", color=GREEN, ms=4, lw=1.4, label="the solution alone")
    labelled(ax, "x = A^-1 b, A positive definite: gradients by A and b", "rows of A", "operations")
    ax.legend(frameon=False, fontsize=10, loc="upper left")
    save(figure, path)


def off(column: np.ndarray, true: np.ndarray) -> float:
    """Largest distance from the truth, which has more digits, over its largest entry."""
    with gmpy2.context(precision=BITS):
        return float(max(abs(gmpy2.mpfr(float(c)) - t) for c, t in zip(column, true, strict=True)) / max(abs(true)))


# -- elementary functions


def elementary(path: Path) -> None:
    """The error of four functions in units of the last place over their range, against MPFR."""
    rng = np.random.default_rng(0)
    count = 6000
    # of few digits, so that the true angle lies anywhere between two numbers
    y, x = rng.uniform(-1.0, 1.0, (2, count)).astype(np.float32).astype(float)
    panels = (
        ("sin(x)", np.sin, (rng.uniform(-20.0, 20.0, count),), "x"),
        ("exp(x)", np.exp, (rng.uniform(-700.0, 700.0, count),), "x"),
        ("log(x)", np.log, (np.exp2(rng.uniform(-6.0, 6.0, count)),), "x"),
        ("atan2(y, x)", np.arctan2, (y, x), "angle of (x, y), rad"),
    )
    figure = sheet("Errors of elementary functions in units of the last place (float64, against 200 bits)", height=6.4)
    for ax, (name, operation, points, unit) in zip(figure.subplots(2, 2, sharey=True).flat, panels, strict=True):
        errors = ulps(operation, points)
        across = np.arctan2(y, x) if len(points) == 2 else points[0]
        ax.plot(across, errors, ".", color=BLUE, ms=2.2, alpha=0.55, mew=0)
        worst = int(np.argmax(np.abs(errors)))
        ax.plot(across[worst], errors[worst], "o", color=RED, ms=6, mfc="none", mew=1.5)
        for bound, color, dashes in ((0.5, FAINT, ":"), (2.0, RED, "--")):
            for sign in (1.0, -1.0):
                ax.axhline(sign * bound, color=color, lw=1.0, ls=dashes)
        labelled(ax, f"{name}: at most {abs(errors[worst]):.2f} ulp here", unit, "ulp")
        ax.set_ylim(-2.4, 2.4)
        if name.startswith("log"):
            ax.set_xscale("log", base=2)
    figure.supxlabel("dashed: the promise, 2 ulp.  dotted: half a unit, correct rounding.  circle: the worst.", fontsize=10)
    save(figure, path)


def ulps(operation: Any, points: tuple[np.ndarray, ...]) -> np.ndarray:
    """(computed - true) in units of the last place, for each point."""
    names = ("a", "b")[: len(points)]
    f = cd.function({1: lambda a: operation(a), 2: lambda a, b: operation(a, b)}[len(points)], **dict.fromkeys(names, ()))
    computed, true = f(*points), f.on("mpfr:200")(*points)
    with BOOL:
        gap = np.array([float(gmpy2.mpfr(float(c)) - t) for c, t in zip(computed, true, strict=True)])
    return gap / np.spacing(np.abs(true.astype(float)))


# -- backends


def backends(path: Path) -> None:
    """One chaotic orbit in four arithmetics: digits that are right after each step, and what the interval backend proves."""
    count = 70

    def orbit(x: Any) -> Any:
        _, path = cd.scan(lambda i, x, _: (3.99 * x * (1.0 - x), x), x, count=count)
        return path

    f = cd.function(orbit, x=())
    start = 0.125 + 2.0**-20  # exact in float32, too
    true = f.on(f"mpfr:{BITS}")(start)
    lines = {
        "float32": (ORANGE, right_digits(f(np.float32(start)), true)),
        "float64": (BLUE, right_digits(f(start), true)),
        "mpfr:113": (VIOLET, right_digits(f.on("mpfr:113")(start), true)),
    }
    balls = f.on("interval")(start)
    proved = np.array([-np.log10(max(float(ball.rad()), 1e-40) / max(abs(float(ball.mid())), 1e-40)) for ball in balls])
    figure = sheet("One function, x ← 3.99 x (1 − x), in four arithmetics: when its digits are lost", height=5.2)
    ax = figure.subplots()
    n = np.arange(count)
    ends = {"float32": (2.0, 2.0), "float64": (38, 7.0), "mpfr:113": (44, 24.5)}
    for name, (color, digits) in lines.items():
        ax.plot(n, digits, "o-", color=color, ms=3.5, lw=1.3)
        ax.annotate(f'f.on("{name}")' if ":" in name else f"{name} arrays", ends[name], color=color)
    ax.plot(n, np.maximum(proved, 0.0), color=GREEN, lw=2.0)
    arrow = {"arrowstyle": "->", "color": GREEN, "shrinkA": 2.0}
    ax.annotate('f.on("interval"): what is proved', (11.7, 9.4), (19, 17.0), color=GREEN, va="center", arrowprops=arrow)
    ax.axhline(0.0, color=FAINT, lw=0.8)
    ax.set_xlim(0, count - 1)
    ax.set_ylim(-1.0, 36.0)
    labelled(ax, "digits that are right, by 512 bits", "iteration", "decimal digits")
    save(figure, path)


def right_digits(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Decimal digits in which two orbits agree."""
    with gmpy2.context(precision=BITS):
        gaps = [abs((gmpy2.mpfr(f if isinstance(f, gmpy2.mpfr) else float(f)) - t) / t) for f, t in zip(found, true, strict=True)]
        return np.array([float(-gmpy2.log10(gap)) if gap > 0 else np.nan for gap in gaps]).clip(-0.5)


# -- what dynamics costs


def dynamics(path: Path) -> None:
    """Exact operations of each algorithm for one state, of five robots."""
    names = ("ur3", "birotor", "pidog", "fourlimb")
    kinds = {
        "mass_matrix": ("mass matrix", VIOLET),
        "inverse_dynamics": ("inverse dynamics", GREEN),
        "forward_dynamics": ("forward dynamics", BLUE),
        "forward_dynamics_derivatives": ("its derivatives, structured", ORANGE),
    }
    robots = [cd.load(name) for name in names]
    figure = sheet("Operations for one state: each algorithm after tracing and simplification", height=5.4)
    ax = figure.subplots()
    width = 0.16
    for k, (kernel, (name, color)) in enumerate(kinds.items()):
        counts = [robot.function(kernel).operations for robot in robots]
        bars(ax, k - 2.0, counts, width, color=color, label=name)
    through = [robot.function("forward_dynamics").jacobian(wrt=["q", "v", "tau"]).operations for robot in robots]
    bars(ax, 2.0, through, width, color="#d9dce1", label="the same through every operation")
    ax.set_yscale("log")
    ax.set_ylim(80, 1e6)
    ax.set_xticks(range(len(robots)), [f"{r.name}\n{r.nv} velocities" for r in robots])
    labelled(ax, "elementary functions written out, an fma counting one", "", "operations")
    ax.set_axisbelow(True)
    ax.grid(axis="x", visible=False)
    ax.legend(frameon=False, fontsize=10, loc="upper left", ncols=2)
    save(figure, path)


def bars(ax: Any, place: float, counts: list[int], width: float, **style: Any) -> None:
    """One bar for each robot, `place` widths from the middle, with its number on top."""
    x = np.arange(len(counts)) + place * width
    ax.bar(x, counts, width=0.9 * width, **style)
    for at, count in zip(x, counts, strict=True):
        ax.annotate(f"{count:,}", (at, 1.12 * count), rotation=90, ha="center", va="bottom", fontsize=9)
