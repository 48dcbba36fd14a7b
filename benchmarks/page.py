"""docs/benchmarks.md and the table of README.md, made from benchmarks/results/*.json by `python -m benchmarks page`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measured import Measured, Rate, chosen, read_all
from benchmarks.page_facts import compiler_section, facts_sections, readme_extra
from benchmarks.page_text import Table, counted, faster, million, paragraph, ratio, span
from condyle.tape.timing import crossover

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
MAKE = "python -m benchmarks page"
BEGIN, END = f"<!-- made by {MAKE} -->", "<!-- until here -->"
KERNELS = ("forward dynamics", "inverse dynamics", "mass matrix", "forward dynamics derivatives")
ROBOTS = {"panda": "Panda", "anymal": "ANYmal", "talos": "Talos", "pidog": "PiDog", "ur3": "UR3", "fourlimb": "four-limbed robot"}
VERSIONS = {  # of the libraries that a benchmark compares with
    "robots": ("pin", "mujoco"),
    "contact": ("mujoco",),
    "jax_peers": ("frax", "mujoco-mjx", "jax"),
    "gpu": ("driver",),
    "gpu_peers": ("mujoco-warp", "warp-lang", "mujoco-mjx", "jax"),
}
INTRODUCTION = paragraph(
    "How fast Condyle is, beside other libraries, and which backend pays for which batch. Everything on this page is made by",
    f"`{MAKE}` from the files in `benchmarks/results/`; each was written by the command of its section, on the computer that it",
    "names. Libraries that are compared ran in the same process on the same robot; dynamics were compared before they were",
    "timed. Times vary with the load of a computer; ratios vary less.",
)
MORE = paragraph(
    "Measured on their own pages: [learning environments](environments.md#speed),",
    "[an external program in the loop](software_in_the_loop.md), [sweeps](sweeps.md), [elementary functions](elementary.md), and",
    "[what Condyle does not do, or does worse](limits.md). `python -m benchmarks --list` names all benchmarks;",
    "`python -m benchmarks NAME --results` measures one again for this page.",
)
BATCH_PICTURE = "States per second over the batch, on a GPU, on the processor beside it, and by other libraries"
DOF_PICTURE = (
    "Time per state over the degrees of freedom on one core, beside Pinocchio, MuJoCo and frax; states per second on a GPU"
)


def write_page() -> list[Path]:
    """Write the page, its pictures and the README's table; the paths."""
    from benchmarks.page_pictures import draw

    found = read_all()
    pictures = draw(found, PAGE.parent / "images")
    PAGE.write_text(page(found))
    README.write_text(with_table(README.read_text(), found))
    return [PAGE, README, *pictures]


def page(found: Sequence[Measured]) -> str:
    """The text of the page."""
    sections = ["# Benchmarks\n", INTRODUCTION, *which_backend(found), *one_core(found), *contact(found), *jax_libraries(found)]
    sections += [*on_gpu(found), *gpu_peers(found), *facts_sections(found), *compiler_section(found), "## More\n", MORE]
    return "\n".join(sections)


def of(found: Sequence[Measured], name: str) -> list[Measured]:
    """The result files of one benchmark."""
    return [each for each in found if each.name == name]


def caption(result: Measured) -> str:
    """How a table was measured."""
    known = result.computer["versions"]
    names = [f"{name} {known[name]}" for name in VERSIONS.get(result.name, ()) if name in known]
    return f"`{result.command}`: {result.place}{', ' + ', '.join(names) if names else ''}."


def picture(words: str, name: str) -> str:
    """A picture with the command that makes it."""
    return f"![{words}](images/{name}.png)\n\n*Made by `{MAKE}`.*\n"


# ---- which backend


def which_backend(found: Sequence[Measured]) -> Iterator[str]:
    """For whom the page has one minute."""
    yield "## Which backend for which batch\n"
    calls = [rate for each in of(found, "robots") for rate in chosen(each.rates, batch=1, library="Condyle")]
    if calls:
        times = ", ".join(f"{span(rate)} for {ROBOTS.get(rate.robot, rate.robot)}" for rate in calls)
        yield paragraph(f"**One state:** the processor. A call of forward dynamics from Python takes {times}.")
    yield paragraph(
        "**A batch:** the processor computes it in vector lanes and on all cores; the same call",
        "with arrays on a GPU runs there, with",
        "the same bits. Small batches do not fill a GPU. `condyle bench my.urdf` measures your",
        "robot on your computer, and says at",
        "which batch the GPU overtakes.",
    )
    for each in of(found, "gpu"):
        table = Table("task", "robot", "float32", "float64")
        for task, robot in dict.fromkeys((rate.task, rate.robot) for rate in each.rates):
            table.add(task, ROBOTS.get(robot, robot), *[advice(each.rates, task, robot, p) for p in ("f32", "f64")])
        yield paragraph(f"The GPU overtakes all cores at a batch of ({each.place}):")
        yield str(table)
    yield picture(BATCH_PICTURE, "benchmarks_batch")


def by_batch(rates: Sequence[Rate], **wanted: str) -> dict[int, float]:
    """{batch: evaluations per second} of some rates."""
    return {rate.batch: rate.per_second for rate in chosen(rates, **wanted)}


def advice(rates: Sequence[Rate], task: str, robot: str, precision: str) -> str:
    """The batch from which on the GPU is ahead, in words."""
    cpu, gpu = (by_batch(rates, task=task, robot=robot, precision=precision, backend=where) for where in ("cpu", "cuda"))
    if not cpu.keys() & gpu.keys():
        return "-"
    batch, smallest = crossover(cpu, gpu), min(cpu.keys() & gpu.keys())
    if batch is None:
        return "never"
    return f"{smallest:,} or less" if batch == smallest else f"{counted(batch)}"


# ---- one core


def one_core(found: Sequence[Measured]) -> Iterator[str]:
    """Dynamics against Pinocchio and MuJoCo."""
    for each in of(found, "robots"):
        robots = list(dict.fromkeys((rate.robot, rate.nv) for rate in each.rates))
        table = Table("other / Condyle, time per state", *[f"{ROBOTS.get(name, name)}, nv {nv}" for name, nv in robots])
        batch = max(rate.batch for rate in each.rates)
        for kernel in KERNELS:
            table.add(f"{kernel}, Pinocchio", *[versus(each.rates, "Pinocchio", kernel, name, batch) for name, _ in robots])
        table.add(
            "`mj_step` without contact, MuJoCo", *[versus(each.rates, "MuJoCo", KERNELS[0], name, batch) for name, _ in robots]
        )
        table.add(
            "one state called from Python, `pin.aba`", *[versus(each.rates, "Pinocchio", KERNELS[0], n, 1) for n, _ in robots]
        )
        first = [row["compile"] for row in each.facts["robots"]]
        table.add("first result: compiled, from the cache", *[f"{t['compiled']:.2f} s, {t['cached']:.3f} s" for t in first])
        yield "## Dynamics on one core\n"
        yield paragraph(f"Batches of {batch:,} states in float64, one thread; in bold, how many times as fast.", caption(each))
        yield str(table)
        yield paragraph(
            "Pinocchio runs its own batch loop for forward and inverse dynamics (`abaInParallel`,",
            "`rneaInParallel`), and a Python",
            "loop, calls included, for `crba` and `computeABADerivatives`, where it overwrites one",
            "result while Condyle writes all of",
            "them. `mj_step` also integrates.",
        )
        yield picture(DOF_PICTURE, "benchmarks_dof")


def versus(rates: Sequence[Rate], library: str, task: str, robot: str, batch: int) -> str:
    """The times of another library and of ours, and their ratio."""
    ours = chosen(rates, library="Condyle", task=task, robot=robot, batch=batch)
    theirs = chosen(rates, library=library, task=task, robot=robot, batch=batch)
    return ratio(theirs[0], ours[0]) if ours and theirs else "-"


def contact(found: Sequence[Measured]) -> Iterator[str]:
    """Steps of ANYmal against MuJoCo."""
    for each in of(found, "contact"):
        table = Table("ANYmal on four feet, time per step and robot", "Condyle", "MuJoCo", "how many times as fast")
        for task in dict.fromkeys(rate.task for rate in each.rates):
            ours = chosen(each.rates, task=task, library="Condyle")[0]
            theirs = [rate for rate in chosen(each.rates, task=task) if rate.library in ("MuJoCo", "MuJoCo, forward")]
            if theirs:
                table.add(task, span(ours), span(theirs[0]), faster(ours.per_second, theirs[0].per_second))
        batch = max(rate.batch for rate in each.rates)
        yield "## A step with contact on one core\n"
        yield paragraph(
            f"Steps of 2 ms, {batch:,} robots, one thread; MuJoCo with Newton's method and its other",
            "defaults, the loop inside MuJoCo;",
            "A and B by `mjd_transitionFD` there, exact here.",
            caption(each),
        )
        yield str(table)


def jax_libraries(found: Sequence[Measured]) -> Iterator[str]:
    """frax and MJX on one core."""
    for each in of(found, "jax_peers"):
        table = Table("float64, one core", "batch", "Condyle", "other library", "how many times as fast")
        for ours in chosen(each.rates, library="Condyle"):
            for theirs in chosen(each.rates, task=ours.task, robot=ours.robot):
                if theirs.library != "Condyle":
                    name = f"{ours.task}, {ours.robot}"
                    other = f"{theirs.library} {span(theirs)}"
                    table.add(name, f"{ours.batch:,}", span(ours), other, faster(ours.per_second, theirs.per_second))
        yield "## Libraries on JAX, on the processor\n"
        yield paragraph(
            "The process is bound to one core. frax is called as one `jit` of a `vmap` over the batch,",
            "MJX as one scan over 8 steps;",
            "it agrees with `mj_step` to rounding. Both are made for accelerators.",
            caption(each),
        )
        yield str(table)


# ---- GPUs


def on_gpu(found: Sequence[Measured]) -> Iterator[str]:
    """Rates of a GPU by batch."""
    for each in of(found, "gpu"):
        batches = sorted({rate.batch for rate in each.rates})
        table = Table("million per second", *[f"{n:,}" for n in batches])
        for rate in dict.fromkeys((rate.task, rate.robot, rate.precision, rate.backend) for rate in each.rates):
            task, robot, precision, backend = rate
            known = by_batch(each.rates, task=task, robot=robot, precision=precision, backend=backend)
            where = "GPU" if backend == "cuda" else "processor"
            table.add(f"{task}, {robot}, {precision}, {where}", *[million(known[n]) if n in known else "" for n in batches])
        cases = each.facts["cases"].values()
        same = sum(case["same_bits"] is True for case in cases)
        first = [case["first_launch"] for case in cases]
        yield "## On a GPU\n"
        yield paragraph(
            "Million evaluations, or steps, per second by the size of the batch; the GPU timed by its",
            "own events, states and results in",
            f"its memory; the processor with all threads. In {same} of {len(first)} cases the first",
            "1,024 states have the bits of the",
            f"processor. The first launch compiles: {min(first):.1f} to {max(first):.1f} s.",
            caption(each),
        )
        yield str(table)


PEERS = {"MuJoCo Warp": "a CUDA graph", "MJX": "one scan"}  # how each library computes many steps


def gpu_peers(found: Sequence[Measured]) -> Iterator[str]:
    """Contact steps of ANYmal against MuJoCo Warp and MJX."""
    for each in of(found, "gpu_peers"):
        batches = sorted({rate.batch for rate in each.rates})
        table = Table("million steps per second, float32", *[f"{n:,}" for n in batches])
        for task, library in dict.fromkeys((rate.task, rate.library) for rate in each.rates):
            known = by_batch(each.rates, task=task, library=library)
            table.add(f"{task}, {library}", *[million(known[n]) if n in known else "" for n in batches])
        others = [name for name in PEERS if chosen(each.rates, library=name)]
        yield f"## Against {' and '.join(others)} on a GPU\n"
        yield paragraph(
            "ANYmal on four feet, 64 steps of 2 ms in one call, by the wall clock: ours as one kernel,",
            ", ".join([f"{name} as {PEERS[name]}" for name in others]),
            "with MuJoCo's default solver settings.",
            caption(each),
        )
        yield str(table)


# ---- the README's table


def with_table(text: str, found: Sequence[Measured]) -> str:
    """The README with its table of ratios made anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{readme_table(found)}{END}{after}"


def readme_table(found: Sequence[Measured]) -> str:
    """Some ratios, with the commands that measure them."""
    table = Table("measured side by side on one core", "Condyle", "other library", "speed ratio", "command", left_end=True)

    def add(what: str, name: str, task: str, robot: str, library: str, word: str = "") -> None:
        for each in of(found, name):
            batch = max(rate.batch for rate in each.rates)
            ours = chosen(each.rates, task=task, robot=robot, library="Condyle", batch=batch)[0]
            theirs = chosen(each.rates, task=task, robot=robot, library=library, batch=batch)[0]
            other, speed = f"{word or library} {span(theirs)}", faster(ours.per_second, theirs.per_second)
            table.add(what, span(ours), other, speed, f"`{each.command}`")

    for robot in ("panda", "anymal", "talos"):
        add(f"forward dynamics, {ROBOTS[robot]}", "robots", KERNELS[0], robot, "Pinocchio")
    add("derivatives of it, ANYmal", "robots", KERNELS[3], "anymal", "Pinocchio")
    add("a step with contact, ANYmal standing", "contact", "step, standing", "anymal", "MuJoCo")
    differences = "MuJoCo, finite differences,"
    add("the step and its derivatives", "contact", "step with A and B, standing", "anymal", "MuJoCo, forward", differences)
    for line in readme_extra(found):
        table.add(*line)
    return str(table)
