"""Compiled functions as differentiable operations of PyTorch.

    dynamics = cd.torch.function(robot.forward_dynamics, q=7, v=7, tau=7)
    dynamics(q, v, tau).sum().backward()

Tensors and arrays share memory, on the processor and on a GPU. Eager calls are an autograd.Function, with rules for torch.func;
torch.compile sees one custom operator. The backward pass is an operation of the same kind: it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from condyle.errors import ShapeError, require
from condyle.tape.device import beside, on_device
from condyle.tape.trace import Shape
from condyle.workbench.connect.operation import Operation, Operations, TwoPassOperation
from condyle.workbench.connect.rollout import RolloutOperations

if TYPE_CHECKING:
    from condyle.closed_loop.loop import Loop

Call = Callable[[Operation, Sequence[Any]], list[Any]]

# what the custom operator computes, by key
_FUNCTIONS: dict[str, Operations] = {}
_DERIVED: dict[str, Operation] = {}


def function(function: Any, /, **shapes: Shape) -> TorchFunction:
    """A compiled function, or a Python function with one shape per argument, as a differentiable function of tensors."""
    return TorchFunction(Operations(function, shapes, "torch"))


def rollout(
    loop: Loop, *, steps: int | None = None, record: Sequence[str] = (), every: int = 1, checkpoint: int = 1
) -> TorchFunction:
    """Rollouts of a closed loop as a differentiable function: (x, references, parameters by name) -> final state, records.

    Options are those of Loop.vjp. Without records it gives the final state, else a tuple of it and of the records. The keys of
    noise, `seed` and `robots`, are given with a call. A robot that stops stays as it is.
    """
    return TorchFunction(RolloutOperations(loop, steps=steps, record=record, every=every, checkpoint=checkpoint))


class TorchFunction:
    """A function of tensors: float32 if all are, otherwise float64; leading axes are the batch.

    Tensors on a GPU stay there, in both directions, and nothing waits for them; those of the CPU in the same call are moved.
    Parameters are given by name, and have their defaults otherwise. Numbers that are no tensors take the type of the tensors.
    """

    def __init__(self, operations: Operations) -> None:
        self.function = operations.function
        self._operations, self._torch = operations, _library()
        # torch.compile must not see these being made
        self._eager, self._operator = _autograd_function(), _operator()
        # what torch.compile does not look into: a graph ends there, and begins again
        self._called = self._torch.compiler.disable(self._now) if operations.run_time else self._now
        if not operations.run_time:
            f = self.function
            self._key = f"{f.tape.hash} {f.backend} {f._options}"
            _FUNCTIONS[self._key] = operations

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs: one tensor, or a named tuple of several."""
        if self._torch.compiler.is_compiling() and not self._operations.run_time:
            values = self._operations.bind(args, named)
            tensors = _tensors(self._torch, self._operations.name, values)
            return self._operations.result(self._operator(self._key, list(values), tensors))
        return self._called(args, named)

    def _now(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        values = self._operations.bind(args, named)
        tensors = _tensors(self._torch, self._operations.name, values)
        arrays = dict(zip(values, tensors, strict=True))
        constant = partial(_constant, self._torch, tensors[0])
        operation, ordered, result = self._operations.arranged(arrays, self._torch, constant)
        moving = tuple([k for k, t in enumerate(ordered) if t.requires_grad])
        if operation.run_time and moving and self._torch.is_grad_enabled():
            operation = operation.two_pass(moving)
        outputs = self._eager.apply(operation, *ordered)
        return result(outputs[: len(outputs) - operation.residuals])

    def __repr__(self) -> str:
        return f"<torch function of {self.function!r}>"


def _library() -> ModuleType:
    return require("torch", "torch", "functions of PyTorch tensors")


def _constant(torch: Any, like: Any, value: Any) -> Any:
    """Numbers as a tensor of the type of another one, where that lies."""
    return beside(like, value) if on_device((like,)) else torch.as_tensor(value, dtype=like.dtype)


def _tensors(torch: Any, function: str, values: dict[str, Any]) -> list[Any]:
    """The values as tensors of one type on one device; copies only where one of both changes."""
    floats = [v.dtype for v in values.values() if isinstance(v, torch.Tensor)]
    dtype = torch.float32 if floats and all(t == torch.float32 for t in floats) else torch.float64
    first = next((name for name, v in values.items() if isinstance(v, torch.Tensor) and on_device((v,))), None)
    there = None if first is None else values[first]
    tensors = []
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            try:
                value = torch.as_tensor(value, dtype=dtype)
            except (TypeError, ValueError, RuntimeError):
                raise ShapeError(f"{function}: input '{name}' must be a tensor or numbers, got {value!r:.60}") from None
            if there is not None and not torch.compiler.is_compiling():
                value = beside(there.to(dtype), value)  # without waiting
        if value.device.type not in ("cpu", "cuda"):
            raise ShapeError(
                f"{function}: input '{name}' is on {value.device}, and kernels run on the CPU or on an NVIDIA GPU: "
                f"pass {name}.cpu()"
            )
        if there is not None and value.device != there.device:
            if value.device.type != "cpu":
                raise ShapeError(
                    f"{function}: '{first}' is on {there.device} and '{name}' on {value.device}; move all tensors of a "
                    "call to one"
                )
            value = value.to(there.device)
        if value.is_complex() or (value.is_floating_point() and value.dtype not in (torch.float32, torch.float64)):
            raise ShapeError(f"{function}: input '{name}' must be float64 or float32, got {value.dtype}; use {name}.float()")
        tensors.append(value.to(dtype))
    return tensors


# ---- values, and the rules of derivatives


def _values(operation: Operation, tensors: Sequence[Any]) -> list[Any]:
    """The outputs of an operation: on a GPU if a tensor lies there, else on memory that NumPy can see."""
    torch = _library()
    if on_device(tensors):
        return operation([t.detach().resolve_neg() for t in tensors])
    arrays = [t.detach().resolve_neg().numpy() for t in tensors]
    return [torch.from_numpy(a) for a in operation(arrays)]


def _gradients(
    call: Call, operation: Operation, needed: Sequence[bool], tensors: Sequence[Any], weights: Sequence[Any]
) -> list[Any]:
    """One gradient per input, None where none is needed, by the vjp of the operation."""
    torch = _library()
    wrt = tuple([k for k, wanted in enumerate(needed) if wanted])
    found: list[Any] = [None] * len(needed)
    results = len(operation.outputs) - operation.residuals
    if not wrt or all(w is None for w in weights[:results]):
        return found
    if isinstance(operation, TwoPassOperation):
        wrt = operation.wrt
    # after the inputs come what a forward pass has kept
    shapes = operation.output_shapes([t.shape for t in tensors[: len(needed)]], torch.broadcast_shapes)
    full = [tensors[0].new_zeros(s) if w is None else w for w, s in zip(weights[:results], shapes, strict=False)]
    for k, gradient in zip(wrt, call(operation.vjp(wrt), [*tensors, *full]), strict=True):
        found[k] = gradient.sum_to_size(tensors[k].shape) if needed[k] else None
    return found


def _eager_call(operation: Operation, tensors: Sequence[Any]) -> list[Any]:
    return list(_autograd_function().apply(operation, *tensors))


@cache
def _autograd_function() -> Any:
    torch: Any = _library()

    class CondyleFunction(torch.autograd.Function):  # type: ignore[misc]
        """An operation with its rules for autograd and torch.func."""

        @staticmethod
        def forward(operation: Operation, *tensors: Any) -> tuple[Any, ...]:
            return tuple(_values(operation, tensors))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
            ctx.operation, *tensors = inputs
            kept = output[len(output) - ctx.operation.residuals :]
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(*kept)
            ctx.save_for_backward(*tensors, *kept)
            ctx.save_for_forward(*tensors, *kept)

        @staticmethod
        def backward(ctx: Any, *weights: Any) -> tuple[Any, ...]:
            return (None, *_gradients(_eager_call, ctx.operation, ctx.needs_input_grad[1:], ctx.saved_tensors, weights))

        @staticmethod
        def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[Any, ...]:
            tensors = ctx.saved_tensors
            wrt = tuple([k for k, t in enumerate(tangents) if t is not None])
            found = _eager_call(ctx.operation.jvp(wrt), [*tensors, *[tangents[k] for k in wrt]])
            return (*found, *[None] * ctx.operation.residuals)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], operation: Operation, *tensors: Any) -> tuple[Any, Any]:
            return _batched(_eager_call, operation, tensors, in_dims[1:])

    return CondyleFunction


def _batched(call: Call, operation: Operation, tensors: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, Any]:
    """(outputs, their mapped axes) of an operation that vmap maps over an axis of some inputs."""
    whole = [t[None] if d is None else t.movedim(d, 0) for t, d in zip(tensors, dims, strict=True)]
    # the mapped axis comes first, and so before all batch axes
    axes = operation.batch_axes([t.shape for t in whole])
    moved = [t[(slice(None), *[None] * (max(axes) - n))] for t, n in zip(whole, axes, strict=True)]
    outputs = tuple(call(operation, moved))
    return outputs, (0,) * len(outputs)


# ---- torch.compile: one operator for all operations


def _found(key: str, names: Sequence[str]) -> Operation:
    return _FUNCTIONS[key].operation(tuple(names)) if names else _DERIVED[key]


def _compiled_call(operation: Operation, tensors: Sequence[Any]) -> list[Any]:
    """A derivative, of which there are no names to choose from."""
    _DERIVED.setdefault(operation.key, operation)
    return list(_operator()(operation.key, [], list(tensors)))


@cache
def _operator() -> Any:
    torch: Any = _library()

    @torch.library.custom_op(  # type: ignore[untyped-decorator]
        "condyle::call", mutates_args=(), schema="(str key, str[] names, Tensor[] inputs) -> Tensor[]"
    )
    def call(key: str, names: Sequence[str], inputs: Sequence[Any]) -> list[Any]:
        # the strides that `fake` promises
        return [t.contiguous() for t in _values(_found(key, names), inputs)]

    def fake(key: str, names: Sequence[str], inputs: Sequence[Any]) -> list[Any]:
        shapes = _found(key, names).output_shapes([t.shape for t in inputs], torch.broadcast_shapes)
        return [inputs[0].new_empty(shape) for shape in shapes]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        key, names, tensors = inputs
        ctx.operation = _found(key, names)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, weights: Sequence[Any]) -> tuple[None, None, list[Any]]:
        return None, None, _gradients(_compiled_call, ctx.operation, ctx.needs_input_grad[2], ctx.saved_tensors, weights)

    def vmap(info: Any, in_dims: tuple[Any, ...], key: str, names: Sequence[str], inputs: Sequence[Any]) -> tuple[Any, Any]:
        outputs, axes = _batched(_compiled_call, _found(key, names), inputs, in_dims[2])
        return list(outputs), list(axes)

    call.register_fake(fake)
    call.register_autograd(backward, setup_context=setup_context)
    call.register_vmap(vmap)
    return call
