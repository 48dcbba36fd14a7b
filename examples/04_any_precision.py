"""One tape, any precision: how many digits of a result are true, and an interval that proves it.

python examples/04_any_precision.py
"""

import numpy as np

import condyle as cd

COUNT = 100


def logistic(x):
    """COUNT times x = 3.9 x (1 - x): each iteration costs about half a bit."""
    return cd.loop(lambda i, x: 3.9 * x * (1.0 - x), x, COUNT)


f = cd.function(logistic, x=())
single = f(np.full(1, 0.3, dtype=np.float32))[0]  # a float32 array is computed in float32
double = f(0.3)
print("float32 :", single)
print("float64 :", double)
for bits in (64, 128, 256):
    print(f"mpfr:{bits:<3}:", f.on(f"mpfr:{bits}")(0.3))

# no digit of the float64 result is right; an interval of 53 bits says so, and one of 256 bits proves 18 digits
true = f.on("mpfr:512")(0.3)
vague, sure = f.on("interval:53")(0.3), f.on("interval:256")(0.3)
print("interval:53  has the radius", vague.rad())
print("interval:256 has the radius", sure.rad())

assert abs(double - float(true)) > 1e-3
assert abs(float(f.on("mpfr:256")(0.3) - true)) < 1e-15
assert float(sure.rad()) < 1e-18 and abs(float(sure.mid()) - float(true)) < 1e-15
assert not vague.rad() < 1.0
print("checked: 256 bits are enough where float64 has no true digit left, and the intervals know which is which")
