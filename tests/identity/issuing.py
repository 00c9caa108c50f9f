"""An OpenID Connect issuer on a free port: real keys, a real key set over HTTP, signed tokens."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_S = 1_800_000_000
AUDIENCE = "trimtab"

_MADE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
"""One key of each kind for all tests: RSA keys take a while to make."""


class SigningKey:
    """A private key with its id, and its public half as a key set's member."""

    def __init__(self, kid: str | None, algorithm: str, private: Any = None) -> None:
        self.kid = kid
        self.algorithm = algorithm
        self.private = _MADE[algorithm] if private is None else private

    def public(self) -> dict[str, Any]:
        kinds: dict[str, Any] = {"RS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}
        public = self.private.public_key()
        member: dict[str, Any] = kinds[self.algorithm[:2]].to_jwk(public, as_dict=True)
        named = {} if self.kid is None else {"kid": self.kid}
        return member | named | {"use": "sig", "alg": self.algorithm}

    def pem(self) -> bytes:
        """The public half, as a careless verifier would take it for an HMAC's secret."""
        pem: bytes = self.private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        return pem

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        named = {} if self.kid is None else {"kid": self.kid}
        return jwt.encode(claims, self.private, algorithm=self.algorithm, headers=named | headers)


class Issuer:
    """Serves discovery and key set until it is stopped; counts how often the keys were asked for.

    ``broken``: a body to answer with instead of the key set.
    """

    def __init__(self, *keys: SigningKey) -> None:
        self.keys = list(keys)
        self.asked = 0
        self.broken: bytes | None = None
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.start()

    def start(self) -> None:
        """Serve on the same port as before."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler())
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def claims(self, **changes: Any) -> dict[str, Any]:
        """A good token's; None leaves one out."""
        good = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ana-17",
            "email": "ana@example.com",
            "groups": ["staff", "operators"],
            "iat": NOW_S - 10,
            "exp": NOW_S + 600,
        }
        return {name: value for name, value in (good | changes).items() if value is not None}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that http.server calls
                if self.path.endswith("/.well-known/openid-configuration"):
                    found: Any = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                    body = json.dumps(found).encode()
                else:
                    issuer.asked += 1
                    body = json.dumps({"keys": [key.public() for key in issuer.keys]}).encode()
                    body = body if issuer.broken is None else issuer.broken
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Tests are quiet."""

        return Handler
