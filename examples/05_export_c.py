"""The same function as C99: no dependencies, no allocation, the same bits under any optimisation.

python examples/05_export_c.py
"""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import condyle as cd


def balance(x, u):
    """A cart with a pole, one step of 10 ms: state (place, angle, speed, rate), force u."""
    place, angle, speed, rate = x
    s, c = np.sin(angle), np.cos(angle)
    a = (u + 0.1 * s * (0.5 * rate**2 - 9.81 * c)) / (1.0 + 0.1 * s**2)
    b = (9.81 * s - a * c) / 0.5
    speed, rate = speed + 0.01 * a, rate + 0.01 * b
    return np.array([place + 0.01 * speed, angle + 0.01 * rate, speed, rate])


f = cd.function(balance, x=4, u=())
source = f.source("c")
print("\n".join(source.splitlines()[:12]), "\n ...")

compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
if compiler is None:
    print("checked: nothing more, because there is no C compiler here")
    raise SystemExit

x = np.random.default_rng(5).normal(size=(500, 4))
u = np.random.default_rng(6).normal(size=500)
here = f(x, u)
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "balance.c").write_text(source)
    for level in ("-O0", "-O3"):
        library = Path(folder, f"balance{level}.so")
        flags = ["-std=c99", level, "-ffp-contract=off", "-Wall", "-Werror", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, Path(folder, "balance.c"), "-o", library, "-lm"], check=True)
        c = ctypes.CDLL(str(library)).balance
        c.argtypes = [ctypes.c_void_p] * 3
        y = np.empty_like(x)
        for k in range(len(x)):
            c(x[k].ctypes.data, u[k:].ctypes.data, y[k].ctypes.data)
        assert y.tobytes() == here.tobytes()
        print(f"{Path(compiler).name} {level}: the same bits for {len(x)} states")
print("checked: exported C at -O0 and -O3 gives the bits of the compiled function")
