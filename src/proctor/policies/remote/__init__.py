"""A policy behind a websocket: `--policy.path=ws://HOST:PORT`."""
