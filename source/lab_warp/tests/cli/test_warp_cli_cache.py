"""Compiled kernels carried from one cache to another, and two caches that are filled at once."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import warp as wp

from lab_core.cli import main
from lab_warp import kernel_cache
from lab_warp.kernel_cache import CacheError, pack, unpack

KERNEL = """
import sys
import warp as wp

wp.config.quiet = True

@wp.kernel
def double(values: wp.array[float]):
    i = wp.tid()
    values[i] = 2.0 * values[i]

values = wp.full(3, 2.0, dtype=float, device="cpu")
wp.launch(double, dim=3, inputs=[values], device="cpu")
print(values.numpy().tolist())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache in the place of this process's own."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: folder)
    return folder


def add_module(cache: Path, name: str, *binaries: str) -> None:
    folder = cache / name
    folder.mkdir()
    for file in (f"{name}.meta", *binaries):
        (folder / file).write_text(file)


def test_what_was_packed_is_there_after_unpacking(cache, tmp_path, monkeypatch):
    add_module(cache, "wp_a", "a.sm90.cubin")
    add_module(cache, "wp_b", "b.sm90.cubin")
    add_module(cache, "wp_c_p12_t34")  # being compiled
    (cache / "locks").mkdir()
    packed = tmp_path / "kernels.tar.gz"
    assert pack(packed) == 2
    other = tmp_path / "other"
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: other)
    assert unpack(packed) == (2, 0) and unpack(packed) == (0, 2)
    assert sorted(path.name for path in other.iterdir()) == ["wp_a", "wp_b"]
    assert (other / "wp_a" / "a.sm90.cubin").read_text() == "a.sm90.cubin"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []


def test_binaries_of_another_machine_stand_beside_ours(cache, tmp_path):
    add_module(cache, "wp_a", "a.sm90.cubin")
    packed = tmp_path / "kernels.tar.gz"
    pack(packed)
    (cache / "wp_a" / "a.sm90.cubin").unlink()
    (cache / "wp_a" / "a.sm120.cubin").write_text("ours")
    (cache / "wp_a" / "wp_a.meta").write_text("ours")
    assert unpack(packed) == (0, 1)
    assert sorted(path.name for path in (cache / "wp_a").iterdir()) == ["a.sm120.cubin", "a.sm90.cubin", "wp_a.meta"]
    assert (cache / "wp_a" / "wp_a.meta").read_text() == "ours"


def test_what_is_no_packed_cache_is_refused(cache, tmp_path):
    with pytest.raises(CacheError, match="There are no compiled kernels"):
        pack(tmp_path / "kernels.tar.gz")
    (tmp_path / "text.tar.gz").write_text("no archive")
    with pytest.raises(CacheError, match="Cannot unpack"):
        unpack(tmp_path / "text.tar.gz")
    for name, content, message in (("other", "x", "is no file that"), (kernel_cache._VERSION, "0.1", "by Warp 0.1")):
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
        with pytest.raises(CacheError, match=message):
            unpack(tmp_path / "a.tar.gz")
    assert list(cache.iterdir()) == []


def test_the_command_carries_kernels(cache, tmp_path, capsys):
    add_module(cache, "wp_a", "a.o")
    packed = tmp_path / "kernels.tar.gz"
    assert main(["cache", "pack", str(packed)]) == 0 and main(["cache", "unpack", str(packed)]) == 0
    text = capsys.readouterr().out
    assert "Packed 1 kernel modules" in text and "0 kernel modules into" in text and "1 were there already" in text
    assert main(["cache", "burn", str(packed)]) == 1
    assert "lab cache pack FILE" in capsys.readouterr().err


@pytest.mark.slow
def test_two_cold_starts_at_once_do_not_disturb_each_other(tmp_path):
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    cache = tmp_path / "empty"
    command, environment = [sys.executable, str(script)], {**os.environ, "WARP_CACHE_PATH": str(cache)}
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        out, error = process.communicate(timeout=200)
        assert process.returncode == 0 and "[4.0, 4.0, 4.0]" in out, error
    modules = [path for path in (cache / wp.__version__).iterdir() if path.name.startswith("wp_")]
    assert len(modules) == 1 and list(modules[0].glob("*.o"))  # and nothing half-done beside it
