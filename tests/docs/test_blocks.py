"""Every shell and Python block of README and docs is run, or says why not; no line has a wrong flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from doc_blocks import NOTES, ROOT, RUNNABLE, Block, blocks_of, commands_in, count, pages
from page_reader import BREEZE, BlockFailed, Reader, install_breeze
from parsed_commands import check_command
from proctor.errors import UsageError

FENCED = ("text", "yaml", "toml", "bibtex", "layers", *RUNNABLE)


def done_by_a_test(block: Block) -> bool:
    wanted = block.language in RUNNABLE or block.file is not None
    return wanted and block.why_not is None and "tested by" not in block.notes


def is_sound(block: Block) -> bool:
    """Whether a block is one of commands that are meant to work."""
    return block.language in RUNNABLE and block.language != "python" and block.notes.get("exits") != "2"


def told(pages_that_have: bool) -> list[str]:
    """Return the pages with blocks that take long, or those with blocks that do not."""
    return [
        page
        for page in pages()
        if any(("slow" in block.notes) is pages_that_have for block in blocks_of(page) if done_by_a_test(block))
    ]


def follow(page: str, folder: Path, *, slow: bool) -> None:
    with Reader(folder) as reader:
        for block in blocks_of(page):
            if done_by_a_test(block) and (slow or "slow" not in block.notes):
                reader.do(block)


@pytest.mark.parametrize("page", told(False))
def test_the_blocks_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path / "reader", slow=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", told(True))
def test_the_blocks_that_take_long_do_what_the_page_says(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path / "reader", slow=True)


@pytest.mark.parametrize("page", pages())
def test_every_command_on_a_page_is_one_that_proctor_takes(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"):
        monkeypatch.setenv(name, "1")
    install_breeze(tmp_path / "installed")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    monkeypatch.syspath_prepend(str(BREEZE / "src"))
    for block in blocks_of(page):
        if block.file is not None:
            path = tmp_path / Path(block.file).name
            path.write_text(block.text)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    wrong = []
    for block in blocks_of(page):
        for words in commands_in(block) if is_sound(block) else ():
            try:
                check_command(words)
            except UsageError as error:
                wrong.append(f"{block}: proctor {' '.join(words)}: {error}")
    assert wrong == []


def test_a_wrong_flag_on_a_page_would_be_found() -> None:
    for line in (
        "proctor eval --policy.type=expert --env.type=metaworld --env.tasks=reach-v3",
        "proctor eval --policy.type=expert --env.type=metaworld --eval.n_episodes=none",
        "proctor eval --policy.type=exprt --env.type=metaworld",
        "FOO=1 proctor evl && true",
        "proctor view --prt=0 | cat",
        "proctor view --port=x",
        "proctor film outputs/run --env.camera=corner",
        "proctor replay outputs/run --policy.type=expert",
        "proctor compare a b --jsn",
        "proctor train --policy.type=compact --dataset.root=d --env.type=metaworld --eval.episodes=3",
        "proctor parallel --num-shard=3 --policy.type=expert --env.type=metaworld",
        "x/bin/proctor eval --policy.path=CHECKPOINT --env.type=metaworld \\\n  --env.obs_type=pixel",
    ):
        (words,) = commands_in(Block("page", 1, "sh", line))
        with pytest.raises(UsageError):
            check_command(words)


def test_a_block_that_fails_is_found(tmp_path: Path) -> None:
    with Reader(tmp_path / "reader") as reader:
        for language, text, notes, shown in (
            ("sh", "true\nfalse\ntrue\n", {}, None),
            ("sh", "proctor compare nowhere elsewhere\n", {}, None),
            ("sh", "printf '┃ task ┃ k/n ┃\\n'\n", {}, "┃ task ┃ success ┃\n"),
            ("sh", "echo here\n", {"until": "there"}, None),
            ("python", "1 / 0\n", {}, None),
            ("python", "print(3)\n", {}, "4\n"),
            ("python", "class Breeze: pass\n", {"quoted": "examples/proctor-breeze"}, None),
        ):
            with pytest.raises(BlockFailed):
                reader.do(Block("page", 1, language, text, notes, None, shown))
        reader.do(Block("page", 1, "python", "print(7)\n", {"before": "x = 3"}, None, "7\n"))
        reader.do(Block("page", 1, "python", "print(x)\n", {}, None, "3\n"))


def test_every_block_and_note_is_of_a_known_kind() -> None:
    every = [block for page in pages() for block in blocks_of(page)]
    assert [str(block) for block in every if block.language not in FENCED] == []
    assert [(str(block), note) for block in every for note in block.notes if note not in NOTES] == []
    assert [str(block) for block in every if block.notes.get("not run") == ""] == []
    for block in every:
        if "tested by" in block.notes:
            assert Path(block.page).name in (ROOT / block.notes["tested by"]).read_text(), block


def test_the_count_is_of_all_blocks() -> None:
    every = [block for page in pages() for block in blocks_of(page) if block.language in RUNNABLE]
    assert count().startswith(f"{len(every)} shell and Python blocks")
