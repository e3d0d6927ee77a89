import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import mgnni.train.folder as module
from mgnni.errors import DataError
from mgnni.train.folder import FILES, Folder, load_checkpoint, save_checkpoint
from train.cases import config, node_task, runs, training

HEADER = {"format": 1, "config": {"lr": 0.1, "model": {"scales": (1, 2)}}, "runs": [{"seed": 0}]}


def opened(path: Path, resume: bool = False, header=None):
    with Folder(path) as folder:
        return folder.open(HEADER if header is None else header, resume)


def files(path: Path) -> set[str]:
    return {name for name in os.listdir(path) if name != ".lock"}


def test_a_new_folder_holds_what_was_asked_for(tmp_path):
    path = tmp_path / "a" / "b"
    assert opened(path) is None
    assert files(path) == {"config.json"}
    assert json.loads((path / "config.json").read_text()) == json.loads(json.dumps(HEADER))


def test_an_option_that_is_newer_than_the_folder_has_its_default(tmp_path):
    older = {**HEADER, "config": {"lr": 0.1, "model": {"scales": (1, 2)}}}
    newer = {**HEADER, "config": {"lr": 0.1, "model": {"scales": (1, 2), "blocks": 1}}}
    opened(tmp_path, header=older)
    opened(tmp_path, resume=True, header=newer)
    newer["config"]["model"]["blocks"] = 2
    with pytest.raises(DataError, match=r"model\.blocks = 1 \(asked for: 2\)"):
        opened(tmp_path, resume=True, header=newer)


def test_an_empty_folder_and_one_of_other_things_will_do(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".film.mkv.1.part").write_text("half of it")
    opened(tmp_path)
    assert files(tmp_path) == {"config.json", "notes.txt", ".film.mkv.1.part"}


@pytest.mark.parametrize("name", [name for name in FILES if name != "config.json"])
@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name, resume):
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=rf"holds a {name} of something else; choose another"):
        opened(tmp_path, resume)
    assert files(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "mine"


def test_a_training_is_not_begun_twice(tmp_path):
    opened(tmp_path)
    with pytest.raises(DataError, match="already holds a training; continue it with --resume"):
        opened(tmp_path)
    assert opened(tmp_path, resume=True) is None


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ({**HEADER, "format": 2}, r"format = 1 \(asked for: 2\)"),
        (
            {**HEADER, "config": {"lr": 0.2, "model": {"scales": (1, 2)}}},
            r"config\.lr = 0\.1 \(asked for: 0\.2\)",
        ),
        ({**HEADER, "config": {"lr": 0.1, "model": {"scales": (1,)}}}, r"config\.model\.scales"),
        ({**HEADER, "runs": [{"seed": 1}]}, r"runs = \[\{'seed': 0\}\]"),
        ({**HEADER, "more": 1}, r"more = None \(asked for: 1\)"),
        ({"format": 1}, r"config = .*\(asked for: None\)"),
    ],
)
def test_another_training_is_refused_by_what_differs(tmp_path, header, what):
    opened(tmp_path)
    with pytest.raises(DataError, match=f"holds another training, with {what}"):
        opened(tmp_path, resume=True, header=header)


@pytest.mark.parametrize("config", [[], None, "text", 3])
def test_a_configuration_that_is_no_table_is_that_of_another_training(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps({**HEADER, "config": config}))
    with pytest.raises(DataError, match="holds another training, with config"):
        opened(tmp_path, resume=True)


def test_a_config_that_cannot_be_read(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{\xff")
    with pytest.raises(DataError, match=r"config\.json: cannot be read as JSON"):
        opened(tmp_path, resume=True)


@pytest.mark.parametrize("content", [[1, 2], "text", 3, None])
def test_a_config_that_is_no_object_is_an_error_without_the_configuration(tmp_path, content):
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"config\.json: must hold a JSON object") as caught:
        opened(tmp_path, resume=True)
    assert "scales" not in str(caught.value)


def test_the_wording_of_notes_does_not_make_another_training(tmp_path):
    opened(tmp_path, header={**HEADER, "data": {"nodes": 3, "notes": ["no labels: 2 nodes"]}})
    assert not opened(tmp_path, True, {**HEADER, "data": {"nodes": 3, "notes": []}})
    with pytest.raises(DataError, match=r"data\.nodes = 3 \(asked for: 4\)"):
        opened(tmp_path, True, {**HEADER, "data": {"nodes": 4, "notes": []}})


def test_a_long_difference_is_shortened(tmp_path):
    opened(tmp_path, header={**HEADER, "runs": [{"seed": seed} for seed in range(1000)]})
    with pytest.raises(DataError, match="holds another training, with runs = ") as caught:
        opened(tmp_path, resume=True)
    assert len(str(caught.value)) < 2 * len(str(tmp_path)) + 400


def test_a_path_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataError, match=r"must be a folder that can be written to \("):
            opened(path)


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    def refused(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLock, "acquire", refused)
    with pytest.raises(DataError, match=r"can be written to \(permission denied\)"):
        opened(tmp_path)


def test_two_in_one_process_do_not_share_it(tmp_path):
    with Folder(tmp_path), pytest.raises(DataError, match="another process is training here"):
        Folder(tmp_path).__enter__()
    opened(tmp_path)  # free again


def test_two_processes_do_not_share_it(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom filelock import FileLock\n"
        f"with FileLock(Path({str(tmp_path)!r}) / '.lock'):\n"
        "    print('locked', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(DataError, match="another process is training here; wait for it"):
            opened(tmp_path)
        other.kill()  # the lock dies with its holder
    opened(tmp_path)


def test_drafts_of_a_killed_process_are_removed(tmp_path):
    opened(tmp_path)
    for name in FILES:
        (tmp_path / f".{name}.123.part").write_bytes(b"half")
    opened(tmp_path, resume=True)
    assert files(tmp_path) == {"config.json"}


def begun(tmp_path):
    made = training(node_task(1), config(epochs=2), runs())
    next(made.epochs())
    folder = Folder(tmp_path, every=0)
    return made, folder


def test_a_checkpoint_is_a_state_and_a_log(tmp_path):
    made, folder = begun(tmp_path)
    with folder:
        folder.open(HEADER, False)
        folder.save(made, 3.5)
        assert files(tmp_path) == {"config.json", "state.pt", "log.jsonl"}
        rows = (tmp_path / "log.jsonl").read_text().splitlines()
        assert [json.loads(row) for row in rows] == made.log
    state = opened(tmp_path, resume=True)
    other = training(node_task(1), config(epochs=2), runs())
    assert folder.restore(other, state) == 3.5
    assert other.epoch == 1
    for name, value in made.learner.ensemble.snapshot().items():
        assert torch.equal(value, other.learner.ensemble.snapshot()[name])


def test_checkpoints_take_a_twentieth_of_the_time_at_most(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    made, _ = begun(tmp_path)
    written = []

    def slow(self, name, content):
        now[0] += 1.0  # two files: two seconds
        written.append(name)

    folder = Folder(tmp_path, every=10)
    monkeypatch.setattr(Folder, "_write", slow)
    folder.save(made, 0.0)
    assert written == ["state.pt", "log.jsonl"]
    for later, count in ((102.5, 2), (139.9, 2), (140.0, 4)):
        now[0] = later
        folder.save(made, 0.0)
        assert len(written) == count


def test_a_full_disk_is_named_as_the_cause(tmp_path):
    resource = pytest.importorskip("resource")  # not on every system
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    content = {str(number): torch.zeros(5000) for number in range(20)}  # 400 kB
    resource.setrlimit(resource.RLIMIT_FSIZE, (390_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_checkpoint(tmp_path / "state.pt", content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    assert not files(tmp_path)


def test_a_finished_training(tmp_path):
    made, folder = begun(tmp_path)
    with folder:
        folder.open(HEADER, False)
        folder.save(made, 1.0)
        assert not folder.complete
        folder.finish(made, {"a": torch.ones(2)}, {"score": 0.5})
        assert folder.complete
        assert folder.report() == {"score": 0.5}
    assert files(tmp_path) == {"config.json", "log.jsonl", "model.pt", "report.json"}
    assert torch.equal(load_checkpoint(tmp_path / "model.pt")["a"], torch.ones(2))
    # Killed between the report and the removal of the state, it is complete all the same.
    (tmp_path / "state.pt").write_bytes(b"left")
    assert opened(tmp_path, resume=True) is None
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(DataError, match=r"report\.json: cannot be read as JSON; delete it"):
        folder.report()


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    made, folder = begun(tmp_path)
    with folder:
        folder.open(HEADER, False)
        folder.save(made, 1.0)
        before = (tmp_path / "state.pt").read_bytes()

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        folder._next = 0.0
        with pytest.raises(OSError, match="No space left"):
            folder.save(made, 2.0)
    assert (tmp_path / "state.pt").read_bytes() == before
    assert files(tmp_path) == {"config.json", "state.pt", "log.jsonl"}


def test_the_report_is_the_last_word(tmp_path, monkeypatch):
    made, folder = begun(tmp_path)
    written = []
    monkeypatch.setattr(Folder, "_write", lambda self, name, content: written.append(name))
    folder.finish(made, {}, {})
    assert written[-1] == "report.json"
    assert set(written) == {"model.pt", "log.jsonl", "report.json"}


def damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "a bit":
        with zipfile.ZipFile(path) as archive:  # a byte of the tensors, not of the padding
            largest = max(archive.infolist(), key=lambda entry: entry.file_size)
            with archive.open(largest) as file:
                middle = whole.index(file.read()) + largest.file_size // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    elif how == "text":
        path.write_text("hello")
    else:
        torch.save({"seconds": 1.0, "finished": []}, path)


@pytest.mark.parametrize("how", ["empty", "cut", "a bit", "text", "other keys"])
def test_a_damaged_state_is_an_error_with_a_way_out(tmp_path, how):
    made, folder = begun(tmp_path)
    with folder:
        folder.open(HEADER, False)
        folder.save(made, 1.0)
    damage(tmp_path / "state.pt", how)
    with pytest.raises(DataError, match=r"state\.pt: .*; delete it to train from the beginning$"):
        folder.restore(
            training(node_task(1), config(epochs=2), runs()), opened(tmp_path, resume=True)
        )
    (tmp_path / "state.pt").unlink()
    assert opened(tmp_path, resume=True) is None


def test_a_state_of_another_shape_is_an_error_with_a_way_out(tmp_path):
    made, folder = begun(tmp_path)
    state = {**made.state(), "seconds": 1.0}
    for other in (
        training(node_task(1), config(epochs=2, hidden_channels=7), runs()),
        training(node_task(1), config(epochs=2, batch_norm=True), runs()),
    ):
        with pytest.raises(DataError, match=r"state\.pt: does not fit this training \(.*beginning"):
            folder.restore(other, state)


def test_a_checkpoint_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(no such file or directory\)"):
        load_checkpoint(tmp_path / "nowhere.pt")
    with pytest.raises(DataError, match=r"cannot be read \(is a directory\)"):
        load_checkpoint(tmp_path)
