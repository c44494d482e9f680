"""An auth server as nsqd's operators run one: it answers what a secret is for."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = Callable[[dict[str, str]], dict[str, Any] | None]


class AuthServer:
    """Answers on a port of its own; `asked` has what it was asked, in order."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.serve(self, urlsplit(self.path).query)

            def do_POST(self) -> None:
                outer.serve(self, self.rfile.read(int(self.headers["Content-Length"])).decode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        """Where it answers, as a flag has it."""
        host, port = self.server.server_address[:2]
        return f"{host!s}:{port}"

    def serve(self, handler: BaseHTTPRequestHandler, form: str) -> None:
        """Answers one request."""
        asked = {key: values[0] for key, values in parse_qs(form, keep_blank_values=True).items()}
        self.asked.append(asked)
        answer = self.answer(asked)
        body = json.dumps(answer).encode() if answer is not None else b""
        handler.send_response(200 if answer is not None else 403)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def __enter__(self) -> "AuthServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def permitting(topic: str, *permissions: str, channels: str = ".*", ttl: int = 3600) -> dict[str, Any]:
    """An answer with one authorization."""
    one = {"topic": topic, "channels": [channels], "permissions": list(permissions)}
    return {"ttl": ttl, "identity": "sensor", "identity_url": "http://who/sensor", "authorizations": [one]}
