"""BLAKE3 of up to 1,024 bytes, keyed or for a key of one purpose: what a link's proofs and tags are made of."""

import struct

_START = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
_ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
"""Which word of the message is where in the next round."""

_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_FIRST, _LAST, _WHOLE, _KEYED, _CONTEXT, _MATERIAL = 1, 2, 8, 16, 32, 64
_BLOCK_BYTES, _BYTES_MAX = 64, 1024
_MASK = 0xFFFFFFFF


def keyed(key: bytes, *parts: bytes) -> bytes:
    """32 bytes over all parts, which only who has `key` can make."""
    return _hash(struct.unpack("<8I", key), b"".join(parts), _KEYED)


def derived(key: bytes, purpose: str) -> bytes:
    """A key of its own for one purpose."""
    context = _hash(_START, purpose.encode(), _CONTEXT)
    return _hash(struct.unpack("<8I", context), key, _MATERIAL)


def _hash(key: tuple[int, ...], words: bytes, kind: int) -> bytes:
    assert len(words) <= _BYTES_MAX, "longer ones are trees"
    blocks = [words[at : at + _BLOCK_BYTES] for at in range(0, len(words), _BLOCK_BYTES)] or [b""]
    for number, block in enumerate(blocks):
        is_last = number == len(blocks) - 1
        flags = kind | (_FIRST if number == 0 else 0) | (_LAST | _WHOLE if is_last else 0)
        key = _compressed(key, block, flags)
    return struct.pack("<8I", *key)


def _compressed(key: tuple[int, ...], block: bytes, flags: int) -> tuple[int, ...]:
    message = list(struct.unpack("<16I", block.ljust(_BLOCK_BYTES, b"\0")))
    state = [*key, *_START[:4], 0, 0, len(block), flags]
    for _ in range(7):
        for number, places in enumerate(_COLUMNS + _DIAGONALS):
            _mix(state, places, message[2 * number], message[2 * number + 1])
        message = [message[at] for at in _ORDER]
    return tuple(state[at] ^ state[at + 8] for at in range(8))


def _mix(state: list[int], places: tuple[int, ...], first: int, second: int) -> None:
    a, b, c, d = places
    for word, turns in ((first, (16, 12)), (second, (8, 7))):
        state[a] = (state[a] + state[b] + word) & _MASK
        state[d] = _turned(state[d] ^ state[a], turns[0])
        state[c] = (state[c] + state[d]) & _MASK
        state[b] = _turned(state[b] ^ state[c], turns[1])


def _turned(word: int, right: int) -> int:
    return (word >> right | word << (32 - right)) & _MASK
