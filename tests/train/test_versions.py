import os
import re
import shutil
import subprocess

import pytest
import torch

import mgnni
import mgnni.train.versions as module
from mgnni.train.versions import commit, device_name, versions


def test_the_versions_that_decide():
    found = versions()
    assert found["mgnni"] == mgnni.__version__
    assert found["torch"] == torch.__version__
    assert set(found) == {"mgnni", "python", "torch", "torch_geometric", "numpy"}


def git(folder, *command):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *command], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_source(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # as in a hook
        monkeypatch.delenv(name)
    package = tmp_path / "src"
    package.mkdir()
    source = package / "versions.py"
    source.write_text("one\n")
    monkeypatch.setattr(module, "__file__", str(source))
    assert commit() is None  # no history at all
    git(tmp_path, "init", "--quiet")
    (tmp_path / "notes").write_text("of somebody else\n")
    git(tmp_path, "add", "notes")
    git(tmp_path, "commit", "--quiet", "-m", "another project")
    assert commit() is None  # installed below a project that is not ours
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "--quiet", "-m", "ours")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", head)
    assert commit() == head
    (tmp_path / "notes").write_text("changed, but not what is run\n")
    assert commit() == head
    source.write_text("two\n")
    assert commit() == head + "+"


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit() is None


def test_what_a_device_is_called():
    assert device_name(torch.device("cpu")) in (
        "cpu (1 thread)",
        f"cpu ({torch.get_num_threads()} threads)",
    )
    assert device_name(torch.device("mps")) == "mps"
