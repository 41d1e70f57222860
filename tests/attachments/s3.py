"""A real S3 server of this machine, and buckets in it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.server import ThreadedMotoServer

__all__ = ["KEY", "REGION", "SECRET", "client_of", "environment_of", "new_bucket", "running_s3"]

REGION, KEY, SECRET = "us-east-1", "key", "secret"


@contextmanager
def running_s3() -> Iterator[str]:
    """Run a server; yield its URL."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def new_bucket(url: str) -> str:
    """Make a bucket that no other test has; return its name."""
    bucket = f"bucket-{secrets.token_hex(4)}"
    client_of(url).create_bucket(Bucket=bucket)
    return bucket


def client_of(url: str) -> Any:
    """Return a client of the server that is not ours."""
    from boto3 import client

    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
    return client("s3", endpoint_url=url, region_name=REGION, **keys)


def environment_of(url: str) -> dict[str, str]:
    """Return the settings by which a process finds the server, as a deployment has them in its environment."""
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    return {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION, **keys}
