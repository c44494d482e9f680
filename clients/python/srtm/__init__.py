"""Publisher for SRTM, with asyncio and nothing beyond the standard library.

A :class:`Publisher` asks a controller where to publish, follows when it is moved, and sends again what a broker that
died had not acknowledged.
"""

from .errors import MessageRefused, NotPlaced, SrtmError
from .options import Options
from .publisher import Publisher, Throttled, Traffic

__all__ = ["MessageRefused", "NotPlaced", "Options", "Publisher", "SrtmError", "Throttled", "Traffic"]
