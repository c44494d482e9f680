"""Certificates for one run of the suite: an authority, a broker, clients; none of them is kept."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"


class Authority:
    """Signs certificates into a folder: `NAME.pem` and `NAME.key`; its own is `authority.pem`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = name("SRTM's test authority")
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = (
            begin(self.name, self.name, self.key)
            .add_extension(constraints, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self.path = self.write("authority.pem", certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, who: str) -> tuple[Path, Path]:
        """A new key and its certificate; former ones of that name are replaced."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._keep(who, key, begin(name(who), self.name, key).sign(self.key, hashes.SHA256()))

    def sign_by_itself(self, who: str) -> tuple[Path, Path]:
        """A certificate that nobody else vouches for."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._keep(who, key, begin(name(who), name(who), key).sign(key, hashes.SHA256()))

    def write(self, file: str, content: bytes) -> Path:
        """A file of its folder."""
        path = self.folder / file
        path.write_bytes(content)
        return path

    def _keep(self, who: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> tuple[Path, Path]:
        plain = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        # The key first: whoever reads in between finds a pair that does not fit, and looks again.
        key_path = self.write(f"{who}.key", key.private_bytes(pem, form, plain))
        return self.write(f"{who}.pem", certificate.public_bytes(pem)), key_path


def name(who: str) -> x509.Name:
    """A name without a place in the world."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)])


def begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """A certificate for `HOST`, valid since yesterday, to be signed."""
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + 30 * day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
    )
