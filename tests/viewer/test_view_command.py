"""`proctor view` as a user runs it: a real process, real signals, real bytes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness import flags, run_cli, start_cli, tiny_tree, wait_until
from made_runs import make_run
from proctor.installation import missing_package
from viewers import viewer


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_cleanly_even_while_a_browser_holds_on(tmp_path: Path, number: int, status: int) -> None:
    run = make_run(tmp_path / "run", {"a": [True]}, videos=True)
    (run / "videos/a_0/eval_episode_0.mp4").write_bytes(bytes(64 << 20))
    with viewer(str(tmp_path)) as found, socket.create_connection(("127.0.0.1", found.port)) as paused:
        request = f"GET /run/run/videos/a_0/eval_episode_0.mp4 HTTP/1.1\r\nHost: localhost:{found.port}\r\n\r\n"
        paused.sendall(request.encode())
        assert paused.recv(12) == b"HTTP/1.1 200"  # and nothing more is read: a paused video
        found.process.send_signal(number)
        out, err = found.process.communicate(timeout=60)
        assert found.process.returncode == status
        assert (out, err) == ("", "")


def test_parts_of_a_video_are_sent_so_that_it_can_be_sought_in(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": [True]}, videos=True)
    video = bytes(range(256)) * 40
    (run / "videos/a_0/eval_episode_0.mp4").write_bytes(video)
    path = "/run/run/videos/a_0/eval_episode_0.mp4"
    with viewer(str(tmp_path)) as found:
        status, headers, body = found.get(path)
        assert (status, headers["accept-ranges"], body) == (200, "bytes", video)
        status, headers, body = found.get(path, Range="bytes=100-199")
        assert (status, headers["content-range"], body) == (206, "bytes 100-199/10240", video[100:200])
        assert found.get(path, Range="bytes=10000-")[2] == video[10000:]
        assert found.get(path, Range="bytes=-5")[2] == video[-5:]
        assert found.get(path, Range="bytes=99999-")[0] == 416
        assert found.get("/", Host="evil.example")[0] == 421
        assert found.get("/run/%2e%2e/%2e%2e/etc/passwd")[0] == 404


def test_a_run_is_watched_while_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "root" / "run"
    path.parent.mkdir()
    tree = tiny_tree(path, n_episodes=300, env={"delay": 0.005}, job_name="going on")
    with viewer(str(path.parent)) as found:
        assert b"There is no run here yet" in found.get("/")[2]
        process = start_cli("eval", *flags(tree))
        try:
            seen = set()

            def live() -> dict[str, object]:
                status, _, body = found.get("/live/run/")
                said: dict[str, object] = json.loads(body) if status == 200 else {}
                if said.get("state") == "running" and said["ended"]:
                    seen.add(said["ended"])
                return said

            wait_until(lambda: live() and len(seen) >= 3, 120)
            status, _, body = found.get("/run/run/")
            assert status == 200
            assert b"going on" in body
            assert b'id="live"' in body
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
            assert process.returncode == 130
            said = live()
            assert said["state"] == "incomplete"
            assert b'id="live"' not in found.get("/run/run/")[2]
        finally:
            process.kill()
            process.communicate()
    # The reader left the writer's files as they are without it.
    assert not (path / "run.sqlite-wal").exists()


def test_a_mistake_is_told_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, words in (
            ((str(tmp_path / "no"),), "there is no such folder"),
            ((str(tmp_path), "--prot=1"), "Did you mean '--port'?"),
            ((str(tmp_path), "--port=70000"), "must be a whole number from 0 to 65535"),
            ((str(tmp_path), "--port"), "--port needs a value"),
            ((str(tmp_path), f"--port={port}"), "in use on 127.0.0.1. Choose another"),
            ((str(tmp_path), str(tmp_path)), "name one folder"),
        ):
            done = run_cli("view", *arguments)
            assert done.returncode == 2, arguments
            assert words in done.stderr
            assert len(done.stderr.splitlines()) == 1


def test_without_its_packages_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        f"from proctor.cli.main import run; sys.exit(run(['view', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"proctor: {missing_package('proctor view', 'starlette', 'view')}\n"


def test_who_opens_it_to_others_is_warned(tmp_path: Path) -> None:
    with viewer(str(tmp_path), "--host=0.0.0.0") as found:
        assert "whoever can reach this address can see the runs" in found.line
        assert found.get("/")[0] == 200
