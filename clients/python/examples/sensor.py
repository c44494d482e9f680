"""A sensor that publishes at a rate and goes where the controller places it, printing its counts once a second.

python examples/sensor.py --controller http://127.0.0.1:4180 --topic telemetry --id sensor-1 --rate 10 --seconds 30
"""

import argparse
import asyncio
import ssl
import time
from dataclasses import asdict

import srtm


def report(publisher: srtm.Publisher) -> None:
    counts = " ".join(f"{name} {count}" for name, count in asdict(publisher.traffic).items())
    throttled = publisher.throttled.retry_after_us if publisher.throttled else 0
    print(f"broker {publisher.broker or 'none'} {counts} throttled {throttled}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description="Publish at a rate where the controller says.")
    parser.add_argument("--controller", default="127.0.0.1:4180")
    parser.add_argument("--topic", default="telemetry")
    parser.add_argument("--id", default="sensor-1")
    parser.add_argument("--group")
    parser.add_argument("--rate", type=float, default=10.0, help="messages per second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--ca", help="file with the authority of controller and brokers; with it, TLS is spoken")
    parser.add_argument("--cert", help="file with a certificate of its own")
    parser.add_argument("--cert-key", help="file with the key of that")
    flags = parser.parse_args()
    tls = ssl.create_default_context(cafile=flags.ca) if flags.ca else None
    if tls and flags.cert:
        tls.load_cert_chain(flags.cert, flags.cert_key)
    async with srtm.Publisher(
        controller=flags.controller, topic=flags.topic, id=flags.id, group=flags.group, rate=flags.rate, tls=tls
    ) as publisher:
        begin = reported = time.monotonic()
        for number in range(int(flags.rate * flags.seconds)):
            await publisher.publish(f"{flags.id} {number}".encode())
            now = time.monotonic()
            if now >= reported + 1:
                report(publisher)
                reported = now
            await asyncio.sleep(max(0.0, begin + (number + 1) / flags.rate - now))
        await publisher.flush()
        report(publisher)


if __name__ == "__main__":
    asyncio.run(main())
