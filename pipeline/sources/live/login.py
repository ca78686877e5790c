"""How a client logs in, as kafka-python takes it: passwords, tokens of an OAuth 2 server, or credentials of AWS.

References: KIP-255, RFC 7628 (OAUTHBEARER), RFC 6749 section 4.4 (client credentials); aws-msk-iam-auth (AWS_MSK_IAM).
"""

import importlib
import time
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from pipeline.errors import ConfigError, SourceUnreachableError
from pipeline.sources.live.settings import ClientSettings, Secrets

OAUTHBEARER, AWS_MSK_IAM = "OAUTHBEARER", "AWS_MSK_IAM"
_TIMEOUT_S = 10.0
_EARLY_S = 60.0  # a token is renewed so long before it expires


def login_options(settings: ClientSettings, secrets: Secrets) -> dict[str, Any]:
    """Options for kafka-python's mechanisms, secrets included: never log them; `ConfigError` without a package it needs."""
    options: dict[str, Any] = {"sasl_mechanism": settings.sasl_mechanism}
    if settings.sasl_mechanism == AWS_MSK_IAM:
        try:
            importlib.import_module("botocore")
        except ImportError:
            advice = "pip install 'partition-health[iam]'"
            raise ConfigError(f"sasl.mechanism AWS_MSK_IAM needs botocore: {advice}") from None
        return options
    if settings.sasl_mechanism == OAUTHBEARER:
        return options | {"sasl_oauth_token_provider": ClientCredentials(settings, secrets)}
    return options | {"sasl_plain_username": settings.sasl_username, "sasl_plain_password": secrets.password}


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Tokens of an OAuth 2 server for a client's id and secret, each used until it is about to expire."""

    def __init__(self, settings: ClientSettings, secrets: Secrets) -> None:
        self._settings, self._secrets = settings, secrets
        self._token, self._valid_until_s = "", 0.0

    def token(self) -> str:
        """A token that is valid now; `SourceUnreachableError` says why the server gives none."""
        if time.monotonic() >= self._valid_until_s:
            answer = self._ask()
            self._token = str(answer["access_token"])
            lasts_s = answer.get("expires_in")
            self._valid_until_s = time.monotonic() + (lasts_s if isinstance(lasts_s, (int, float)) else 0) - _EARLY_S
        return self._token

    def _ask(self) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - a tenth of a second that only a login by OAuth 2 needs

        url, scope = self._settings.sasl_oauthbearer_token_endpoint_url or "", self._settings.sasl_oauthbearer_scope
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        login = (self._settings.sasl_username or "", self._secrets.password or "")
        try:
            reply = httpx.post(url, data=form, auth=login, timeout=_TIMEOUT_S)
            reply.raise_for_status()
            answer: dict[str, Any] = reply.json()
            if "access_token" not in answer:
                raise SourceUnreachableError(f"{url} gives no access_token")
        except httpx.HTTPStatusError as error:
            raise SourceUnreachableError(f"{url} refuses {login[0]}: HTTP {error.response.status_code}") from error
        except (httpx.HTTPError, ValueError, TypeError) as error:
            raise SourceUnreachableError(f"{url} gives no token: {type(error).__name__}: {error}") from error
        return answer
