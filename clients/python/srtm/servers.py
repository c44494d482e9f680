"""Which of several controllers is asked: in turn, and the one that leads first where that is known."""

from collections.abc import Iterator

#: Leaders outside of the list that one question is led to at most.
_STRANGERS_MAX = 4


class Servers:
    """Controllers of which one leads, as a list with commas between them. Whoever answered last is asked first."""

    def __init__(self, addresses: str, scheme: str = "http") -> None:
        self._scheme = scheme
        named = [address.strip() for address in addresses.split(",")]
        self._bases = [_with_scheme(address, scheme) for address in named if address] or [_with_scheme("", scheme)]
        self._last = self._bases[0]

    def turn(self) -> "Turn":
        """One question's way through them."""
        place = self._bases.index(self._last) if self._last in self._bases else 0
        in_order = self._bases[place:] + self._bases[:place]
        return Turn([self._last, *(base for base in in_order if base != self._last)], self._scheme)

    def answered(self, base: str) -> None:
        """This one has answered."""
        self._last = base


class Turn(Iterator[str]):
    """The next to be asked; none twice."""

    def __init__(self, to_ask: list[str], scheme: str) -> None:
        self._to_ask, self._scheme = to_ask, scheme
        self._asked: set[str] = set()
        self._strangers = 0

    def __next__(self) -> str:
        if not self._to_ask:
            raise StopIteration
        base = self._to_ask.pop(0)
        self._asked.add(base)
        return base

    def led_to(self, leader: str) -> None:
        """The one that was asked last does not lead, and says that this one does: it is next."""
        base = _with_scheme(leader, self._scheme)
        if base in self._asked:
            return
        if base in self._to_ask:
            self._to_ask.remove(base)
        elif self._strangers < _STRANGERS_MAX:
            self._strangers += 1
        else:
            return
        self._to_ask.insert(0, base)


def _with_scheme(address: str, scheme: str) -> str:
    base = address.rstrip("/")
    return base if "://" in base else f"{scheme}://{base}"
