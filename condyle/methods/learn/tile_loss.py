"""LLVM text of the loss of PPO for blocks of samples: its gradient by the means and the values, and its sums."""

from __future__ import annotations

from condyle.methods.learn.tile_body import BLOCK, LANES, VECTOR, Body, constant, function

LARGEST_LOG_RATIO = 20.0
# numbers that are the same for all samples, in this order, followed by exp(-log_std) of each action
NUMBERS = ("log_std_sum", "clip_low", "clip_high", "scale", "bound", "bound_scale", "value_scale", "value_clip", "clips_values")
SUMS = ("surrogate", "value_loss", "distance", "clipped")  # followed by the gradient of log_std, in LANES parts each


def loss() -> str:
    """(rows, means, values, numbers, blocks, actions, features of rows, of means, of values, first action, samples, originals).

    Means and values are replaced by the gradients of the loss by them; behind the numbers of NUMBERS and the deviations, the sums
    of SUMS and the gradients of log_std are added in LANES parts each. Samples from number `samples` on count nothing; the KL
    divergence is that of the first `originals`.
    """
    m = Body()
    given = {name: m.splat(m.number("%numbers", k)) for k, name in enumerate(NUMBERS)}
    deviations = m.address("%numbers", str(len(NUMBERS)))
    totals = m.address(deviations, "%actions")
    gradient = m.address(totals, str(len(SUMS) * LANES))
    advantage_at = m.plus(m.times("%actions", 2), "%first")
    clips = m(f"fcmp ogt {VECTOR} {given['clips_values']}, {constant(0.0)}")
    lanes = "<" + ", ".join(f"i64 {k}" for k in range(LANES)) + ">"

    blocks = m.loop("block", "0", "%blocks", 1, {})
    chunks = m.loop("chunk", "0", str(BLOCK), LANES, {})
    rows, means, values = (
        m.address(base, m.plus(m.times(blocks.index, stride, BLOCK), chunks.index))
        for base, stride in (("%rows", "%width"), ("%means", "%mf"), ("%values", "%vf"))
    )
    number = m.plus(m.times(blocks.index, BLOCK), chunks.index)
    spread = m(f"insertelement <{LANES} x i64> poison, i64 {number}, i64 0")
    spread = m(f"shufflevector <{LANES} x i64> {spread}, <{LANES} x i64> poison, <{LANES} x i32> zeroinitializer")
    sample = m(f"add <{LANES} x i64> {spread}, {lanes}")
    counts, original = _below(m, sample, "%samples"), _below(m, sample, "%originals")
    action = m.address(rows, m.times("%first", BLOCK))
    old_mean = m.address(action, m.times("%actions", BLOCK))
    advantage, target, old_value, old_log = (m.vector(rows, m.times(m.plus(advantage_at, k), BLOCK)) for k in range(4))

    # sums over the actions: z^2, and the squared distance of the means
    zero = (VECTOR, "zeroinitializer")
    first = m.loop("first_pass", "0", "%actions", 1, {"z": zero, "d": zero})
    z, mean, deviation, _ = _z(m, first.index, action, means, deviations)
    apart = m.op("fmul", m.op("fsub", mean, m.vector(old_mean, m.times(first.index, BLOCK))), deviation)
    first.close({"z": m.fma(z, z, first.phis["z"]), "d": m.fma(apart, apart, first.phis["d"])})
    squares, distance = first.last["z"], first.last["d"]

    # surrogate: min(ratio A, clip(ratio) A), and its derivative by the logarithm of the probability
    log_ratio = m.op("fsub", m.op("fsub", m.op("fmul", squares, constant(-0.5)), old_log), given["log_std_sum"])
    log_ratio = m.least(m.most(log_ratio, constant(-LARGEST_LOG_RATIO)), constant(LARGEST_LOG_RATIO))
    ratio = m.exp(log_ratio)
    bounded = m.op("fmul", m.least(m.most(ratio, given["clip_low"]), given["clip_high"]), advantage)
    weight = m.op("fmul", ratio, advantage)
    active = m(f"fcmp ole {VECTOR} {weight}, {bounded}")
    surrogate = m.least(weight, bounded)
    weight = m.op("fmul", _masked(m, active, weight), given["scale"])  # scale: -1 / samples of the minibatch
    weight = _masked(m, counts, weight)
    clipped = _masked(m, counts, _masked(m, active, constant(0.0), constant(1.0)))

    # gradients by the means and by log_std: weight z / std, weight (z^2 - 1), and the penalty on means beyond the bound
    second = m.loop("second_pass", "0", "%actions", 1, {})
    z, mean, deviation, place = _z(m, second.index, action, means, deviations)
    beyond = m.op("fsub", mean, m.least(m.most(mean, m(f"fneg {VECTOR} {given['bound']}")), given["bound"]))
    penalty = _masked(m, counts, m.op("fmul", beyond, given["bound_scale"]))
    slope = m.fma(m.op("fmul", weight, z), deviation, penalty)
    m.do(f"store {VECTOR} {slope}, ptr {m.address(means, place)}, align 4")
    excess = m.op("fsub", m.op("fmul", z, z), constant(1.0))
    _add(m, gradient, m.times(second.index, LANES), m.op("fmul", weight, excess))
    second.close()

    # critic: squared error against the target, or that of a value near the old one if it is larger
    value = m.vector(values, 0)
    error = m.op("fsub", value, target)
    squared = m.op("fmul", error, error)
    change = m.op("fsub", value, old_value)
    change = m.least(m.most(change, m(f"fneg {VECTOR} {given['value_clip']}")), given["value_clip"])
    near = m.op("fsub", m.op("fadd", old_value, change), target)
    near = _masked(m, clips, m.op("fmul", near, near))
    counted = m(f"fcmp oge {VECTOR} {squared}, {near}")
    error = _masked(m, counts, _masked(m, counted, error))
    m.do(f"store {VECTOR} {m.op('fmul', error, given['value_scale'])}, ptr {values}, align 4")
    sums = (_masked(m, counts, surrogate), _masked(m, counts, m.most(squared, near)), _masked(m, original, distance), clipped)
    for k, vector in enumerate(sums):
        _add(m, totals, str(LANES * k), vector)
    chunks.close()
    blocks.close()
    sizes = ("blocks", "actions", "width", "mf", "vf", "first", "samples", "originals")
    return function("loss", ("rows", "means", "values", "numbers"), sizes, m)


def _z(m: Body, index: str, action: str, means: str, deviations: str) -> tuple[str, str, str, str]:
    """((action - mean) / std, mean, 1 / std, place) of an action."""
    place = m.times(index, BLOCK)
    mean, deviation = m.vector(means, place), m.splat(m.number(deviations, index))
    return m.op("fmul", m.op("fsub", m.vector(action, place), mean), deviation), mean, deviation, place


def _below(m: Body, sample: str, end: str) -> str:
    """Which samples have a number below `end`."""
    spread = m(f"insertelement <{LANES} x i64> poison, i64 {end}, i64 0")
    spread = m(f"shufflevector <{LANES} x i64> {spread}, <{LANES} x i64> poison, <{LANES} x i32> zeroinitializer")
    return m(f"icmp slt <{LANES} x i64> {sample}, {spread}")


def _masked(m: Body, mask: str, value: str, other: str | None = None) -> str:
    """The value where the mask is true, else the other one, or zero."""
    return m(f"select <{LANES} x i1> {mask}, {VECTOR} {value}, {VECTOR} {other or constant(0.0)}")


def _add(m: Body, base: str, index: str, value: str) -> None:
    """None; a vector in memory is increased."""
    place = m.address(base, index)
    old = m(f"load {VECTOR}, ptr {place}, align 4")
    m.do(f"store {VECTOR} {m.op('fadd', old, value)}, ptr {place}, align 4")
