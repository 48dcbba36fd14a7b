"""The safety around the deployed policy: modes that follow each other, by the time and the IMU's samples, and their servo angles.

    rest -> rise -> walk -> hold -> lie -> off          from each of the first five to off when it tilts too far

rest: lying still, while the offset of the gyroscope is measured. rise: slowly up, through poses in which weak servos can carry
the body. walk: the policy; `halt` asks it to stand, and stops then. hold: after a fault or a stop, to the angles of standing as
fast as servos can, because in the middle of a step feet are in the air; or the last angles, if it was rising. lie: slowly down.
off: no pulses, the servos give way. There is no way back: the program is started again.

NumPy only: `condyle deploy` copies this text into dog.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from condyle.apps.pidog.deploy.step import Controller, approach, first_state, pulses, step

# times in s, angles in degrees
SAFETY = {
    "rest": 1.0,  # lying still before rising
    "rest_at_most": 10.0,  # waiting for that
    "still": 0.1,  # rad/s: the most that counts as still
    "offset": 0.35,  # rad/s: the largest offset of a gyroscope
    "rise": 2.5,  # from lying to standing
    "silent": 0.06,  # without a sample of the IMU
    "stuck": 25,  # samples in a row that are the same
    "late": 0.06,  # from one tick to the next
    "tilt": 50.0,  # from upright
    "risen": 20.0,  # from upright, after rising
    "halt": 1.5,  # walking to a stop, when nothing is wrong
    "hold": 0.3,  # standing, before it lies down
    "lie": 1.5,  # from anywhere to lying
    "supervisor": 0.25,  # without a word of the control process
}
GRAVITY = 9.81
# of one sample of the accelerometer, in what is known about the tilt; less where it does not show gravity alone. A sample is
# short, and servos move in jerks of 20 ms: the gyroscope sees a fall, and the accelerometer only corrects its drift
TRUST = 0.02


class Output(NamedTuple):
    """What a tick gives: `pulses` is None when the servos are to be released."""

    mode: str
    pulses: Any
    degrees: Any
    rate: Any
    acceleration: Any


class Safety:
    """The present mode; `tick` once every 20 ms, `stop` at any time."""

    def __init__(self, data: dict[str, Any], controller: Controller, network: Callable[[Any], Any]) -> None:
        self.data, self.controller, self.network = data, controller, network
        self.limits = data["safety"]
        self.mode, self.reason = "rest", ""
        self.degrees = np.array(data["lie"], dtype=float)
        self.state = first_state(data, controller)
        self.offset = np.zeros(3)
        self.up = np.array([0.0, 0.0, 1.0])
        self.rate, self.acceleration = np.zeros(3), np.array([0.0, 0.0, GRAVITY])
        self.begin: Any = None  # when the mode began
        self.before: Any = None  # when the last tick was
        self.heard: Any = None  # when the IMU was heard last
        self.same = 0  # samples in a row like the one before
        self.raw: Any = None
        self.resting: list[Any] = []
        self.first_tick: Any = None
        self.departure = self.degrees  # angles from which rise and lie set out
        self.halting = ""  # why it walks to a stop
        self.halted: Any = None  # since when
        self.steady: Any = self.degrees  # where hold ends

    @property
    def tilt(self) -> float:
        """Degrees from upright."""
        return float(np.degrees(np.arctan2(np.hypot(self.up[0], self.up[1]), self.up[2])))

    def halt(self, reason: str) -> None:
        """Walk to a stop, and then `stop`; at once if it does not walk, or when asked twice. The command has to be zero."""
        if self.mode != "walk" or self.halting:
            self.stop(self.halting or reason)
        else:
            self.halting, self.halted = reason, self.before

    def stop(self, reason: str) -> None:
        """Hold, lie down and release the servos; the first reason is kept."""
        if self.mode in ("rest", "rise", "walk"):
            self.reason = reason
            self._enter("off" if self.mode == "rest" else "hold")

    def release(self, reason: str) -> None:
        """Release the servos at once."""
        if self.mode != "off":
            self.reason = self.reason or reason
            self._enter("off")

    def tick(self, now: float, sample: Any, command: Any) -> Output:
        """Angles and pulses for this moment. `sample`: (rate, acceleration) of the IMU, or None if there is no new one."""
        if self.first_tick is None:
            self.first_tick = self.before = self.heard = now
        if self.begin is None:
            self.begin = now
        interval, self.before = now - self.before, now
        if interval > self.limits["late"]:
            self.stop(f"the loop was late: {1000.0 * interval:.0f} ms since the last tick")
        self._listen(now, sample)
        if not np.isfinite(np.asarray(command, dtype=float)).all():
            self.stop("the command is not finite")
        if self.halting and now - self.halted >= self.limits["halt"]:
            self.stop(self.halting)
        if self.begin is None:
            self.begin = now
        mode = self._advance(now, command)
        counts = None if mode == "off" else [int(x) for x in pulses(self.degrees)]
        return Output(mode, counts, self.degrees, self.rate, self.acceleration)

    def _enter(self, mode: str) -> None:
        if mode == "hold":
            self.steady = self.data["stand"] if self.mode == "walk" else self.degrees
        self.mode, self.begin, self.departure = mode, None, self.degrees

    def _listen(self, now: float, sample: Any) -> None:
        """Take the sample, and find what is wrong with it."""
        if sample is None:
            if now - self.heard > self.limits["silent"]:
                self.stop(f"the IMU was silent for {1000.0 * (now - self.heard):.0f} ms")
            return
        raw = np.concatenate([np.asarray(part, dtype=float) for part in sample])
        if not np.isfinite(raw).all():
            self.stop("the IMU gave a number that is not finite")
            return
        self.same = self.same + 1 if self.raw is not None and np.array_equal(raw, self.raw) else 0
        self.raw, self.heard = raw, now
        if self.same >= self.limits["stuck"]:
            self.stop(f"the IMU gave the same sample {self.same + 1} times")
            return
        self.rate, self.acceleration = raw[:3] - self.offset, raw[3:]
        dt = 1.0 / self.data["rate"]
        self.up = self.up + dt * np.cross(self.up, self.rate)
        size = np.sqrt(self.acceleration @ self.acceleration) / GRAVITY
        self.up = self.up + TRUST * max(0.0, 1.0 - abs(size - 1.0)) * (self.acceleration / GRAVITY - self.up)
        if self.tilt > self.limits["tilt"]:
            self.release(f"it tilted by {self.tilt:.0f} degrees")

    def _advance(self, now: float, command: Any) -> str:
        """The mode whose angles these are; another one may begin with the next tick."""
        mode, part = self.mode, self._part(now)
        if mode == "rest":
            self._rest(now)
        elif mode == "rise":
            if self._moved(part, self.data["rise"]):
                self._rose()
        elif mode == "walk":
            self._walk(command)
        elif mode == "hold":
            self.degrees = approach(self.degrees, np.array(self.steady), self.data["limits"]["fastest"])
            if part >= 1.0:
                self._enter("lie")
        elif mode == "lie" and self._moved(part, [[1.0, self.data["lie"]]]):
            self._enter("off")
        return self.mode if self.mode == "off" or (mode == "walk" and self.mode == "hold") else mode

    def _part(self, now: float) -> float:
        """How much of the mode's time is over."""
        return 1.0 if self.mode not in self.limits else min((now - self.begin) / self.limits[self.mode], 1.0)

    def _rest(self, now: float) -> None:
        self.resting.append(self.rate)
        mean = np.mean(self.resting, axis=0)
        if np.abs(self.rate - mean).max() > self.limits["still"]:  # begin again
            self.resting, self.begin = [], now
            if now - self.first_tick > self.limits["rest_at_most"]:
                self.stop("it did not lie still")
        elif now - self.begin >= self.limits["rest"]:
            if np.abs(mean).max() > self.limits["offset"]:
                self.stop(f"the gyroscope shows {np.abs(mean).max():.2f} rad/s at rest")
            else:
                self.offset = mean
                self._enter("rise")

    def _rose(self) -> None:
        if self.tilt > self.limits["risen"]:
            self.stop(f"it did not get up: it is tilted by {self.tilt:.0f} degrees")
        else:
            self._enter("walk")

    def _moved(self, part: float, path: Any) -> bool:
        """Whether the end of the path is reached, from where the mode began, not faster than poses may change."""
        self.degrees = approach(self.degrees, along(path, self.departure, part), self.data["limits"]["fastest"])
        return part >= 1.0 and bool(np.abs(self.degrees - np.array(path[-1][1])).max() < 1e-6)

    def _walk(self, command: Any) -> None:
        counts, degrees, state = step(
            self.data, self.controller, self.network, self.state, self.rate, self.acceleration, np.asarray(command, dtype=float)
        )
        if not (np.isfinite(counts).all() and all(np.isfinite(x).all() for x in state.values())):
            self.stop("the policy gave a number that is not finite")
            return
        self.degrees, self.state = degrees, state


def along(path: Any, start: Any, part: float) -> Any:
    """Servo angles at a part (0 to 1) of a path from `start` through poses [[part at which it is there, angles], ...], smooth."""
    begin, wanted = 0.0, np.array(start, dtype=float)
    for end, pose in path:
        fraction = min(max((part - begin) / (end - begin), 0.0), 1.0)
        wanted = wanted + fraction * fraction * (3.0 - 2.0 * fraction) * (np.array(pose) - wanted)
        begin = end
    return wanted


def lying_down(data: dict[str, Any], degrees: Any, walking: bool) -> Any:
    """Servo angles of each tick from `degrees` to lying, after holding: what can be done when nothing is measured."""
    limits, fastest, now = data["safety"], data["limits"]["fastest"], np.array(degrees, dtype=float)
    steady = np.array(data["stand"]) if walking else now
    for _ in range(int(limits["hold"] * data["rate"])):
        now = approach(now, steady, fastest)
        yield now
    count, start = int(limits["lie"] * data["rate"]), now
    k = 0
    while k < count or np.abs(now - np.array(data["lie"])).max() > 1e-6:
        k += 1
        now = approach(now, along([[1.0, data["lie"]]], start, min(k / count, 1.0)), fastest)
        yield now
