"""The tools of this folder, tried on the mildest of attacks: many connections that publish and read their answers."""

from collections.abc import Callable

from broker import Broker
from raw_protocol import Connection
from siege import Force, Siege


def test_well_behaved_clients_are_no_siege(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, topic: str
) -> None:
    broker = start_broker()
    with siege(broker) as attack:
        for _ in range(force.of(20, 500)):
            with Connection(broker.tcp) as connection:
                connection.publish(topic, b"x")
            attack.look()
    assert broker.topic(topic)["message_count"] == force.of(20, 500)
