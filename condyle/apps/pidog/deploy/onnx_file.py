"""policy.onnx: the network with the normalisation of its observations, in float64, from "observation" to "action"."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.pidog.deploy.deployment import Deployment
from condyle.errors import require

OPSET, IR = 17, 8


def onnx_bytes(deployment: Deployment) -> bytes:
    """The model: inputs (n, observations), outputs (n, actions). float64, so that pulses are those of the other files."""
    onnx = require("onnx", "onnx", "policy.onnx (or leave it out with --no-onnx)")
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    data = deployment.data
    constants: dict[str, Any] = {
        "mean": deployment.arrays["mean"],
        "std": deployment.arrays["std"],
        "low": -data["observation_clip"],
        "high": data["observation_clip"],
        "zero": 0.0,
        "one": 1.0,
    }
    nodes = [
        helper.make_node("Sub", ["observation", "mean"], ["centered"]),
        helper.make_node("Div", ["centered", "std"], ["scaled"]),
        helper.make_node("Max", ["scaled", "low"], ["raised"]),
        helper.make_node("Min", ["raised", "high"], ["x0"]),
    ]
    for k, name in enumerate(deployment.layers):
        W = deployment.arrays[name]
        constants |= {f"W{k}": W[:, :-1].T, f"b{k}": W[:, -1]}
        last = name == deployment.layers[-1]
        nodes.append(helper.make_node("MatMul", [f"x{k}", f"W{k}"], [f"product{k}"]))
        nodes.append(helper.make_node("Add", [f"product{k}", f"b{k}"], ["action" if last else f"y{k}"]))
        if not last:
            nodes += _activation(helper, data["activation"], f"y{k}", f"x{k + 1}")
    used = {name for node in nodes for name in node.input}
    numbers = [onnx.numpy_helper.from_array(np.array(a, np.float64), name) for name, a in constants.items() if name in used]
    inputs, outputs = deployment.arrays["mean"].size, deployment.arrays[deployment.layers[-1]].shape[0]
    graph = helper.make_graph(
        nodes,
        f"{data['robot']} {data['task']}",
        [helper.make_tensor_value_info("observation", double, ["n", inputs])],
        [helper.make_tensor_value_info("action", double, ["n", outputs])],
        numbers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="condyle", ir_version=IR)
    helper.set_model_props(model, {"policy": data["policy"], "robot": data["robot"], "task": data["task"]})
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _activation(helper: Any, name: str, x: str, out: str) -> list[Any]:
    """Nodes of an activation; elu is written out, because runtimes have Elu in float32 only."""
    if name != "elu":
        return [helper.make_node({"relu": "Relu", "tanh": "Tanh"}[name], [x], [out])]
    return [
        helper.make_node("Min", [x, "zero"], [f"{x}_negative"]),
        helper.make_node("Exp", [f"{x}_negative"], [f"{x}_exp"]),
        helper.make_node("Sub", [f"{x}_exp", "one"], [f"{x}_below"]),
        helper.make_node("Greater", [x, "zero"], [f"{x}_positive"]),
        helper.make_node("Where", [f"{x}_positive", x, f"{x}_below"], [out]),
    ]
