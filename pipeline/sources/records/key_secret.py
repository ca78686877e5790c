"""The deployment secret: read, or made at the first start; never shown.

Only the driver reads it; executors get it with their work, in memory.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from pathlib import Path

from pipeline.codec.records.key_ids import SECRET_BYTES, KeySecret
from pipeline.errors import ConfigError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def ensure_secret(path: Path) -> None:
    """Makes the file where it is missing, readable by its owner alone; two that start at once end with one secret.

    Raises:
        ConfigError: The file cannot be made.
    """
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened, draft = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".draft", dir=path.parent)  # of mode 600
        try:
            with os.fdopen(opened, "w") as file:
                file.write(secrets.token_hex(SECRET_BYTES) + "\n")
            os.link(draft, path)  # fails where another was first
        except FileExistsError:
            pass
        finally:
            Path(draft).unlink()
    except OSError as error:
        raise ConfigError(
            f"the secret for key ids cannot be made at {path}: {error.strerror or error}; set keys.secret to a file that "
            "can be written, or keys.secret_variable"
        ) from error


def read_secret(path: Path, text: str | None = None) -> KeySecret:
    """Reads the secret.

    Args:
        path: Its file.
        text: Its hex digits, where they come from elsewhere; the file is not looked at then.

    Raises:
        ConfigError: There is none, others may read it, or it is no secret; what it holds is not shown.
    """
    where = "the variable of keys.secret_variable" if text is not None else str(path)
    try:
        if text is None:
            if stat.S_IMODE(path.stat().st_mode) & _OTHERS:
                raise ConfigError(f"{path} may be read by others; the secret for key ids wants mode 600")
            text = path.read_text(encoding="ascii")
        return KeySecret(bytes.fromhex(text.strip()))
    except OSError as error:
        raise ConfigError(f"the secret for key ids cannot be read at {path}: {error.strerror or error}") from error
    except ValueError:
        # its message could hold what was found
        raise ConfigError(f"{where} holds no secret; expected {2 * SECRET_BYTES} hex digits") from None
