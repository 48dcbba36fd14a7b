"""README.md of the deployed folder: for someone who holds the dog."""

from __future__ import annotations

from condyle.deploy.deployment import Deployment

TEXT = """
# PiDog with a policy for the task '{task}'

| file | what it is |
|---|---|
| `dog.py` | the program: one file, NumPy and SunFounder's `robot-hat` and `pidog`; Python 3.9 or newer |
| `policy.c`, `policy.h` | the same step as C99, without the safety around it; `replay.c` computes the pulses of a log |
{onnx}
Policy `{policy}`.

## Before it moves

1. **Install** SunFounder's `robot-hat` and `pidog` on the Raspberry Pi as their manual says, and NumPy. Copy `dog.py`
   there.
2. **Calibrate** the servos with SunFounder's `0_calibration.py`. dog.py reads the offsets that it saves
   (`~/.config/pidog/pidog.conf`).
3. **Dry run**, on any computer: `python3 dog.py --dry-run --command {example} --seconds 5`. It prints the pulses of
   the eight leg servos, in counts of 20 ms / 4095: 307 is 0 degrees, a count 0.44 degrees. Try what a fault does:
   `--dry-run --fault silent:4`; others are {faults}.
4. **Which way is up?** `sudo python3 dog.py --axes` moves nothing and prints what the IMU measures. Lift the nose:
   "nose up" must get positive. Lift the left side: "left side up" must get positive. While you lift the nose, "nose
   goes down" must be negative; while you lift the left side, "rolls right" must be positive; turn it to its left:
   "turns left" must be positive. If a sign is wrong, your IMU is mounted otherwise: change `AXES` in dog.py, and do
   not go on before all five are right.
5. **On a stand**, with its feet in the air: `sudo python3 dog.py --command {example} --seconds 5`. Lay it down with
   its legs as in the manufacturer's pose "lie" first: hobby servos do not say where they are, so the first pulse
   moves them there at full speed, one after the other. It lies still for {rest:g} s, rises in {rise:g} s and walks in
   the air. Feet must move forward in the air and backward below.
6. **On the floor**, the same. A carpet or a mat first; hold your hand over it.

## Stop

Enter, Ctrl-C, closing the terminal or `kill`: it holds for {hold:g} s, lies down in {lie:g} s and releases its
servos. The power switch always works. Numbers and Enter change the command while it walks: {commands}.

## What the safety does

All of it is on, and there is no option to turn it off. After a stop the program ends and says why; start it again.

| what happens | what it does |
|---|---|
| start | lies still for {rest:g} s and measures the gyroscope's offset, rises in {rise:g} s; moved meanwhile, it waits |
| the IMU is silent for {silent:.0f} ms | holds, lies down, releases |
| the IMU or the policy gives NaN or infinity | the same |
| the IMU gives the same sample {stuck} times | the same |
| a tick comes {late:.0f} ms after the one before | the same |
| three writes to the servo board fail in a row | the same, as far as the board still answers |
| it tilts by more than {tilt:g} degrees | releases the servos at once |
| the program dies (`kill -9`, out of memory, an error) | a second process holds, lies down, releases |
| the program hangs for {supervisor:.0f} ms | the second process ends it, and does the same |
| the second process dies | the program holds, lies down, releases |
| always | commands are bounded, and ramped over {ramp:g} s |
| always | angles stay within +-{highest:g} degrees, and change by at most {fastest:.3g} in {period:g} ms |

What it cannot do: if both processes are killed at once, the Raspberry Pi stops or the I2C bus is blocked, the servo
board repeats its last pulses and the dog stands as it is, until you switch it off. Without pulses analogue servos
give way; digital ones may hold. It does not see edges, stairs or fingers.

## Log

Every run writes `log.csv` (`--log`): time, mode, what the IMU measured, the command, angles, pulses. `python3 dog.py
--replay log.csv` computes the pulses again; `condyle deploy policy.cdp -o . --check log.csv` does so with Condyle's
kernel, dog.py, C and ONNX, and compares them.
"""


def readme(deployment: Deployment, onnx: bool) -> str:
    """The text of README.md."""
    data = deployment.data
    safety, limits = data["safety"], data["limits"]
    highs = [high for _, high in data["commands"].values()]
    fields = {
        "task": data["task"],
        "policy": data["policy"],
        "onnx": "| `policy.onnx` | the network alone, float64; `dog.py --onnx policy.onnx` uses it |\n" if onnx else "",
        "example": " ".join(f"{0.5 * high:g}" if k == 0 else "0" for k, high in enumerate(highs)),
        "faults": "`nan`, `stuck`, `tilt`, `late`, `hang` and `kill`",
        "commands": ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in data["commands"].items()),
        "highest": limits["highest"][0],
        "fastest": limits["fastest"],
        "period": 1000.0 / data["rate"],
        "ramp": 1.0 / (limits["command_change"] * data["rate"]),
    }
    in_ms = {name: 1000.0 * safety[name] for name in ("silent", "late", "supervisor")}
    return TEXT.strip().format(**{**safety, **in_ms, "stuck": safety["stuck"] + 1, **fields}) + "\n"
