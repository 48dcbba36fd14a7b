"""What this machine is, what Condyle is on it, and which extras are there."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from typing import Any

from rich.console import Console

from condyle.errors import install_command
from condyle.tape.host_info import versions

# the extras for people, each with the modules it brings
EXTRAS = {
    "viewer": ("viser", "trimesh", "collada"),
    "plot": ("matplotlib", "PIL", "imageio_ffmpeg"),
    "export": ("pyarrow", "mcap"),
    "notebook": ("ipykernel",),
    "mjcf": ("mujoco",),
    "precision": ("gmpy2", "flint"),
    "casadi": ("casadi",),
}
GIB = 2**30


def facts() -> dict[str, Any]:
    """All of it as plain data."""
    missing = {extra: [module for module in modules if find_spec(module) is None] for extra, modules in EXTRAS.items()}
    return {
        **versions(),
        "os": f"{_distribution()}, {platform.system()} {platform.release()}, {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": _memory(),
        "extras": {
            "installed": [extra for extra, absent in missing.items() if not absent],
            "missing": {extra: absent for extra, absent in missing.items() if absent},
        },
    }


def show(console: Console) -> None:
    """Print the facts, one to a line."""
    found = facts()
    extras = found.pop("extras")
    memory = found.pop("memory")
    found["memory"] = "not known" if memory is None else f"{memory / GIB:.1f} GiB"
    lines = {name: _text(value) for name, value in found.items()}
    lines["extras"] = ", ".join(extras["installed"]) or "none"
    if extras["missing"]:
        lines["missing"] = f"{', '.join(extras['missing'])}: {install_command(*extras['missing'])}"
    for name, value in lines.items():
        console.print(f"{name:9} {value}", highlight=False, markup=False, soft_wrap=True)


def _text(value: Any) -> str:
    return ", ".join(f"{n} of {kind}" for kind, n in value.items()) if isinstance(value, dict) else str(value)


def _memory() -> int | None:
    """Bytes of memory of the machine; None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _processor() -> str:
    """As its maker calls it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        return names[0] if names else platform.processor() or "not known"
    except OSError:
        return platform.processor() or "not known"
