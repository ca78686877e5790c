"""An authority of our own, a broker's certificate and a client's, as PEM files."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def write_certificates(folder: Path, name: str, *, client: str) -> tuple[Path, Path, Path]:
    """Writes `<name>-ca.pem`, `<name>-broker.pem` (for 127.0.0.1) and `<name>-client.pem`, the latter with their keys.

    `client`: common name of the client.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority, own, of_client = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(3))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    ca = (
        _builder(issuer, issuer, authority)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = _builder(subject, issuer, own).add_extension(address, critical=False)
    client_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, client)])
    ca_file, broker_file, client_file = (folder / f"{name}-{whose}.pem" for whose in ("ca", "broker", "client"))
    pem = serialization.Encoding.PEM
    ca_file.write_bytes(ca.sign(authority, hashes.SHA256()).public_bytes(pem))
    for path, key, builder in (
        (broker_file, own, leaf),
        (client_file, of_client, _builder(client_name, issuer, of_client)),
    ):
        secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(secret + builder.sign(authority, hashes.SHA256()).public_bytes(pem))
    return ca_file, broker_file, client_file


def _builder(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
    )
