"""README.md of the deployed folder: for someone who holds the dog."""

from __future__ import annotations

from condyle.apps.pidog.deploy.deployment import Deployment

TEXT = """
# PiDog with a policy for the task '{task}'

| file | what it is |
|---|---|
| `dog.py` | the program: one file, NumPy and SunFounder's `robot-hat` and `pidog`; Python 3.9 or newer |
| `policy.c`, `policy.h` | the same step as C99, without the safety around it; `replay.c` computes the pulses of a log |
{onnx}
Policy `{policy}`.

## Before it moves

Do these in order, and the next one only when the one before is right. dog.py moves nothing before step 5.

1. **Dry run**, on any computer with NumPy: `python3 dog.py --dry-run --command {example} --seconds 5`. It prints the
   pulses of the eight leg servos, in counts of 20 ms / 4095: 307 is 0 degrees, a count 0.44 degrees. Look at what a
   fault does: `--dry-run --fault silent:4`; others are
   {faults}. Where Condyle is installed, `condyle deploy
   policy.cdp -o . --simulate 10` writes these files again, and dog.py walks on a simulated dog.
2. **Install**, on the Raspberry Pi: SunFounder's `robot-hat` and `pidog` as their manual says, and NumPy. Copy `dog.py`
   there. `sudo python3 dog.py --time` prints the time of a step; it has to be well below {period:g} ms. End every other
   program that moves the dog, also one that starts by itself. Charge the battery: weak servos do not get it up.
3. **Calibrate** the servo horns with SunFounder's `0_calibration.py`, to within 3 degrees: that is what the policy was
   trained for. dog.py reads the offsets that it saves (`~/.config/pidog/pidog.conf`).
4. **Which way is up?** `sudo python3 dog.py --axes` moves nothing and prints for 10 s what the IMU measures; start it
   again as often as you need. Hold the dog level: "nose up" and "left side up" must be within a few degrees of 0.

   | do this | must be positive | must be negative |
   |---|---|---|
   | lift the nose, and hold it | nose up | |
   | while you lift it | | nose goes down |
   | lift the left side, and hold it | left side up | |
   | while you lift it | rolls right | |
   | turn the dog to its left | turns left | |

   If a sign is wrong, your IMU is mounted otherwise: change `AXES` in dog.py, and do not go on before all five are
   right. With a wrong sign it falls at once.
5. **On a stand**: a box below its belly, all feet in the air, nothing within their reach, no fingers.
   `sudo python3 dog.py --command {example} --seconds 5`. Hobby servos do not say where they are: their first pulses move
   the legs, one servo after the other and at full speed, to the pose "lie" (thighs and shins folded, feet forward).
   Then it is still for {rest:g} s and gets up in {rise:g} s: hips turn first, then knees stretch. Nothing may collide.
   Then it walks in the air. Feet must move forward while they are up and backward while they are down, left front
   together with right hind. A leg that sits askew is one to calibrate again; one that moves the wrong way is plugged
   into another pin than SunFounder's manual says. Press Enter while it walks: it must stop. Start it again, and in a
   second terminal `sudo kill -9` the process that dog.py named: the second process must lie it down.
6. **On the floor**: flat, no edge within a metre, a mat for the first time. Lay it on its belly. First
   `sudo python3 dog.py --seconds 5`, without a command: it gets up, stands and lies down. Then `--command {slow}`,
   then faster. Keep a hand above it, and the other one at Enter.
7. **Afterwards**, copy `log.csv` and compute its pulses again, see below. They have to be the same.

## Stop

Enter, Ctrl-C, closing the terminal or `kill`: it walks to a stop within {halt:g} s, stands, lies down in {lie:g} s
and releases its servos. Asked twice, it does not wait for the stop. After a fault it puts its feet down at once, lies
down and releases its servos. The power switch always works. Numbers and Enter change the command while it walks:
{commands}.

## What the safety does

All of it is on, and there is no option to turn it off. After a stop the program ends and says why; start it again.

| what happens | what it does |
|---|---|
| start | lies still for {rest:g} s and measures the gyroscope's offset, rises in {rise:g} s; moved meanwhile, it waits |
| the IMU is silent for {silent:.0f} ms | stands, lies down, releases |
| the IMU or the policy gives NaN or infinity | the same |
| the IMU gives the same sample {stuck} times | the same |
| a tick comes {late:.0f} ms after the one before | the same |
| three writes to the servo board fail in a row | the same, as far as the board still answers |
| it tilts by more than {tilt:g} degrees | releases the servos at once |
| it is tilted by more than {risen:g} degrees after getting up | stands, lies down, releases |
| the program dies (`kill -9`, out of memory, an error) | a second process lets it stand, lie down and release |
| the program hangs for {supervisor:.0f} ms | the second process ends it, and does the same |
| the second process dies | the program stands, lies down, releases |
| always | commands are bounded, and ramped over {ramp:g} s |
| always | angles stay within +-{highest:g} degrees; in {period:g} ms they change by at most {fastest_step:g} |
| getting up, lying down | angles change by at most {fastest:.3g} degrees in {period:g} ms |

What it cannot do: if both processes are killed at once, the Raspberry Pi stops or the I2C bus is blocked, the servo
board repeats its last pulses and the dog stands as it is, until you switch it off. Without pulses analogue servos
give way; digital ones may hold. It does not see edges, stairs or fingers.

## Log

Every run writes `log.csv` (`--log`), a line for each frame of {period:g} ms: time, mode, what the IMU measured, the
command, and the angles and pulses that follow from it. They are written to the servos at the beginning of the next
frame, as in training. `python3 dog.py --replay log.csv` computes the pulses again; `condyle deploy policy.cdp -o .
--check log.csv` does so with Condyle's kernel, dog.py, C and ONNX, and compares them.
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
        "slow": " ".join(f"{0.2 * high:g}" if k == 0 else "0" for k, high in enumerate(highs)),
        "fastest": limits["fastest"],
        "fastest_step": limits["fastest_step"],
        "period": 1000.0 / data["rate"],
        "ramp": 1.0 / (limits["command_change"] * data["rate"]),
    }
    in_ms = {name: 1000.0 * safety[name] for name in ("silent", "late", "supervisor")}
    return TEXT.strip().format(**{**safety, **in_ms, "stuck": safety["stuck"] + 1, **fields}) + "\n"
