"""The healthy client next door: bad input on one connection must not disturb any other."""

import itertools
from typing import Self

from broker import Broker
from raw_protocol import Connection


class Neighbour:
    """A publishing and a consuming connection, opened before the trouble starts."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self.publisher = Connection(broker.tcp)
        self.subscriber = Connection(broker.tcp)
        self.subscriber.subscribe(topic, "reader", ready=1)
        self.numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.publisher.close()
        self.subscriber.close()

    def still_works(self) -> None:
        """Publishes one message and consumes it."""
        body = f"still here {next(self.numbers)}".encode()
        self.publisher.publish(self.topic, body)
        message = self.subscriber.next_message()
        assert (message.body, message.attempts) == (body, 1)
        self.subscriber.finish(message)
