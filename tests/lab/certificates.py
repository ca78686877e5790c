"""An authority of our own and a broker's certificate, as PEM files."""

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


def write_certificates(folder: Path, name: str) -> tuple[Path, Path]:
    """Writes `<name>-ca.pem` and `<name>-broker.pem` (key and certificate for 127.0.0.1); gives both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, own = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
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
    ca_file, broker_file = folder / f"{name}-ca.pem", folder / f"{name}-broker.pem"
    pem = serialization.Encoding.PEM
    ca_file.write_bytes(ca.sign(authority, hashes.SHA256()).public_bytes(pem))
    key = own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    broker_file.write_bytes(key + leaf.sign(authority, hashes.SHA256()).public_bytes(pem))
    return ca_file, broker_file


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
