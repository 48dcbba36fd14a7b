"""Without torch or JAX, a function of their arrays is an error that names the extra; the names cd.torch and cd.jax exist."""

import sys

import pytest
from workbench.connect.samples import compiled_network

import condyle as cd
from condyle.errors import MissingExtraError


@pytest.mark.parametrize(("library", "name"), [("torch", "PyTorch tensors"), ("jax", "JAX arrays")])
def test_the_extra_is_named(library: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"^{library} is needed for functions of {name}: .*\[{library}\]"):
        getattr(cd, library).function(compiled_network())


@pytest.mark.parametrize(("library", "purpose"), [("cyclonedds", "topics"), ("rosbags", "messages")])
def test_the_extra_of_ros_2_is_named(library: str, purpose: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from condyle.workbench.connect.ros2_node import Ros2Node
    from condyle.workbench.runs.ros2_messages import typestore

    for module in ("", ".core", ".typesys"):
        monkeypatch.setitem(sys.modules, library + module, None)
    with pytest.raises(MissingExtraError, match=rf"^{library} is needed for {purpose} of ROS 2: .*\[ros2\]"):
        Ros2Node() if library == "cyclonedds" else typestore.__wrapped__()
