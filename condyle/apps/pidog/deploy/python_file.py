"""dog.py: one Python file of NumPy and the standard library, made of the text of modules of this package, and the weights."""

from __future__ import annotations

import ast
import base64
import inspect
import json
import textwrap
from types import ModuleType

from condyle.apps.pidog.deploy import drivers, program, safety, step
from condyle.apps.pidog.deploy.deployment import Deployment
from condyle.errors import CondyleError

INTRODUCTION = '''#!/usr/bin/env python3
"""PiDog with a policy for the task '{task}'. NumPy is all that it needs, and SunFounder's robot-hat and pidog on the dog.

    python3 dog.py --dry-run                     simulated servos and IMU
    sudo python3 dog.py --command {example}          on the dog; README.md says what to do first

Written by `condyle deploy`; policy {policy}
"""

from __future__ import annotations
'''


def python_file(deployment: Deployment) -> str:
    """The text of dog.py."""
    modules = [deployment.module, step, safety, drivers, program]
    imports: list[str] = []
    bodies = []
    names: dict[str, str] = {}
    for module in modules:
        found, body, defined = _parts(module)
        imports += found
        bodies.append(f"# ---- {module.__name__.replace('.', '/')}.py\n\n{body}")
        for name in defined:
            if name in names:
                raise CondyleError(
                    f"'{name}' is defined in {names[name]} and in {module.__name__}, which share dog.py: rename one"
                )
            names[name] = module.__name__
    data = deployment.data
    content = b"".join(deployment.arrays[name].astype("<f4").tobytes() for name in data["arrays"])
    text = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 120))
    example = " ".join(f"{0.5 * high:g}" if k == 0 else "0" for k, (_, high) in enumerate(data["commands"].values()))
    parts = [
        INTRODUCTION.format(task=data["task"], policy=data["policy"], example=example),
        "\n".join(_sorted(imports)),
        "",
        *bodies,
        "# ---- the policy",
        "",
        f"DATA = json.loads(r'''{json.dumps(data, indent=1)}''')",
        f'WEIGHTS = """\n{text}\n"""',
        "",
        'if __name__ == "__main__":',
        "    program(DATA, WEIGHTS, Controller(initial, observe, act))",
        "",
    ]
    return "\n".join(parts)


def _parts(module: ModuleType) -> tuple[list[str], str, list[str]]:
    """(imports, text without them and the docstring, names that it defines) of a module; imports of the package are left out."""
    source = inspect.getsource(module)
    tree, lines = ast.parse(source), source.splitlines()
    imports, defined, gone = [], [], set()
    for k, node in enumerate(tree.body):
        if k == 0 and isinstance(node, ast.Expr):
            gone |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            gone |= set(range(node.lineno, (node.end_lineno or 0) + 1))
            imports += [line for line in ast.unparse(node).splitlines() if "condyle" not in line and "__future__" not in line]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined += [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    kept = [line for number, line in enumerate(lines, 1) if number not in gone]
    return imports, "\n".join(kept).strip() + "\n\n", defined


def _sorted(imports: list[str]) -> list[str]:
    """Each import once, NumPy last; names of one module in one line."""
    plain = {line for line in imports if line.startswith("import ")} | {"import json"}
    chosen: dict[str, set[str]] = {}
    for line in imports:
        if line.startswith("from "):
            module, _, names = line.removeprefix("from ").partition(" import ")
            chosen.setdefault(module, set()).update(names.split(", "))
    lines = sorted(line for line in plain if "numpy" not in line)
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(chosen.items())]
    return [*lines, "", *sorted(line for line in plain if "numpy" in line)]
