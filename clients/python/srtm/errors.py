"""What a publisher tells the program. Values that no broker would accept are a :class:`ValueError` instead."""


class SrtmError(Exception):
    """Everything below."""


class MessageRefused(SrtmError):
    """A broker refused an earlier message for what it is (size, topic, a limit that rejects); it is not sent again."""


class NotPlaced(SrtmError):
    """The controller will not place this publisher, and says why; trying again is of no use."""


class BrokerLost(SrtmError):
    """A connection failed, broke or broke the protocol. The publisher deals with it; programs do not see it."""

    def __init__(self, reason: str, may_return: bool = False) -> None:
        super().__init__(reason)
        #: The broker lives: the next connection may go there as well.
        self.may_return = may_return


class ControllerFailed(SrtmError):
    """The controller is out of reach or cannot answer now. The publisher tries again; programs do not see it."""
