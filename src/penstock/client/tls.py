"""TLS contexts of clients, from Kafka's settings (temporary: PEM files)."""

from __future__ import annotations

import ssl
import tempfile

from penstock.config.broker.tls import TlsSettings
from penstock.errors import ConfigError

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """What a client's handshakes are made with. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    versions = [VERSIONS[each] for each in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        if settings.ssl_truststore_certificates is not None:
            context.load_verify_locations(cadata=str(settings.ssl_truststore_certificates))
        elif settings.ssl_truststore_location is not None:
            context.load_verify_locations(settings.ssl_truststore_location)
        else:
            context.load_default_certs()
    except OSError as error:
        raise ConfigError(f"ssl.truststore.location = {settings.ssl_truststore_location}: {error}") from None
    try:
        if settings.ssl_keystore_location is not None:
            context.load_cert_chain(settings.ssl_keystore_location, password=settings.ssl_key_password)
        elif settings.ssl_keystore_key is not None:
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(f"{settings.ssl_keystore_key}\n{settings.ssl_keystore_certificate_chain}\n")
                file.flush()
                context.load_cert_chain(file.name, password=settings.ssl_key_password)
    except OSError as error:
        raise ConfigError(f"ssl.keystore.location = {settings.ssl_keystore_location}: {error}") from None
    return context


from dataclasses import dataclass


@dataclass
class PemStores:
    trusted: str | None
    chain: str | None
    key: str | None


def pem_stores(settings: TlsSettings) -> PemStores:
    trusted = settings.ssl_truststore_certificates
    if settings.ssl_truststore_location:
        trusted = open(settings.ssl_truststore_location).read()
    return PemStores(trusted, None, None)
