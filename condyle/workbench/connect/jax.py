"""Compiled functions as differentiable operations of JAX.

    dynamics = cd.jax.function(robot.forward_dynamics, q=7, v=7, tau=7)
    jax.jit(jax.grad(lambda tau: dynamics(q, v, tau).sum()))(tau)

One primitive calls the kernel: at once on arrays, on the GPU if they lie there; through a callback of the processor inside jit,
which copies arrays of a GPU there and back. Its rules for jvp, transpose and vmap are calls of the same primitive, so that both
modes work, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import ShapeError, require
from condyle.tape.device import on_device
from condyle.tape.trace import Shape
from condyle.workbench.connect.operation import Operation, Operations, TwoPassOperation
from condyle.workbench.connect.rollout import RolloutOperations

if TYPE_CHECKING:
    from condyle.closed_loop.loop import Loop


def function(function: Any, /, **shapes: Shape) -> JaxFunction:
    """A compiled function, or a Python function with one shape per argument, as a differentiable function of JAX arrays."""
    return JaxFunction(Operations(function, shapes, "jax"))


def rollout(
    loop: Loop, *, steps: int | None = None, record: Sequence[str] = (), every: int = 1, checkpoint: int = 1
) -> JaxFunction:
    """Rollouts of a closed loop as a differentiable function: (x, references, parameters by name) -> final state, records.

    Options are those of Loop.vjp. Without records it gives the final state, else a tuple of it and of the records. The keys of
    noise, `seed` and `robots`, are given with a call. A robot that stops stays as it is.
    """
    return JaxFunction(RolloutOperations(loop, steps=steps, record=record, every=every, checkpoint=checkpoint))


class JaxFunction:
    """A function of JAX arrays: float32 if all are, otherwise float64; leading axes are the batch.

    Parameters are given by name, and have their defaults otherwise. Python numbers take the type of the arrays.
    """

    def __init__(self, operations: Operations) -> None:
        self.function = operations.function
        self._operations, self._jax, self._bind = operations, _library(), _primitive().bind

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs: one array, or a named tuple of several."""
        values = self._operations.bind(args, named)
        arrays = dict(zip(values, _arrays(self._jax, self._operations.name, values), strict=True))
        jnp = self._jax.numpy
        constant = partial(jnp.asarray, dtype=next(iter(arrays.values())).dtype)
        operation, ordered, result = self._operations.arranged(arrays, jnp, constant)
        return result(self._bind(*ordered, operation=operation))

    def __repr__(self) -> str:
        return f"<jax function of {self.function!r}>"


def _library() -> Any:
    return require("jax", "jax", "functions of JAX arrays")


def _arrays(jax: Any, function: str, values: dict[str, Any]) -> list[Any]:
    """The values as JAX arrays of one type."""
    jnp, wide = jax.numpy, jax.config.jax_enable_x64
    arrays = []
    for name, value in values.items():
        if not wide and isinstance(value, np.ndarray | np.generic) and value.dtype == np.float64:
            raise ShapeError(
                f"{function}: input '{name}' is float64, which JAX would round to float32; call "
                "jax.config.update('jax_enable_x64', True) first, or pass float32"
            )
        try:
            array = jnp.asarray(value)
        except (TypeError, ValueError):
            raise ShapeError(f"{function}: input '{name}' must be an array of numbers, got {value!r:.60}") from None
        if array.dtype.kind not in "iu" and array.dtype not in (np.float32, np.float64):
            raise ShapeError(f"{function}: input '{name}' must be float64 or float32, got {array.dtype}; use .astype('float32')")
        arrays.append(array)
    # numbers and lists of Python have no type of their own
    typed = [a.dtype for a, v in zip(arrays, values.values(), strict=True) if hasattr(v, "dtype") and not a.weak_type]
    dtype = np.float64 if wide and not (typed and all(t == np.float32 for t in typed)) else np.float32
    return [jnp.asarray(a, dtype) for a in arrays]


# ---- the primitive and its rules


@cache
def _primitive() -> Any:
    jax = _library()
    core = require("jax.extend.core", "jax", "functions of JAX arrays")
    interpreters = [require(f"jax.interpreters.{name}", "jax", "functions of JAX arrays") for name in ("ad", "batching", "mlir")]
    ad, batching, mlir = interpreters
    call = core.Primitive("condyle_call")
    call.multiple_results = True
    call.def_impl(partial(_values, jax))
    call.def_abstract_eval(partial(_abstract, jax))
    mlir.register_lowering(call, mlir.lower_fun(partial(_callback, jax), multiple_results=True))
    batching.primitive_batchers[call] = partial(_batched, jax, call)
    ad.primitive_jvps[call] = partial(_jvp, jax, call, ad)
    ad.primitive_transposes[call] = partial(_transpose, jax, call, ad)
    return call


def _values(jax: Any, *arrays: Any, operation: Operation) -> list[Any]:
    if on_device(arrays):
        return operation(arrays)
    return [jax.numpy.asarray(a) for a in operation([np.asarray(a) for a in arrays])]


def _abstract(jax: Any, *arrays: Any, operation: Operation) -> list[Any]:
    shapes = operation.output_shapes([a.shape for a in arrays])
    return [jax.core.ShapedArray(shape, arrays[0].dtype) for shape in shapes]


def _callback(jax: Any, *arrays: Any, operation: Operation) -> list[Any]:
    shapes = [jax.ShapeDtypeStruct(shape, arrays[0].dtype) for shape in operation.output_shapes([a.shape for a in arrays])]
    found: list[Any] = jax.pure_callback(_host(operation), shapes, *arrays)
    return found


def _host(operation: Operation) -> Callable[..., list[np.ndarray]]:
    return lambda *arrays: operation([np.asarray(a) for a in arrays])


def _batched(jax: Any, call: Any, arrays: Sequence[Any], dims: Sequence[Any], *, operation: Operation) -> tuple[Any, Any]:
    """vmap: the mapped axis comes first, and so before all batch axes."""
    jnp = jax.numpy
    whole = [a[None] if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arrays, dims, strict=True)]
    axes = operation.batch_axes([a.shape for a in whole])
    moved = [jnp.expand_dims(a, tuple(range(1, 1 + max(axes) - n))) for a, n in zip(whole, axes, strict=True)]
    outputs = call.bind(*moved, operation=operation)
    return outputs, [0] * len(outputs)


def _jvp(jax: Any, call: Any, ad: Any, arrays: Sequence[Any], tangents: Sequence[Any], *, operation: Operation) -> Any:
    """Forward mode: the tangents of the outputs are a call that is linear in those of the inputs."""
    wrt = tuple([k for k, t in enumerate(tangents) if not isinstance(t, ad.Zero)])
    moving, results = [tangents[k] for k in wrt], len(operation.outputs)
    if operation.run_time:
        operation = operation.two_pass(wrt)
    outputs = call.bind(*arrays, operation=operation)
    moved = call.bind(*arrays, *outputs[results:], *moving, operation=operation.jvp(wrt))
    return outputs[:results], moved


def _transpose(jax: Any, call: Any, ad: Any, weights: Sequence[Any], *arrays: Any, operation: Operation) -> list[Any]:
    """Reverse mode: the vjp is the transpose of the jvp."""
    assert operation.linear_in is not None, f"{operation} is not linear"
    source, moving = operation.linear_in
    count = len(arrays) - len(moving)
    wanted = [k for k, a in enumerate(arrays) if ad.is_undefined_primal(a)]
    shapes = operation.output_shapes([a.aval.shape if k in wanted else a.shape for k, a in enumerate(arrays)])
    full = [_instantiated(jax, ad, w, shape, arrays[0].dtype) for w, shape in zip(weights, shapes, strict=True)]
    # a forward pass has fixed before what its backward pass is by
    two_pass = isinstance(source, TwoPassOperation)
    by = [count + k for k in range(len(moving))] if two_pass else wanted
    gradients = call.bind(*arrays[:count], *full, operation=source.vjp(tuple([moving[k - count] for k in by])))
    found: list[Any] = [None] * len(arrays)
    for k, gradient in zip(by, gradients, strict=True):
        found[k] = _summed(jax, gradient, arrays[k].aval.shape) if k in wanted else None
    return found


def _instantiated(jax: Any, ad: Any, weight: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.numpy.zeros(shape, dtype) if isinstance(weight, ad.Zero) else weight


def _summed(jax: Any, gradient: Any, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the batch axes along which its input did not vary."""
    extra = gradient.ndim - len(shape)
    axes = [*range(extra), *[extra + k for k, n in enumerate(shape) if n == 1 and gradient.shape[extra + k] > 1]]
    return jax.numpy.sum(gradient, tuple(axes)).reshape(shape) if axes else gradient
