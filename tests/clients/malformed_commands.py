"""The table of malformed NSQ commands and of the error frame that each must get.

Expected texts are what nsqd 1.3.0 answers. Rows marked `srtm_only` are places where nsqd is silent, lenient or wrong
and SRTM answers better, as docs/protocol.md says.
"""

import json
import struct
from dataclasses import dataclass

from raw_protocol import MAGIC, batch, sized

MAX_MSG_BYTES = 1024 * 1024
MAX_BODY_BYTES = 5 * 1024 * 1024
SUBSCRIBED = b"SUB {topic} reader\n"
UNKNOWN_ID = b"0123456789abcdef"


@dataclass(frozen=True)
class Malformed:
    """One malformed input: `before` is sent first and answered by OK, then `sent` must get the error `answer`.

    After a fatal error the broker closes the connection; after another one the connection must still work.
    """

    name: str
    sent: bytes
    answer: str
    before: tuple[bytes, ...] = ()
    fatal: bool = True
    magic: bytes = MAGIC
    srtm_only: bool = False


def identify(document: object) -> bytes:
    """IDENTIFY with any JSON document."""
    return b"IDENTIFY\n" + sized(json.dumps(document).encode())


def size_only(line: bytes, size: int) -> bytes:
    """A command that declares a body size and sends no body: the answer must not wait for it."""
    return line + struct.pack(">i", size)


def in_state(name: str, sent: bytes, answer: str, *, fatal: bool = True) -> Malformed:
    """A row for a connection that has subscribed."""
    return Malformed(name, sent, answer, before=(SUBSCRIBED,), fatal=fatal)


MAGICS = [
    Malformed(f"magic_{magic!r}", b"", "E_BAD_PROTOCOL", magic=magic)
    for magic in (b"  V1", b" V2 ", b"\0\0\0\0", b"GET ", b"\x16\x03\x01\x02")
] + [Malformed("http_on_the_tcp_port", b"/ping HTTP/1.1\r\nHost: x\r\n\r\n", "E_BAD_PROTOCOL", magic=b"GET ")]

LINES = [
    Malformed("unknown_command", b"FOO\n", "E_INVALID invalid command FOO"),
    Malformed("empty_line", b"\n", "E_INVALID invalid command "),
    Malformed("lower_case", b"pub {topic}\n" + sized(b"x"), "E_INVALID invalid command pub"),
    Malformed("leading_space", b" PUB {topic}\n" + sized(b"x"), "E_INVALID invalid command "),
    Malformed("two_carriage_returns", b"NOP\r\r\n", "E_INVALID invalid command NOP\r"),
    Malformed(
        "line_of_20_kib", b"A" * 20_480, "E_INVALID line too long, no newline within 16384 bytes", srtm_only=True
    ),
]

NAMES = [
    Malformed("pub_without_topic", b"PUB\n", "E_INVALID PUB insufficient number of parameters"),
    Malformed("pub_two_spaces", b"PUB  {topic}\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "" is not valid'),
    Malformed("pub_topic_with_slash", b"PUB ../x\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "../x" is not valid'),
    Malformed("pub_topic_with_bang", b"PUB a!b\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "a!b" is not valid'),
    Malformed("pub_topic_with_quote", b'PUB a"b\n' + sized(b"x"), 'E_BAD_TOPIC PUB topic name "a\\"b" is not valid'),
    Malformed("pub_topic_with_tab", b"PUB a\tb\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "a\\tb" is not valid'),
    Malformed("pub_topic_with_nul", b"PUB a\0b\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "a\\x00b" is not valid'),
    Malformed("pub_topic_not_utf8", b"PUB \xff\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "\\xff" is not valid'),
    Malformed(
        "pub_topic_not_ascii",
        "PUB caf\u00e9\n".encode() + sized(b"x"),
        'E_BAD_TOPIC PUB topic name "caf\u00e9" is not valid',
    ),
    Malformed(
        "pub_topic_of_65",
        b"PUB " + b"t" * 65 + b"\n" + sized(b"x"),
        f'E_BAD_TOPIC PUB topic name "{"t" * 65}" is not valid',
    ),
    Malformed("pub_topic_bad_suffix", b"PUB a#eph\n" + sized(b"x"), 'E_BAD_TOPIC PUB topic name "a#eph" is not valid'),
    Malformed("mpub_without_topic", b"MPUB\n", "E_INVALID MPUB insufficient number of parameters"),
    Malformed(
        "mpub_bad_topic",
        b"MPUB a*b\n" + sized(batch(b"x")),
        'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "a*b" is not valid',
    ),
    Malformed("dpub_without_delay", b"DPUB {topic}\n", "E_INVALID DPUB insufficient number of parameters"),
    Malformed("dpub_bad_topic", b"DPUB a*b 1\n" + sized(b"x"), 'E_BAD_TOPIC DPUB topic name "a*b" is not valid'),
    Malformed("sub_without_channel", b"SUB {topic}\n", "E_INVALID SUB insufficient number of parameters"),
    Malformed("sub_bad_topic", b"SUB a$b c\n", 'E_BAD_TOPIC SUB topic name "a$b" is not valid'),
    Malformed("sub_bad_channel", b"SUB {topic} c/d\n", 'E_BAD_CHANNEL SUB channel name "c/d" is not valid'),
    Malformed("sub_empty_channel", b"SUB {topic} \n", 'E_BAD_CHANNEL SUB channel name "" is not valid'),
]

SIZES = [
    Malformed("pub_size_0", size_only(b"PUB {topic}\n", 0), "E_BAD_MESSAGE PUB invalid message body size 0"),
    Malformed("pub_size_minus_1", size_only(b"PUB {topic}\n", -1), "E_BAD_MESSAGE PUB invalid message body size -1"),
    Malformed(
        "pub_size_least",
        size_only(b"PUB {topic}\n", -(2**31)),
        "E_BAD_MESSAGE PUB invalid message body size -2147483648",
    ),
    Malformed(
        "pub_one_byte_too_big",
        size_only(b"PUB {topic}\n", MAX_MSG_BYTES + 1),
        f"E_BAD_MESSAGE PUB message too big {MAX_MSG_BYTES + 1} > {MAX_MSG_BYTES}",
    ),
    Malformed(
        "pub_size_greatest",
        size_only(b"PUB {topic}\n", 2**31 - 1),
        f"E_BAD_MESSAGE PUB message too big 2147483647 > {MAX_MSG_BYTES}",
    ),
    Malformed("dpub_size_0", size_only(b"DPUB {topic} 5\n", 0), "E_BAD_MESSAGE DPUB invalid message body size 0"),
    Malformed(
        "dpub_too_big",
        size_only(b"DPUB {topic} 5\n", MAX_MSG_BYTES + 1),
        f"E_BAD_MESSAGE DPUB message too big {MAX_MSG_BYTES + 1} > {MAX_MSG_BYTES}",
    ),
    Malformed("mpub_size_0", size_only(b"MPUB {topic}\n", 0), "E_BAD_BODY MPUB invalid body size 0"),
    Malformed("mpub_size_minus_1", size_only(b"MPUB {topic}\n", -1), "E_BAD_BODY MPUB invalid body size -1"),
    Malformed(
        "mpub_too_big",
        size_only(b"MPUB {topic}\n", MAX_BODY_BYTES + 1),
        f"E_BAD_BODY MPUB body too big {MAX_BODY_BYTES + 1} > {MAX_BODY_BYTES}",
    ),
    Malformed("mpub_count_0", b"MPUB {topic}\n" + sized(batch()), "E_BAD_BODY MPUB invalid message count 0"),
    Malformed(
        "mpub_count_minus_1",
        b"MPUB {topic}\n" + sized(batch(b"x", declared_count=-1)),
        "E_BAD_BODY MPUB invalid message count -1",
    ),
    Malformed(
        "mpub_count_huge",
        b"MPUB {topic}\n" + sized(batch(b"x", declared_count=2**30)),
        "E_BAD_BODY MPUB invalid message count 1073741824",
    ),
    Malformed(
        "mpub_empty_message",
        b"MPUB {topic}\n" + sized(batch(b"xyz", b"")),
        "E_BAD_MESSAGE MPUB invalid message(1) body size 0",
    ),
    Malformed(
        "mpub_message_size_minus_2",
        b"MPUB {topic}\n" + sized(struct.pack(">ii", 1, -2) + b"x"),
        "E_BAD_MESSAGE MPUB invalid message(0) body size -2",
    ),
    Malformed(
        "mpub_message_too_big",
        b"MPUB {topic}\n" + sized(batch(b"x" * (MAX_MSG_BYTES + 1))),
        f"E_BAD_MESSAGE MPUB message too big {MAX_MSG_BYTES + 1} > {MAX_MSG_BYTES}",
    ),
    Malformed(
        "mpub_body_longer_than_its_messages",
        b"MPUB {topic}\n" + sized(batch(b"xyz") + b"rest"),
        "E_BAD_BODY MPUB body size 15 but 1 messages end 4 bytes before",
        srtm_only=True,
    ),
    Malformed(
        "mpub_messages_run_over_the_body",
        b"MPUB {topic}\n" + sized(batch(b"abc", b"defgh"), declared_bytes=18),
        "E_BAD_BODY MPUB message(1) runs over the body size 18",
        srtm_only=True,
    ),
]

DELAYS = [
    Malformed("dpub_delay_word", b"DPUB {topic} soon\n" + sized(b"x"), "E_INVALID DPUB could not parse timeout soon"),
    Malformed("dpub_delay_minus_1", b"DPUB {topic} -1\n" + sized(b"x"), "E_INVALID DPUB could not parse timeout -1"),
    Malformed(
        "dpub_delay_too_long",
        b"DPUB {topic} 3600001\n" + sized(b"x"),
        "E_INVALID DPUB timeout 3600001 out of range 0-3600000",
    ),
    Malformed(
        "dpub_delay_overflows",
        b"DPUB {topic} 18446744073709551617\n" + sized(b"x"),
        "E_INVALID DPUB could not parse timeout 18446744073709551617",
        srtm_only=True,
    ),
]

STATES = [
    Malformed("rdy_before_sub", b"RDY 1\n", "E_INVALID cannot RDY in current state"),
    Malformed("fin_before_sub", b"FIN " + UNKNOWN_ID + b"\n", "E_INVALID cannot FIN in current state"),
    Malformed("req_before_sub", b"REQ " + UNKNOWN_ID + b" 0\n", "E_INVALID cannot REQ in current state"),
    Malformed("touch_before_sub", b"TOUCH " + UNKNOWN_ID + b"\n", "E_INVALID cannot TOUCH in current state"),
    Malformed("cls_before_sub", b"CLS\n", "E_INVALID cannot CLS in current state"),
    Malformed("state_is_checked_before_parameters", b"REQ\n", "E_INVALID cannot REQ in current state"),
    Malformed(
        "sub_without_heartbeats",
        b"SUB {topic} reader\n",
        "E_INVALID cannot SUB with heartbeats disabled",
        before=(identify({"heartbeat_interval": -1}),),
    ),
    in_state("sub_twice", SUBSCRIBED, "E_INVALID cannot SUB in current state"),
    in_state("identify_after_sub", identify({}), "E_INVALID cannot IDENTIFY in current state"),
    in_state("auth_after_sub", b"AUTH\n" + sized(b"secret"), "E_INVALID cannot AUTH in current state"),
    in_state("rdy_word", b"RDY many\n", "E_INVALID RDY could not parse count many"),
    in_state("rdy_minus_1", b"RDY -1\n", "E_INVALID RDY could not parse count -1"),
    in_state("rdy_too_many", b"RDY 2501\n", "E_INVALID RDY count 2501 out of range 0-2500"),
    in_state("fin_without_id", b"FIN\n", "E_INVALID FIN insufficient number of params"),
    in_state("fin_short_id", b"FIN abc\n", "E_INVALID invalid message ID"),
    in_state("fin_long_id", b"FIN " + UNKNOWN_ID + b"0\n", "E_INVALID invalid message ID"),
    in_state("req_without_delay", b"REQ " + UNKNOWN_ID + b"\n", "E_INVALID REQ insufficient number of params"),
    in_state("req_short_id", b"REQ abc 0\n", "E_INVALID invalid message ID"),
    in_state("req_delay_word", b"REQ " + UNKNOWN_ID + b" 1s\n", "E_INVALID REQ could not parse timeout 1s"),
    in_state("touch_without_id", b"TOUCH\n", "E_INVALID TOUCH insufficient number of params"),
    in_state("touch_short_id", b"TOUCH abc\n", "E_INVALID invalid message ID"),
    in_state(
        "fin_unknown_id",
        b"FIN " + UNKNOWN_ID + b"\n",
        "E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight",
        fatal=False,
    ),
    in_state(
        "req_unknown_id",
        b"REQ " + UNKNOWN_ID + b" 0\n",
        "E_REQ_FAILED REQ 0123456789abcdef failed ID not in flight",
        fatal=False,
    ),
    in_state(
        "touch_unknown_id",
        b"TOUCH " + UNKNOWN_ID + b"\n",
        "E_TOUCH_FAILED TOUCH 0123456789abcdef failed ID not in flight",
        fatal=False,
    ),
    in_state(
        "fin_id_not_hex",
        b"FIN zzzzzzzzzzzzzzzz\n",
        "E_FIN_FAILED FIN zzzzzzzzzzzzzzzz failed ID not in flight",
        fatal=False,
    ),
]

IDENTIFY_BODIES = [
    Malformed("identify_size_0", size_only(b"IDENTIFY\n", 0), "E_BAD_BODY IDENTIFY invalid body size 0"),
    Malformed("identify_size_minus_1", size_only(b"IDENTIFY\n", -1), "E_BAD_BODY IDENTIFY invalid body size -1"),
    Malformed(
        "identify_too_big",
        size_only(b"IDENTIFY\n", MAX_BODY_BYTES + 1),
        f"E_BAD_BODY IDENTIFY body too big {MAX_BODY_BYTES + 1} > {MAX_BODY_BYTES}",
    ),
    Malformed("identify_not_json", b"IDENTIFY\n" + sized(b"{"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
    Malformed("identify_list", identify([1]), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
    Malformed(
        "identify_wrong_type",
        identify({"heartbeat_interval": "fast"}),
        "E_BAD_BODY IDENTIFY failed to decode JSON body",
    ),
    Malformed("identify_fraction", identify({"msg_timeout": 1000.5}), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
    *(
        Malformed(
            f"identify_{field}_{value}", identify({field: value}), f"E_BAD_BODY IDENTIFY {words} ({value}) is invalid"
        )
        for field, words, values in (
            ("heartbeat_interval", "heartbeat interval", (999, 60_001, -2)),
            ("output_buffer_size", "output buffer size", (63, 65_537, -2)),
            ("output_buffer_timeout", "output buffer timeout", (24, 30_001, -2)),
            ("sample_rate", "sample rate", (100, -1)),
            ("msg_timeout", "msg timeout", (999, 900_001, -1)),
        )
        for value in values
    ),
]

AUTH = [
    Malformed("auth_with_parameter", b"AUTH secret\n", "E_INVALID AUTH invalid number of parameters"),
    Malformed("auth_size_0", size_only(b"AUTH\n", 0), "E_BAD_BODY AUTH invalid body size 0"),
    Malformed(
        "auth_too_big",
        size_only(b"AUTH\n", MAX_BODY_BYTES + 1),
        f"E_BAD_BODY AUTH body too big {MAX_BODY_BYTES + 1} > {MAX_BODY_BYTES}",
    ),
    Malformed("auth_where_none_is_asked", b"AUTH\n" + sized(b"secret"), "E_AUTH_DISABLED AUTH disabled"),
]

ROWS = [*MAGICS, *LINES, *NAMES, *SIZES, *DELAYS, *STATES, *IDENTIFY_BODIES, *AUTH]

CUT_SHORT = {
    "magic": b"  V",
    "line": MAGIC + b"PUB {topic}",
    "size": MAGIC + b"PUB {topic}\n\0\0",
    "pub_body": MAGIC + b"PUB {topic}\n" + sized(b"abc", declared_bytes=10),
    "dpub_body": MAGIC + b"DPUB {topic} 1\n" + sized(b"abc", declared_bytes=10),
    "mpub_count": MAGIC + b"MPUB {topic}\n" + struct.pack(">i", 100) + b"\0\0",
    "mpub_body": MAGIC + b"MPUB {topic}\n" + sized(batch(b"one", b"two", declared_count=3), declared_bytes=40),
    "identify_body": MAGIC + b"IDENTIFY\n" + sized(b"{", declared_bytes=2),
}
"""Streams that end in the middle: nothing may be published, whatever had come of it."""
