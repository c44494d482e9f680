"""The table of malformed HTTP requests and of the status and message that each must get.

Expected answers are what nsqd 1.3.0 gives.
"""

import struct
from dataclasses import dataclass

from malformed_commands import MAX_BODY_BYTES, MAX_MSG_BYTES
from raw_protocol import batch


@dataclass(frozen=True)
class BadRequest:
    """One request; `{topic}` stands for a topic that exists and has the channel `reader`."""

    name: str
    method: str
    target: str
    status: int
    message: str
    body: bytes = b""
    declared_bytes: int | None = None
    """Sent as Content-Length in place of the body's own length: the answer must not wait for the body."""


def post(name: str, target: str, status: int, message: str, body: bytes = b"", **more: int) -> BadRequest:
    """A row for POST."""
    return BadRequest(name, "POST", target, status, message, body, **more)


ROUTES = [
    BadRequest("unknown_route", "GET", "/nowhere", 404, "NOT_FOUND"),
    BadRequest("unknown_route_below_a_known_one", "GET", "/stats/more", 404, "NOT_FOUND"),
    BadRequest("root", "GET", "/", 404, "NOT_FOUND"),
    BadRequest("old_route", "POST", "/create_topic?topic={topic}", 404, "NOT_FOUND"),
    BadRequest("get_pub", "GET", "/pub?topic={topic}", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("put_pub", "PUT", "/pub?topic={topic}", 405, "METHOD_NOT_ALLOWED", b"x"),
    BadRequest("get_mpub", "GET", "/mpub?topic={topic}", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("post_ping", "POST", "/ping", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("post_info", "POST", "/info", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("post_stats", "POST", "/stats", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("get_topic_create", "GET", "/topic/create?topic={topic}", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("delete_topic_delete", "DELETE", "/topic/delete?topic={topic}", 405, "METHOD_NOT_ALLOWED"),
    BadRequest("delete_config", "DELETE", "/config/log_level", 405, "METHOD_NOT_ALLOWED"),
]

PUBLISHING = [
    post("pub_without_topic", "/pub", 400, "MISSING_ARG_TOPIC", b"x"),
    post("pub_empty_topic", "/pub?topic=", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_up_a_folder", "/pub?topic=../x", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_up_a_folder_encoded", "/pub?topic=..%2Fx", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_with_space", "/pub?topic=a+b", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_with_nul", "/pub?topic=a%00b", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_not_utf8", "/pub?topic=%ff", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_of_65", f"/pub?topic={'t' * 65}", 400, "INVALID_TOPIC", b"x"),
    post("pub_topic_bad_suffix", "/pub?topic=a%23eph", 400, "INVALID_TOPIC", b"x"),
    post("pub_bad_escape", "/pub?topic=%zz", 400, "INVALID_REQUEST", b"x"),
    post("pub_semicolon", "/pub?topic={topic};defer=1", 400, "INVALID_REQUEST", b"x"),
    post("pub_empty", "/pub?topic={topic}", 400, "MSG_EMPTY"),
    post("pub_empty_comes_before_topic", "/pub", 400, "MSG_EMPTY"),
    post("pub_one_byte_too_big", "/pub?topic={topic}", 413, "MSG_TOO_BIG", declared_bytes=MAX_MSG_BYTES + 1),
    post("pub_defer_word", "/pub?topic={topic}&defer=soon", 400, "INVALID_DEFER", b"x"),
    post("pub_defer_minus_1", "/pub?topic={topic}&defer=-1", 400, "INVALID_DEFER", b"x"),
    post("pub_defer_empty", "/pub?topic={topic}&defer=", 400, "INVALID_DEFER", b"x"),
    post("pub_defer_too_long", "/pub?topic={topic}&defer=3600001", 400, "INVALID_DEFER", b"x"),
    post("pub_defer_fraction", "/pub?topic={topic}&defer=1.5", 400, "INVALID_DEFER", b"x"),
    post("mpub_without_topic", "/mpub", 400, "MISSING_ARG_TOPIC", b"x"),
    post("mpub_bad_topic", "/mpub?topic=a*b", 400, "INVALID_TOPIC", b"x"),
    post("mpub_body_too_big", "/mpub?topic={topic}", 413, "BODY_TOO_BIG", declared_bytes=MAX_BODY_BYTES + 1),
    post("mpub_body_absurd", "/mpub?topic={topic}", 413, "BODY_TOO_BIG", declared_bytes=2**62),
    post("mpub_line_too_big", "/mpub?topic={topic}", 413, "MSG_TOO_BIG", b"a\n" + b"x" * (MAX_MSG_BYTES + 1)),
    post("mpub_binary_empty", "/mpub?topic={topic}&binary=true", 413, "BAD_BODY"),
    post("mpub_binary_count_0", "/mpub?topic={topic}&binary=true", 413, "BAD_BODY", batch()),
    post("mpub_binary_count_minus_1", "/mpub?topic={topic}&binary=1", 413, "BAD_BODY", struct.pack(">i", -1)),
    post("mpub_binary_no_size", "/mpub?topic={topic}&binary=1", 413, "BAD_MESSAGE", batch(declared_count=1)),
    post("mpub_binary_empty_message", "/mpub?topic={topic}&binary=1", 413, "BAD_MESSAGE", batch(b"x", b"")),
    post("mpub_binary_cut_short", "/mpub?topic={topic}&binary=1", 413, "BAD_MESSAGE", batch(b"xyz")[:-1]),
    post("mpub_binary_odd_value_is_true", "/mpub?topic={topic}&binary=yes", 413, "BAD_BODY", b"\0\0"),
    post(
        "mpub_binary_message_too_big",
        "/mpub?topic={topic}&binary=1",
        413,
        "BAD_MESSAGE",
        struct.pack(">ii", 1, MAX_MSG_BYTES + 1),
    ),
]

TOPICS_AND_CHANNELS = [
    post("topic_create_without_topic", "/topic/create", 400, "MISSING_ARG_TOPIC"),
    post("topic_create_bad_topic", "/topic/create?topic=../x", 400, "INVALID_TOPIC"),
    post("topic_empty_bad_topic", "/topic/empty?topic=a/b", 400, "INVALID_TOPIC"),
    *(
        post(f"topic_{action}_without_topic", f"/topic/{action}", 400, "MISSING_ARG_TOPIC")
        for action in ("delete", "empty", "pause", "unpause")
    ),
    *(
        post(f"topic_{action}_unknown", f"/topic/{action}?topic=none_such", 404, "TOPIC_NOT_FOUND")
        for action in ("delete", "empty", "pause", "unpause")
    ),
    *(
        row
        for action in ("create", "delete", "empty", "pause", "unpause")
        for row in (
            post(f"channel_{action}_without_topic", f"/channel/{action}", 400, "MISSING_ARG_TOPIC"),
            post(f"channel_{action}_bad_topic", f"/channel/{action}?topic=../x", 400, "INVALID_ARG_TOPIC"),
            post(f"channel_{action}_without_channel", f"/channel/{action}?topic={{topic}}", 400, "MISSING_ARG_CHANNEL"),
            post(
                f"channel_{action}_bad_channel",
                f"/channel/{action}?topic={{topic}}&channel=a/b",
                400,
                "INVALID_ARG_CHANNEL",
            ),
            post(
                f"channel_{action}_of_no_topic", f"/channel/{action}?topic=none_such&channel=c", 404, "TOPIC_NOT_FOUND"
            ),
        )
    ),
    *(
        post(
            f"channel_{action}_unknown",
            f"/channel/{action}?topic={{topic}}&channel=none_such",
            404,
            "CHANNEL_NOT_FOUND",
        )
        for action in ("delete", "empty", "pause", "unpause")
    ),
    post("topic_pause_bad_escape", "/topic/pause?topic=%", 400, "INVALID_REQUEST"),
    BadRequest("stats_bad_escape", "GET", "/stats?topic=%g1", 400, "INVALID_REQUEST"),
]

CONFIG = [
    BadRequest("config_get_unknown", "GET", "/config/none_such", 400, "INVALID_OPTION"),
    BadRequest("config_put_unknown", "PUT", "/config/none_such", 400, "INVALID_OPTION", b"x"),
    BadRequest("config_put_fixed", "PUT", "/config/mem_queue_size", 400, "INVALID_OPTION", b"5"),
    BadRequest("config_put_bad_level", "PUT", "/config/log_level", 400, "INVALID_VALUE", b"loud"),
    BadRequest("config_put_nothing", "PUT", "/config/log_level", 413, "INVALID_VALUE"),
    BadRequest("config_put_bad_lookupds", "PUT", "/config/nsqlookupd_tcp_addresses", 400, "INVALID_VALUE", b"{"),
]

ROWS = [*ROUTES, *PUBLISHING, *TOPICS_AND_CHANNELS, *CONFIG]
