"""The publisher against brokers and a controller on real sockets."""

import asyncio
import functools
import random
import struct
from collections import Counter

import pytest
from cluster import HEARTBEAT, Broker, Controller, frame, migrate, placed

import srtm
from srtm import frames
from srtm.errors import BrokerLost


def in_a_loop(test):
    """Runs a coroutine, for at most 60 s."""

    @functools.wraps(test)
    def run(*arguments, **named):
        async def bounded():
            async with asyncio.timeout(60):
                await test(*arguments, **named)

        asyncio.run(bounded())

    return run


async def until(condition):
    while not condition():
        await asyncio.sleep(0.002)


async def cluster(acks: bool = False) -> tuple[Broker, Broker, Controller]:
    first, second = await Broker(acks).start(), await Broker(acks).start()
    controller = await Controller().start()
    controller.places(first, second)
    return first, second, controller


def publisher(controller: Controller, **options) -> srtm.Publisher:
    return srtm.Publisher(controller=controller.address, topic="t", id="s/1", **options)


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@pytest.mark.parametrize("acks", [False, True])
@in_a_loop
async def test_a_move_takes_every_message_once(acks):
    first, second, controller = await cluster(acks)
    terms = {"ack_every_messages": 64, "ack_interval_ms": 5} if acks else {}
    async with publisher(controller, group="g7", rate=5.0, **terms) as p:
        for body in numbered(0, 100):
            await p.publish(body)
        await p.flush()
        first.is_mute = True
        await p.publish(b"100")
        await until(lambda: len(first.bodies) == 101)
        first.send(frame(18, struct.pack(">I", 12_000) + b"t") + migrate("other", "nowhere:1"))
        await until(lambda: p.throttled is not None)
        assert p.throttled.retry_after_us == 12_000
        first.send(migrate("t", second.address))
        await until(lambda: p.broker == second.address)
        # The old link stays until its acknowledgement comes.
        await p.publish_batch(numbered(101, 200))
        await until(lambda: len(second.bodies) == 99)
        await until(lambda: p.unacknowledged == 1)
        assert first.closed == 0
        first.unmute()
        await until(lambda: first.closed == 1)
    assert first.bodies == numbered(0, 101)
    assert second.bodies == numbered(101, 200)
    assert p.traffic == srtm.Traffic(published=200, acknowledged=200, moves=1)
    assert controller.asked == ["POST /v1/topics/t/publishers"]
    assert controller.bodies == [{"publishers": [{"id": "s/1", "rate": 5.0, "batch": 1, "group": "g7"}]}]
    announced = {"publisher": {"id": "s/1", "topic": "t", "group": "g7", "rate": 5.0, "batch": 1}, **terms}
    assert [identity["srtm"] for identity in first.identities + second.identities] == [announced, announced]


@pytest.mark.parametrize("seed", range(3))
@in_a_loop
async def test_many_moves_take_every_message_once(seed):
    chance = random.Random(seed)
    brokers = [await Broker(acks=seed == 1).start() for _ in range(3)]
    controller = await Controller().start()
    controller.places(brokers[0], brokers[1])
    terms = {"ack_every_messages": 64} if seed == 1 else {}
    async with publisher(controller, window_messages=20, **terms) as p:
        for number in range(600):
            await p.publish(b"%d" % number)
            here = next((broker for broker in brokers if broker.address == p.broker), None)
            if here is not None and chance.random() < 0.1:
                here.send(migrate("t", chance.choice(brokers).address))
            if chance.random() < 0.2:
                await asyncio.sleep(0.001)
    assert sorted((body for broker in brokers for body in broker.bodies), key=int) == numbered(0, 600)
    assert p.traffic.resent == 0
    assert p.traffic.moves > 3


@in_a_loop
async def test_a_death_repeats_but_loses_nothing():
    first, second, controller = await cluster()
    first.is_mute = True
    async with publisher(controller) as p:
        for body in numbered(0, 50):
            await p.publish(body)
        await until(lambda: len(first.bodies) == 50)
        first.kill()
        for body in numbered(50, 100):
            await p.publish(body)
        await p.flush()
        assert p.traffic.resent >= 50
        assert first.address in p.trouble
    assert Counter(second.bodies) == Counter(numbered(0, 100))
    assert controller.asked[-1] == f"GET /v1/topics/t/publishers/s/1?avoid={first.address}"


@in_a_loop
async def test_waits_grow_and_are_spread():
    p = srtm.Publisher(controller="c", topic="t", id="s")
    assert p._backoff() <= 0.1
    waits = [p._backoff() for _ in range(1000)]
    assert min(waits) >= 0.1 and max(waits) <= 1.0 and sum(waits) > 300


@in_a_loop
async def test_a_broker_that_closes_at_once_is_tried_again():
    first, _, controller = await cluster()
    first.is_dead = True
    controller.answers[f"GET /v1/topics/t/publishers/s/1?avoid={first.address}"] = (200, placed(first))
    async with publisher(controller) as p:
        await p.publish(b"a")
        await until(lambda: len(controller.asked) == 4)
        first.is_dead = False
        await p.flush()
    assert first.bodies == [b"a"]


@in_a_loop
async def test_without_controller_and_broker_it_tries_both():
    first, _, controller = await cluster()
    async with publisher(controller) as p:
        await p.publish(b"a")
        await p.flush()
        controller.answers = dict.fromkeys(controller.answers, (503, {"message": "starting"}))
        first.kill()
        await until(lambda: p.broker is None)
        await p.publish(b"b")
        await until(lambda: "503" in p.trouble or first.address in p.trouble)
        first.is_dead = False
        await p.flush()
        assert p.broker == first.address
    assert first.bodies == [b"a", b"b"]


@in_a_loop
async def test_an_unreachable_target_is_reported_and_the_old_broker_kept():
    first, second, controller = await cluster()
    second.is_dead = True
    avoiding = f"GET /v1/topics/t/publishers/s/1?avoid={second.address}"
    controller.answers[avoiding] = (200, placed(first))
    async with publisher(controller) as p:
        await p.publish(b"a")
        await p.flush()
        first.send(migrate("t", second.address))
        await until(lambda: controller.asked[-1] == avoiding)
        await p.publish(b"b")
        await p.flush()
        assert p.broker == first.address
    assert first.bodies == [b"a", b"b"]


@in_a_loop
async def test_a_refused_message_is_told_once_and_not_sent_again():
    first, _, controller = await cluster()
    first.refuses = (b"bad", b"E_BAD_MESSAGE PUB message too big")
    async with publisher(controller) as p:
        await p.publish(b"bad")
        await p.publish(b"good")
        with pytest.raises(srtm.MessageRefused, match="too big"):
            await p.flush()
        await p.flush()
        assert (p.traffic.refused, p.traffic.acknowledged) == (1, 1)
    assert first.bodies == [b"good"]
    assert controller.asked[1:] == ["GET /v1/topics/t/publishers/s/1"]


@in_a_loop
async def test_a_controller_may_refuse_for_good():
    _, _, controller = await cluster()
    controller.answers["POST /v1/topics/t/publishers"] = (400, {"message": "too many publishers"})
    p = publisher(controller)
    p.start()
    await p.publish(b"a")
    with pytest.raises(srtm.NotPlaced, match="too many publishers"):
        await p.close()


@in_a_loop
async def test_a_forgetful_controller_is_told_again():
    first, second, controller = await cluster()
    async with publisher(controller) as p:
        await p.publish(b"a")
        await p.flush()
        # It has forgotten everything, and has one broker left.
        controller.answers = {"POST /v1/topics/t/publishers": (200, {"publishers": [placed(second)]})}
        first.kill()
        await p.publish(b"b")
        await p.flush()
    assert second.bodies == [b"b"]


@in_a_loop
async def test_who_does_not_register_goes_to_the_topics_first_broker():
    first, _, controller = await cluster()
    brokers = [{"broker": "b", "tcp_address": first.address}]
    controller.answers = {"GET /v1/topics/t/placement": (200, {"topic": "t", "brokers": brokers})}
    async with publisher(controller, register=False) as p:
        await p.publish(b"a")
    assert first.bodies == [b"a"]
    assert controller.asked == ["GET /v1/topics/t/publishers/s/1", "GET /v1/topics/t/placement"]


@in_a_loop
async def test_the_window_makes_publishing_wait():
    first, _, controller = await cluster()
    first.is_mute = True
    async with publisher(controller, window_messages=2) as p:
        await p.publish_batch([b"a", b"b"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await p.publish(b"c")
        assert (p.unacknowledged, p.traffic.published) == (2, 2)
        await until(lambda: len(first.bodies) == 2)
        first.unmute()
        await p.publish(b"c")
    assert first.bodies == [b"a", b"b", b"c"]


@in_a_loop
async def test_heartbeats_are_answered():
    first, _, controller = await cluster()
    async with publisher(controller) as p:
        await until(lambda: p.broker is not None)
        first.send(HEARTBEAT + HEARTBEAT)
        await until(lambda: first.nops == 2)


@in_a_loop
async def test_a_broker_against_the_protocol_is_left():
    first, second, controller = await cluster()
    async with publisher(controller) as p:
        await until(lambda: p.broker == first.address)
        first.send(frame(0, b"OK"))
        await until(lambda: p.broker == second.address)
        assert "more acknowledged than was sent" in p.trouble


@pytest.mark.parametrize(
    "options",
    [
        {"topic": "a b"},
        {"topic": "x" * 65},
        {"id": ""},
        {"id": "a b"},
        {"id": "x" * 129},
        {"group": ""},
        {"rate": float("nan")},
        {"rate": 0},
        {"rate": 1e10},
        {"batch": 0},
        {"heartbeat_seconds": 0.1},
    ],
)
def test_what_a_broker_would_refuse_is_named(options):
    (field,) = options
    with pytest.raises(ValueError, match=f"^{field} "):
        srtm.Options(**{"controller": "c", "topic": "t", "id": "s", **options})


@in_a_loop
async def test_what_no_broker_accepts_is_not_taken():
    p = srtm.Publisher(controller="127.0.0.1:1", topic="t", id="s", max_message_bytes=3)
    for bodies in ([], [b""], [b"a", b""], [b"abcd"]):
        with pytest.raises(ValueError, match="message"):
            await p.publish_batch(bodies)
    assert p.traffic == srtm.Traffic()


def test_frames_come_in_pieces_and_broken_ones_are_refused():
    whole = frame(17, b"\0\x01t\0\x03b:1")
    buffer = bytearray()
    for byte in whole[:-1]:
        buffer.append(byte)
        assert frames.split(buffer) is None
    buffer += whole[-1:] + b"rest"
    kind, data = frames.split(buffer)
    assert (kind, frames.migrate(data), bytes(buffer)) == (17, ("t", "b:1"), b"rest")
    for broken in (b"\xff" * 8, frame(2, b""), frame(3, b""), struct.pack(">II", 3, 0)):
        with pytest.raises(BrokerLost):
            frames.split(bytearray(broken))
    for data in (b"", b"\0\x09t\0\x01b", b"\0\x01t\0\x02b"):
        with pytest.raises(BrokerLost):
            frames.migrate(data)


@in_a_loop
async def test_of_several_controllers_the_one_that_leads_is_asked():
    first, _, leader = await cluster()
    follower = await Controller().start()
    not_leading = {"error": "this controller does not lead", "leader": leader.address}
    follower.answers["POST /v1/topics/t/publishers"] = (421, not_leading)
    # Nobody listens at the first.
    addresses = f"127.0.0.1:1, {follower.address}/,http://127.0.0.1:1"
    async with srtm.Publisher(controller=addresses, topic="t", id="s/1") as p:
        await p.publish(b"m")
        await p.flush()
        first.kill()
        await until(lambda: len(leader.asked) > 1)
    assert follower.asked == ["POST /v1/topics/t/publishers"], "the leader is asked first from then on"
    assert first.bodies == [b"m"]


@in_a_loop
async def test_where_nobody_leads_yet_the_publisher_asks_again():
    first, _, controller = await cluster()
    placing = controller.answers["POST /v1/topics/t/publishers"]
    controller.answers["POST /v1/topics/t/publishers"] = (421, {"error": "it does not know which one does"})
    async with publisher(controller) as p:
        await until(lambda: len(controller.asked) > 1)
        controller.answers["POST /v1/topics/t/publishers"] = placing
        await p.publish(b"m")
        await p.flush()
    assert first.bodies == [b"m"]
