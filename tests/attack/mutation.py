"""Damages bytes in the ways that disks, networks and attackers do, from a seed."""

import struct

import numpy as np

#: Numbers at which sizes and counts go wrong.
_EDGES = (0, 1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)


def mutated(content: bytes, dice: np.random.Generator) -> bytes:
    """The content with one to four changes."""
    damaged = bytearray(content)
    for _ in range(int(dice.integers(1, 5))):
        change = _CHANGES[dice.integers(len(_CHANGES))]
        change(damaged, dice)
    return bytes(damaged)


def _place(content: bytearray, dice: np.random.Generator) -> int:
    """Any place, half of the time in the first hundred bytes, where the headers are."""
    most = len(content) if dice.random() < 0.5 else min(100, len(content))
    return int(dice.integers(most)) if most else 0


def _flip_bit(content: bytearray, dice: np.random.Generator) -> None:
    if content:
        content[_place(content, dice)] ^= 1 << int(dice.integers(8))


def _set_bytes(content: bytearray, dice: np.random.Generator) -> None:
    at, count = _place(content, dice), int(dice.integers(1, 9))
    content[at : at + count] = dice.bytes(len(content[at : at + count]))


def _set_number(content: bytearray, dice: np.random.Generator) -> None:
    at, order = _place(content, dice), "<>"[dice.integers(2)]
    packed = struct.pack(f"{order}I", _EDGES[dice.integers(len(_EDGES))])
    width = int(dice.choice([1, 2, 4]))
    packed = packed[-width:] if order == ">" else packed[:width]
    content[at : at + width] = packed[: len(content[at : at + width])]


def _cut(content: bytearray, dice: np.random.Generator) -> None:
    del content[_place(content, dice) :]


def _remove(content: bytearray, dice: np.random.Generator) -> None:
    at = _place(content, dice)
    del content[at : at + int(dice.integers(1, 64))]


def _repeat(content: bytearray, dice: np.random.Generator) -> None:
    at, length = _place(content, dice), int(dice.integers(1, 64))
    content[at:at] = content[at : at + length] * int(dice.integers(1, 20))


def _move(content: bytearray, dice: np.random.Generator) -> None:
    source, target, length = _place(content, dice), _place(content, dice), int(dice.integers(1, 64))
    content[target : target + length] = content[source : source + length]


_CHANGES = (_flip_bit, _flip_bit, _set_bytes, _set_number, _cut, _remove, _repeat, _move)
