"""Which subroutines are code of their own, linked to every kernel that calls them: a matter of cost, which changes no bit.

A long body takes seconds to compile and a nanosecond to call, so it is compiled once. A short one costs less in its place, where
equal operations are one with those around it.
"""

from __future__ import annotations

import struct

from condyle.tape.cache import shared_cache
from condyle.tape.layout import weight
from condyle.tape.passes import lower
from condyle.tape.tape import Block, Port, Subroutine, Tape, subroutines
from condyle.tape.trace_cache import source_hash

LINKED = 2000  # operations of a body, from which on it is linked


def is_linked(call: Subroutine, precision: str) -> bool:
    """Whether a subroutine is linked: it is long, and takes and gives numbers."""
    if any(port.table for port in (*call.tape.inputs, *call.tape.outputs)):
        return False
    key = f"weight {source_hash('condyle.tape.passes', 'condyle.tape.layout')} {call.tape.hash} {precision}"
    stored = shared_cache().found(key, lambda: struct.pack("<q", weight(lower(alone(call), precision).block)))
    return int(struct.unpack("<q", stored)[0]) >= LINKED


def lower_linked(tape: Tape, precision: str, *, limbs: bool = False) -> Tape:
    """The lowered tape with calls of the subroutines that are linked; numbers of limbs stay only if there are none."""
    if not _calls_linked(tape.block, precision):
        return lower(tape, precision, limbs=limbs)
    return lower(tape, precision, keep=is_linked)


def _calls_linked(block: Block, precision: str) -> bool:
    """Whether some subroutine that a block calls, or that those call which are not linked, is linked."""
    return any(is_linked(call, precision) or _calls_linked(call.body, precision) for call in subroutines(block))


def alone(call: Subroutine) -> Tape:
    """A subroutine as a tape whose outputs are numbers, one for each result (kept)."""
    tape, known = call.tape, call.tape.__dict__
    if "_alone" not in known:
        outputs = [Port(f"out{k}", ()) for k in range(len(tape.block.results))]
        known["_alone"] = Tape(tape.name, tape.block, tape.inputs, tuple(outputs))
    found: Tape = known["_alone"]
    return found
