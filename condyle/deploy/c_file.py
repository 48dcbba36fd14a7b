"""policy.c and policy.h: the 50 Hz step as C99, traced from the controller and the network, with its weights."""

from __future__ import annotations

import numpy as np

from condyle.deploy.c_outline import outlined, renamed
from condyle.deploy.deployment import Deployment
from condyle.tape.export.c import CFunction
from condyle.tape.export.c_frame import FRAME_END, frame, helper

LETTERS = 500  # of numbers in a line
LONGEST_STRING = 4000  # C99 guarantees strings of 4095 letters

HEADER = """
/*
 * PiDog's policy for the task '{task}', {rate:g} times a second: IMU and command in, pulses of eight servos out.
 *
 *     double state[POLICY_STATE];
 *     int pulses[8];
 *     policy_start(state);
 *     every {period:g} ms:  ok = policy_step(rate, acceleration, command, state, pulses, degrees);
 *
 *   rate          x forward, y left, z up; rad/s
 *   acceleration  specific force in the same axes, m/s^2: (0, 0, 9.81) at rest
 *   command       {commands}
 *   pulses        in counts of 20 ms / 4095, for {joints}
 *   degrees       the same as servo angles; NULL if they are not needed
 *
 * Commands are bounded and ramped, angles clamped, and their rates limited. policy_step returns 0, and changes nothing, if a
 * number is not finite. Nothing else is supervised here: silence of the IMU, tilt and time are the caller's, as in dog.py.
 *
 * Compile with  cc -std=c99 -O2 -c policy.c  and link with -lm. No allocation; {memory:,} bytes of static memory.
 * Policy {policy}
 */
#ifndef POLICY_H
#define POLICY_H

#define POLICY_STATE {state}
#define POLICY_COMMANDS {count}

#ifdef __cplusplus
extern "C" {{
#endif

void policy_start(double *state);
int policy_step(const double *rate, const double *acceleration, const double *command, double *state, int *pulses,
                double *degrees);

#ifdef __cplusplus
}}
#endif

#endif
"""

DECODER = """
/* {size:,} numbers, float32: five letters each, in base 85 from '(' on; '#' stands for '?', and '$' for a backslash */
static const char *const policy_text[] = {{
{text}
}};

static double policy_numbers[{size}];

static void policy_decode(void)
{{
    size_t n = 0;
    for (size_t k = 0; k < sizeof policy_text / sizeof *policy_text; ++k) {{
        for (const char *c = policy_text[k]; *c != '\\0'; c += 5) {{
            uint32_t word = 0;
            float number;
            for (int j = 0; j < 5; ++j) {{
                word = 85u * word + (uint32_t)((c[j] == '#' ? '?' : c[j] == '$' ? '\\\\' : c[j]) - '(');
            }}
            memcpy(&number, &word, sizeof number);
            policy_numbers[n++] = number;
        }}
    }}
}}
"""

WRAPPER = """
void policy_start(double *state)
{{
    static const double first[POLICY_STATE] = {{
{first}
    }};
    policy_decode();
    memcpy(state, first, sizeof first);
}}

int policy_step(const double *rate, const double *acceleration, const double *command, double *state, int *pulses,
                double *degrees)
{{
    double counts[8], angles[8], next[POLICY_STATE];
    policy_kernel(rate, acceleration, command, state, {layers}, counts, angles, next);
    for (size_t k = 0; k < 8; ++k) {{
        if (!isfinite(counts[k])) return 0;
    }}
    for (size_t k = 0; k < POLICY_STATE; ++k) {{
        if (!isfinite(next[k])) return 0;
    }}
    memcpy(state, next, sizeof next);
    for (size_t k = 0; k < 8; ++k) pulses[k] = (int)counts[k];
    if (degrees != NULL) memcpy(degrees, angles, sizeof angles);
    return 1;
}}
"""

EXAMPLE = r"""
/*
 * Pulses for a log of dog.py, one line per step:  cc -std=c99 -O2 policy.c replay.c -lm -o replay && ./replay < log.csv
 * The log's lines are  time, mode, rate (3), acceleration (3), command (POLICY_COMMANDS), ...; those of the mode "walk" are used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

int main(void)
{
    static char line[4096];
    double state[POLICY_STATE], in[6 + POLICY_COMMANDS], degrees[8];
    int pulses[8];
    policy_start(state);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *at = strchr(line, ',');
        if (at == NULL || strncmp(at, ",walk,", 6) != 0) continue;
        at += 6;
        for (int k = 0; k < 6 + POLICY_COMMANDS; ++k) {
            in[k] = strtod(at, &at);
            at += *at == ',';
        }
        if (!policy_step(in, in + 3, in + 6, state, pulses, degrees)) {
            fputs("a number is not finite\n", stderr);
            return 1;
        }
        for (int k = 0; k < 8; ++k) printf("%d,", pulses[k]);
        for (int k = 0; k < 8; ++k) printf("%a%c", degrees[k], k < 7 ? ',' : '\n');
    }
    return 0;
}
"""


def c_files(deployment: Deployment) -> dict[str, str]:
    """{"policy.c", "policy.h", "replay.c": their texts}."""
    data, arrays = deployment.data, list(deployment.arrays.values())
    size = sum(a.size for a in arrays)
    state = np.concatenate([x.reshape(-1) for x in deployment.state().values()])
    header = HEADER.strip().format(
        task=data["task"],
        rate=data["rate"],
        period=1000.0 / data["rate"],
        commands=", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in data["commands"].items()),
        joints=", ".join(data["joints"]),
        policy=data["policy"],
        state=len(state),
        count=len(data["commands"]),
        memory=8 * size,
    )
    kernel = CFunction(deployment.kernel.lowered("f64"), "f64", "policy_kernel")
    functions, lines = outlined(kernel.lines, "part")
    body = [f"static {kernel.prototype('restrict ')}", "{", *renamed(lines), "}"]
    offsets = np.cumsum([0, *(a.size for a in arrays)])[:-1]
    parts = [
        "/* The step of policy.h, traced from PiDog's controller and its network: the same bits as Condyle's kernel. */",
        *frame(kernel.helpers, True),
        *([] if kernel.helpers & {"pow2", "logb"} else ["#include <string.h>"]),
        "",
        '#include "policy.h"',
        DECODER.format(size=size, text=_strings(base85(np.concatenate([a.reshape(-1) for a in arrays])))),
        *[line for op in sorted(kernel.helpers) for line in helper(op, False)],
        *functions,
        *body,
        WRAPPER.format(
            first=_rows([float(x).hex() for x in state]), layers=", ".join(f"policy_numbers + {k}" for k in offsets)
        ).rstrip(),
        *FRAME_END,
    ]
    return {"policy.c": "\n".join(parts) + "\n", "policy.h": header + "\n", "replay.c": EXAMPLE.strip() + "\n"}


def base85(numbers: np.ndarray) -> str:
    """Numbers in float32, five letters each, without quotes, backslashes and question marks, which C gives a meaning."""
    words = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    digits = np.stack([words // 85**k % 85 for k in (4, 3, 2, 1, 0)], axis=-1) + ord("(")
    return digits.astype(np.uint8).tobytes().decode("ascii").replace("?", "#").replace("\\", "$")


def _strings(text: str) -> str:
    """The text as C strings of lines, each short enough for C99."""
    strings = [text[k : k + LONGEST_STRING] for k in range(0, len(text), LONGEST_STRING)]
    lines = [["    " + f'"{s[k : k + LETTERS]}"' for k in range(0, len(s), LETTERS)] for s in strings]
    return ",\n".join("\n".join(each) for each in lines)


def _rows(numbers: list[str]) -> str:
    """Numbers, several in a line."""
    return "\n".join("        " + ", ".join(numbers[k : k + 6]) + "," for k in range(0, len(numbers), 6))
