"""policy.c and policy.h: the 50 Hz step as C99, traced from the controller and the network, with its weights."""

from __future__ import annotations

import numpy as np

from condyle.apps.pidog.deploy.c_outline import outlined, renamed
from condyle.apps.pidog.deploy.deployment import Deployment
from condyle.tape.export.c import CFunction
from condyle.tape.export.c_frame import FRAME_END, frame, helper, literal
from condyle.tape.tape import Node

LETTERS = 500  # of numbers in a line
LONGEST_STRING = 4000  # C99 guarantees strings of 4095 letters

HEADER = """
/*
 * PiDog's policy for the task '{task}', {rate:g} times a second: IMU and command in, pulses of eight servos out.
 *
 *     double state[POLICY_STATE];
 *     int pulses[8];
 *     policy_start(state);
 *     every {period:g} ms:  give the servos the pulses of the step before, read the IMU, and
 *                   ok = policy_step(rate, acceleration, command, state, pulses, degrees);
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
/*
 * {size:,} numbers, float32. Eight of them are seven words of 32 bits: sign, 23 bits of mantissa, and an exponent of four bits,
 * added to {exponent}; all of them 0 is zero, and numbers that do not fit are exceptions. A word is five letters, in base 85 from
 * '(' on, with '#' for '?' and '$' for a backslash.
 */
static const char *const policy_text[] = {{
{text}
}};
static const struct {{ size_t at; uint32_t bits; }} policy_exceptions[] = {{
{exceptions}
}};

static double policy_numbers[{padded}];

static double policy_number(uint32_t bits)
{{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}}

static void policy_decode(void)
{{
    size_t n = 0;
    uint32_t word, eighth = 0, code;
    for (size_t k = 0; k < sizeof policy_text / sizeof *policy_text; ++k) {{
        for (const char *c = policy_text[k]; *c != '\\0'; c += 5) {{
            word = 0;
            for (int j = 0; j < 5; ++j) {{
                word = 85u * word + (uint32_t)((c[j] == '#' ? '?' : c[j] == '$' ? '\\\\' : c[j]) - '(');
            }}
            eighth |= (word >> 28) << 4 * (n % 8);
            for (code = word & 0xfffffffu;; code = eighth, eighth = 0) {{
                word = (code >> 27) << 31 | ({exponent} + (code >> 23 & 15u)) << 23 | (code & 0x7fffffu);
                policy_numbers[n++] = code == 0 ? 0 : policy_number(word);
                if (n % 8 != 7) break;
            }}
        }}
    }}
    for (size_t k = 0; k < sizeof policy_exceptions / sizeof *policy_exceptions; ++k) {{
        policy_numbers[policy_exceptions[k].at] = policy_number(policy_exceptions[k].bits);
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
    double counts[8], next[POLICY_STATE];
    policy_kernel(rate, acceleration, command, state, {layers}, counts, next);
    for (size_t k = 0; k < 8; ++k) {{
        if (!isfinite(counts[k])) return 0;
    }}
    for (size_t k = 0; k < POLICY_STATE; ++k) {{
        if (!isfinite(next[k])) return 0;
    }}
    memcpy(state, next, sizeof next);
    for (size_t k = 0; k < 8; ++k) pulses[k] = (int)counts[k];
    if (degrees != NULL) memcpy(degrees, state + POLICY_STATE - 8, 8 * sizeof *degrees);
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


class OrderedCFunction(CFunction):
    """C whose products and sums have numbers last, so that repetitions of one function look the same; no result changes."""

    def operation(self, node: Node, operands: list[str], here: str, indent: str, *, inline: bool) -> str:
        """An operation, with its operands in order."""
        if node.op in ("mul", "add", "fma", "eq") and operands[0] in self.literals:
            operands[:2] = operands[1], operands[0]
        return super().operation(node, operands, here, indent, inline=inline)


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
    kernel = OrderedCFunction(deployment.kernel.lowered("f64"), "f64", "policy_kernel")
    body = renamed(outlined([f"static {kernel.prototype('')}", "{", *kernel.lines, "}"], "part"))
    offsets = np.cumsum([0, *(a.size for a in arrays)])[:-1]
    parts = [
        "/* The step of policy.h, traced from PiDog's controller and its network: the same bits as Condyle's kernel. */",
        *frame(kernel.helpers, True),
        *([] if kernel.helpers & {"pow2", "logb"} else ["#include <string.h>"]),
        "",
        '#include "policy.h"',
        _decoder(np.concatenate([a.reshape(-1) for a in arrays])),
        *[line for op in sorted(kernel.helpers) for line in helper(op, False)],
        *body,
        WRAPPER.format(
            first=_rows([literal(float(x), False) for x in state]), layers=", ".join(f"policy_numbers + {k}" for k in offsets)
        ).rstrip(),
        *FRAME_END,
    ]
    return {"policy.c": "\n".join(parts) + "\n", "policy.h": header + "\n", "replay.c": EXAMPLE.strip() + "\n"}


def _decoder(numbers: np.ndarray) -> str:
    """The numbers as text, and the function that reads it."""
    words, exponent, wrong = packed(numbers)
    bits = numbers.astype(np.float32).view(np.uint32)
    exceptions = [f"{{{k}, {bits[k]:#x}u}}," for k in wrong] or [f"{{0, {bits[0]:#x}u}},"]
    lines = [" ".join(exceptions[k : k + 8]) for k in range(0, len(exceptions), 8)]
    return DECODER.format(
        size=len(numbers),
        padded=8 * len(words) // 7,
        exponent=f"{exponent}u",
        text=_strings(base85(words)),
        exceptions="\n".join(f"    {line}" for line in lines),
    )


def packed(numbers: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """(words of 32 bits, seven for eight float32 numbers; the smallest exponent; indices of numbers that do not fit)."""
    bits = np.concatenate([numbers.astype(np.float32).view(np.uint32), np.zeros(-len(numbers) % 8, np.uint32)])
    exponents = (bits >> 23 & 0xFF).astype(int)
    smallest = max(int(exponents.max()) - 15, 0)
    codes = (bits >> 31 << 27) | (np.maximum(exponents - smallest, 0).astype(np.uint32) << 23) | (bits & 0x7FFFFF)
    zero = bits == 0
    wrong = np.flatnonzero(~zero & ((exponents < smallest) | (codes == 0)))
    codes = np.where(zero, 0, codes).reshape(-1, 8)
    quarters = codes[:, 7:] >> np.arange(0, 28, 4, dtype=np.uint32) & 15
    return (codes[:, :7] | quarters << 28).reshape(-1).astype(np.uint32), smallest, wrong


def base85(words: np.ndarray) -> str:
    """Words, five letters each, without quotes, backslashes and question marks, which C gives a meaning."""
    digits = np.stack([words.astype(np.uint64) // 85**k % 85 for k in (4, 3, 2, 1, 0)], axis=-1) + ord("(")
    return digits.astype(np.uint8).tobytes().decode("ascii").replace("?", "#").replace("\\", "$")


def _strings(text: str) -> str:
    """The text as C strings of lines, each short enough for C99."""
    strings = [text[k : k + LONGEST_STRING] for k in range(0, len(text), LONGEST_STRING)]
    lines = [["    " + f'"{s[k : k + LETTERS]}"' for k in range(0, len(s), LETTERS)] for s in strings]
    return ",\n".join("\n".join(each) for each in lines)


def _rows(numbers: list[str]) -> str:
    """Numbers, several in a line."""
    return "\n".join("        " + ", ".join(numbers[k : k + 6]) + "," for k in range(0, len(numbers), 6))
