"""Hosts on a switch, made of network namespaces: each has an interface of its own, and a bridge joins them.

The bridge is in a namespace as well, so nothing of the machine's own network is seen or changed.
"""

import contextlib

from namespace import Namespace

INTERFACE = "eth0"
MULTICAST = "239.0.0.0/8"


class Host(Namespace):
    """A network namespace with an address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address


class Switch:
    """A bridge and its hosts; one per name, addressed 10.77.0.1 and up."""

    def __init__(self, *hosts: str) -> None:
        self._hosts: dict[str, Host] = {}
        with contextlib.ExitStack() as made:
            self._switch = made.enter_context(contextlib.closing(Namespace()))
            self._switch.ip("link add name bridge type bridge", "link set dev bridge up")
            for number, name in enumerate(hosts, start=1):
                self._hosts[name] = made.enter_context(contextlib.closing(Host(f"10.77.0.{number}")))
                self._connect(name)
            self._made = made.pop_all()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def cut(self, host: str) -> None:
        """Takes the host off the switch, at the switch: the host keeps its routes, as with a cable pulled out."""
        self._switch.ip(f"link set dev {host} down")

    def restore(self, host: str) -> None:
        """Puts the host back."""
        self._switch.ip(f"link set dev {host} up")

    def close(self) -> None:
        """Takes everything apart."""
        self._made.close()

    def _connect(self, name: str) -> None:
        host = self._hosts[name]
        self._switch.ip(
            f"link add name {name} type veth peer name {INTERFACE} netns {host.path}",
            f"link set dev {name} master bridge up",
        )
        host.ip(
            f"address add {host.address}/24 dev {INTERFACE}",
            f"link set dev {INTERFACE} up",
            # There is no default route that would tell the way to a group.
            f"route add {MULTICAST} dev {INTERFACE}",
        )
