"""The program on the dog: 50 times a second read, decide, write and log; a second process lies the dog down if this one dies.

NumPy only: `condyle deploy` copies this text into dog.py.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import struct
import sys
import time
from typing import Any

import numpy as np

from condyle.apps.pidog.deploy.drivers import FAULTS, SimulatedDog, SunFounderDog
from condyle.apps.pidog.deploy.safety import Safety, lying_down
from condyle.apps.pidog.deploy.step import SERVOS, Controller, first_state, numpy_network, pulses, step, unpacked

LOG = "condyle dog log 1"
MESSAGE = struct.Struct("<8d?")  # angles, and whether it walks
DONE = MESSAGE.pack(*[float("inf")] * SERVOS, False)


# ---- the log: text, one line for each tick


def columns(data: dict[str, Any]) -> list[str]:
    """Names of the numbers of a line, after time and mode."""
    axes = [f"{name}_{axis}" for name in ("rate", "acceleration") for axis in "xyz"]
    return [*axes, *data["commands"], *[f"{j}_degrees" for j in data["joints"]], *[f"{j}_pulse" for j in data["joints"]]]


class Log:
    """A CSV file with a line for each tick; numbers keep all their digits."""

    def __init__(self, path: Any, data: dict[str, Any]) -> None:
        self.file = open(path, "w", buffering=1 << 16) if path else None  # noqa: SIM115  (closed by close)
        self.lines = 0
        self._text(f"# {LOG}\n# policy {data['policy']}\n" + ",".join(["time", "mode", *columns(data)]) + "\n")

    def _text(self, text: str) -> None:
        if self.file is not None:
            self.file.write(text)

    def line(self, now: float, out: Any, command: Any) -> None:
        """Add a tick."""
        numbers = [*out.rate, *out.acceleration, *command, *out.degrees]
        counts = out.pulses if out.pulses is not None else [0] * SERVOS
        self._text(",".join([f"{now:.6f}", out.mode, *[repr(float(x)) for x in numbers], *[str(n) for n in counts]]) + "\n")
        self.lines += 1
        if self.lines % 25 == 0:
            self.flush()

    def flush(self) -> None:
        """Bring what was written to the disk."""
        if self.file is not None:
            self.file.flush()

    def close(self) -> None:
        """End the file."""
        if self.file is not None:
            self.file.close()


def read_log(path: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Arrays "rate", "acceleration", "command", "degrees" and "pulses" of the steps of the policy; ValueError in one sentence."""
    names = ["time", "mode", *columns(data)]
    count = len(data["commands"])
    with open(path) as file:
        lines = file.read().splitlines()
    if not lines or lines[0] != f"# {LOG}":
        raise ValueError(f"{path} is not a log of dog.py: its first line must be '# {LOG}'")
    if f"# policy {data['policy']}" not in lines[:3]:
        raise ValueError(f"{path} was logged with another policy: replay it with the dog.py that wrote it")
    rows = []
    for k, line in enumerate(lines):
        parts = line.split(",")
        if line.startswith("#") or parts == names or parts[1:2] != ["walk"]:
            continue
        try:
            row = [float(x) for x in parts[2:]]
        except ValueError:
            row = []
        if len(row) != len(names) - 2:
            if k == len(lines) - 1:  # the program was killed while it wrote
                break
            raise ValueError(f"line {k + 1} of {path} must have {len(names)} entries")
        rows.append(row)
    table = np.array(rows, dtype=float).reshape(-1, len(names) - 2)
    ends = np.cumsum([3, 3, count, SERVOS])
    rate, acceleration, command, degrees, counts = np.split(table, ends, axis=1)
    return {"rate": rate, "acceleration": acceleration, "command": command, "degrees": degrees, "pulses": counts.astype(int)}


def replayed(data: dict[str, Any], controller: Controller, network: Any, log: dict[str, Any]) -> Any:
    """Pulses (steps, 8) of the steps of a log."""
    state, found = first_state(data, controller), []
    for k in range(len(log["rate"])):
        counts, _, state = step(data, controller, network, state, log["rate"][k], log["acceleration"][k], log["command"][k])
        found.append(counts)
    return np.array(found, dtype=float).reshape(-1, SERVOS).astype(int)


# ---- the second process


class Supervisor:
    """A process that hears the angles of every tick. If they stop coming, it ends the control process and lies the dog down."""

    def __init__(self, data: dict[str, Any], open_driver: Any, log: Any) -> None:
        ready, started = os.pipe()
        hears, self.pipe = os.pipe()
        control = os.getpid()
        self.process = os.fork()
        if self.process == 0:
            code = 1
            try:
                os.close(ready)
                os.close(self.pipe)
                code = supervise(data, open_driver, log, hears, started, control)
            finally:
                os._exit(code)
        os.close(started)
        os.close(hears)
        os.set_blocking(self.pipe, False)
        if os.read(ready, 1) != b"r":
            raise SystemExit("dog.py: the second process could not open the servos, so nothing is started")
        os.close(ready)

    def tell(self, degrees: Any, walking: bool) -> bool:
        """Whether the second process still hears."""
        try:
            os.write(self.pipe, MESSAGE.pack(*degrees, walking))
        except (BrokenPipeError, BlockingIOError):
            return False
        return True

    def close(self) -> None:
        """End it: the dog lies."""
        with contextlib.suppress(OSError):
            os.write(self.pipe, DONE)
        os.close(self.pipe)
        with contextlib.suppress(OSError):
            os.waitpid(self.process, 0)


def supervise(data: dict[str, Any], open_driver: Any, log: Any, hears: int, started: int, control: int) -> int:
    """Listen until the end; 0 if all went well, 2 if the dog had to be laid down."""
    with contextlib.suppress(OSError):
        os.setsid()  # Ctrl-C and a closed terminal are for the control process
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    driver = open_driver()
    os.write(started, b"r")
    os.close(started)
    degrees, walking, silence, rest = None, False, None, b""
    while True:
        if not select.select([hears], [], [], silence)[0]:
            reason = "hangs"
            break
        content = os.read(hears, 1 << 12)
        if not content:
            reason = "ended"
            break
        rest += content
        while len(rest) >= MESSAGE.size:
            message, rest = rest[: MESSAGE.size], rest[MESSAGE.size :]
            if message == DONE:
                return 0
            *degrees, walking = MESSAGE.unpack(message)
            silence = data["safety"]["supervisor"]
    if os.getppid() == control:
        with contextlib.suppress(OSError):
            os.kill(control, signal.SIGKILL)
    print(f"\ndog.py: the control process {reason}: lying down", flush=True)
    if degrees is not None:
        lie_down(data, driver, degrees, walking, log)
    return 2


def lie_down(data: dict[str, Any], driver: Any, degrees: Any, walking: bool, log: Any, sleep: Any = time.sleep) -> None:
    """Hold, lie down, release the servos; lines of the mode "supervisor" in the log."""
    for angles in lying_down(data, degrees, walking):
        counts = [int(x) for x in pulses(angles)]
        with contextlib.suppress(OSError):
            driver.write(counts)
        if log:
            with contextlib.suppress(OSError), open(log, "a") as file:
                file.write(
                    ",".join([f"{time.monotonic():.6f}", "supervisor", *map(repr, angles.tolist()), *map(str, counts)]) + "\n"
                )
        sleep(1.0 / data["rate"])
    with contextlib.suppress(OSError):
        driver.release()


# ---- the loop


class Keyboard:
    """The command from the terminal: numbers and Enter change it, Enter alone stops."""

    def __init__(self, data: dict[str, Any], command: Any, watched: bool) -> None:
        self.data, self.command, self.watched = data, np.array(command, dtype=float), watched

    def look(self, safety: Safety) -> Any:
        """The present command."""
        if self.watched and select.select([sys.stdin], [], [], 0.0)[0]:
            words = sys.stdin.readline().split()
            try:
                numbers = [float(word) for word in words]
            except ValueError:
                numbers = []
            if len(numbers) == len(self.command) and np.isfinite(numbers).all():
                self.command = np.array(numbers)
            else:
                safety.halt("stopped by the keyboard")
        return self.command if not safety.halting else np.zeros(len(self.command))


def control(
    data: dict[str, Any],
    safety: Safety,
    driver: Any,
    keyboard: Any,
    log: Any,
    *,
    tell: Any = None,
    seconds: float = float("inf"),
    clock: Any = time.monotonic,
    sleep: Any = time.sleep,
    show: Any = None,
) -> None:
    """Tick until the dog lies and its servos are released.

    Each frame begins with the pulses of the tick before, and only then reads the IMU: so it was in training, where what the IMU
    measures in one frame moves the servos in the next, and so pulses come evenly, however long the rest of the frame takes.
    """
    period, failures, walking, counts = 1.0 / data["rate"], 0, None, None
    driver.begin([int(x) for x in pulses(safety.degrees)])
    due = clock()
    while safety.mode != "off":
        try:
            if counts is not None:
                driver.write(counts)
            failures = 0
        except OSError:
            failures += 1
            if failures >= 3:
                safety.stop("the servo board does not answer")
        try:
            sample = driver.read()
        except OSError:
            sample = None
        now = clock()
        command = keyboard.look(safety)
        out = safety.tick(now, sample, command)
        counts = out.pulses
        if out.mode == "walk" and walking is None:
            walking = now
        if walking is not None and now - walking >= seconds and not safety.halting:
            safety.halt("the time is over")
        if counts is None:
            with contextlib.suppress(OSError):
                driver.release()
        if tell is not None and out.mode != "off" and not tell(out.degrees, out.mode == "walk"):
            tell = None
            safety.stop("the second process ended")
        log.line(now, out, command)
        if show is not None:
            show(now, out)
        due = max(due + period, clock())  # a late tick delays the following ones
        sleep(max(0.0, due - clock()))


class SimulatedClock:
    """Time that passes only while one sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


# ---- the command line


def arguments(data: dict[str, Any], given: Any) -> Any:
    """The options of the program."""
    names = list(data["commands"])
    ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in data["commands"].items())
    parser = argparse.ArgumentParser("dog.py", description=f"PiDog with a policy for the task '{data['task']}'.")
    parser.add_argument("--command", nargs=len(names), type=float, metavar=tuple(names), default=[0.0] * len(names), help=ranges)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long to walk; until it is stopped by default")
    parser.add_argument("--dry-run", action="store_true", help="simulated servos and IMU: pulses are printed")
    parser.add_argument("--fast", action="store_true", help="do not wait, in a dry run")
    parser.add_argument("--fault", default="", metavar="NAME[:SECONDS]", help=f"in a dry run: {', '.join(FAULTS)}")
    parser.add_argument("--log", default="log.csv", help="where ticks are logged")
    parser.add_argument("--replay", metavar="LOG", help="compute the pulses of a log again and compare them")
    parser.add_argument("--axes", action="store_true", help="print what the IMU measures, without moving: which way is up?")
    parser.add_argument("--onnx", metavar="FILE", help="use the network of an ONNX file (needs onnxruntime)")
    parser.add_argument("--time", action="store_true", help="print the time of a step")
    return parser.parse_args(given)


def onnx_network(path: str) -> Any:
    """The network of an ONNX file."""
    try:
        import onnxruntime
    except ImportError:
        raise SystemExit("dog.py: --onnx needs the package onnxruntime: pip install onnxruntime") from None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda observation: session.run(None, {"observation": observation[None]})[0][0]


def main(data: dict[str, Any], weights: str, controller: Controller, given: Any = None) -> int:
    """The exit code: 0 if all went well, 1 if a safety stopped it or a replay differs."""
    options = arguments(data, given)
    network = onnx_network(options.onnx) if options.onnx else numpy_network(data, unpacked(data, weights))
    if options.replay:
        return replay_command(data, controller, network, options.replay)
    if options.time:
        return time_command(data, controller, network)
    if options.axes:
        return axes_command(SimulatedDog() if options.dry_run else open_dog(head=False))
    if not np.isfinite(options.command).all():
        raise SystemExit("dog.py: --command must be numbers")
    name, _, at = options.fault.partition(":")
    if name and (name not in FAULTS or not options.dry_run):
        raise SystemExit(f"dog.py: --fault is for dry runs, and one of {', '.join(FAULTS)}")
    return run_command(data, controller, network, options, name, float(at or 5.0))


def run_command(data: dict[str, Any], controller: Controller, network: Any, options: Any, fault: str, at: float) -> int:
    """Rise, walk, lie down."""
    fast = SimulatedClock() if options.dry_run and options.fast else None
    clock, sleep = (fast, fast.sleep) if fast is not None else (time.monotonic, time.sleep)
    safety = Safety(data, controller, network)
    log = Log(options.log, data)
    log.flush()
    supervisor = None
    if not options.dry_run:
        reset_board()
    if fast is None and hasattr(os, "fork"):
        second = (lambda: SimulatedDog()) if options.dry_run else (lambda: open_dog(imu=False, head=False))
        supervisor = Supervisor(data, second, options.log)
    driver = SimulatedDog(clock, sleep=sleep, fault=fault, at=at) if options.dry_run else open_dog()
    signals = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "asked to end"}
    signals.update({signal.SIGHUP: "the terminal was closed"} if hasattr(signal, "SIGHUP") else {})
    for number, text in signals.items():
        signal.signal(number, lambda *_, text=text: safety.halt(text))
    keyboard = Keyboard(
        data, options.command, fast is None and os.name == "posix" and sys.stdin is not None and sys.stdin.isatty()
    )
    print(f"process {os.getpid()}" + ("; Enter stops; numbers and Enter change the command" if keyboard.watched else ""))
    try:
        control(
            data,
            safety,
            driver,
            keyboard,
            log,
            tell=supervisor.tell if supervisor else None,
            seconds=options.seconds,
            clock=clock,
            sleep=sleep,
            show=Printer(options.dry_run),
        )
    finally:
        if safety.mode != "off":  # an error of this program
            lie_down(data, driver, safety.degrees, safety.mode == "walk", None, sleep)
        log.close()
        if supervisor is not None:
            supervisor.close()
    print(f"off: {safety.reason}")
    return 0 if safety.reason in ("the time is over", "stopped by the keyboard", *signals.values()) else 1


class Printer:
    """A line when the mode changes, and in a dry run the pulses five times a second."""

    def __init__(self, dry: bool) -> None:
        self.dry, self.mode, self.count = dry, "", 0

    def __call__(self, now: float, out: Any) -> None:
        """Print a tick."""
        self.count += 1
        if out.mode != self.mode or (self.dry and self.count % 10 == 0):
            text = " ".join(f"{x:3d}" for x in out.pulses) if out.pulses is not None else "released"
            print(f"{now:9.2f} s  {out.mode:5s}  {text}")
        self.mode = out.mode


def reset_board() -> None:
    """Restart the servo board, as the manufacturer's library does, and ask for a higher priority."""
    with contextlib.suppress(ImportError, OSError):  # what is missing is said by open_dog
        from robot_hat import utils

        utils.reset_mcu()
        time.sleep(0.2)
    with contextlib.suppress(AttributeError, OSError):  # before other programs, where that is allowed
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))


def open_dog(**options: Any) -> Any:
    """PiDog's driver, or the sentence that says what is missing."""
    try:
        return SunFounderDog(**options)
    except ImportError as error:
        raise SystemExit(f"dog.py: {error}; install SunFounder's robot-hat and pidog on the dog, or use --dry-run") from None
    except OSError as error:
        raise SystemExit(f"dog.py: the servo board or the IMU does not answer ({error}): is the dog switched on?") from None


def replay_command(data: dict[str, Any], controller: Controller, network: Any, path: str) -> int:
    """Compare the pulses of a log with those computed again."""
    try:
        log = read_log(path, data)
    except (OSError, ValueError) as error:
        raise SystemExit(f"dog.py: {error}") from None
    found = replayed(data, controller, network, log)
    differ = int((found != log["pulses"]).any(axis=1).sum())
    print(f"{len(found)} steps: " + ("all pulses are the same" if not differ else f"pulses of {differ} steps differ"))
    return 1 if differ or not len(found) else 0


def time_command(data: dict[str, Any], controller: Controller, network: Any) -> int:
    """Print the time of a step, the smallest mean of twenty times a hundred."""
    best, rate, acceleration = float("inf"), np.zeros(3), np.array([0.0, 0.0, 9.81])
    for _ in range(20):
        state, begin = first_state(data, controller), time.process_time()
        for _ in range(100):
            _, _, state = step(data, controller, network, state, rate, acceleration, np.zeros(len(data["commands"])))
        best = min(best, time.process_time() - begin)
    print(f"{10.0 * best:.3f} ms of the {1000.0 / data['rate']:.0f} ms of a step")
    return 0


def axes_command(driver: Any, count: int = 50) -> int:
    """Print which way is up, and the turning rates, so that a wrong axis is seen before anything moves."""
    for _ in range(count):
        sample = driver.read()
        if sample is None:
            print("the IMU does not answer")
        else:
            (p, q, r), (x, y, z) = np.degrees(sample[0]), sample[1]
            nose, left = np.degrees([np.arctan2(x, np.hypot(y, z)), np.arctan2(y, z)])
            print(
                f"nose up {nose:6.1f} degrees, left side up {left:6.1f}; "
                f"rolls right {p:6.1f} degrees/s, nose goes down {q:6.1f}, turns left {r:6.1f}"
            )
        time.sleep(0.2)
    return 0


def program(data: dict[str, Any], weights: str, controller: Controller) -> None:
    """Run it, and end."""
    sys.exit(main(data, weights, controller))
