"""Memory of the host, where a container has less."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.common.host_memory import available_memory

GIB = 2**30


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def _available(root: Path, group: str = "0::/\n") -> int:
    _write(root, {"proc/meminfo": f"MemTotal: {16 * 2**20} kB\nMemAvailable: {8 * 2**20} kB\n"})
    _write(root, {"proc/self/cgroup": group})
    return available_memory(root / "proc", root / "cgroup")


def _limit(root: Path, most: int | str, current: int = 0, files: int = 0) -> None:
    stat = f"anon 7\nactive_file {files // 2}\ninactive_file {files // 2}\n"
    _write(root, {"memory.max": f"{most}\n", "memory.current": f"{current}\n", "memory.stat": stat})


@pytest.mark.parametrize("group", ["0::/\n", "4:memory:/a\n", ""])
def test_without_a_limit_it_is_the_host_s(tmp_path: Path, group: str) -> None:
    assert _available(tmp_path, group) == 8 * GIB
    _limit(tmp_path / "cgroup", "max")
    assert _available(tmp_path, group) == 8 * GIB
    (tmp_path / "proc/self/cgroup").unlink()
    assert available_memory(tmp_path / "proc", tmp_path / "cgroup") == 8 * GIB


def test_a_container_s_limit_counts(tmp_path: Path) -> None:
    _limit(tmp_path / "cgroup", 4 * GIB, current=3 * GIB, files=GIB)
    assert _available(tmp_path) == 2 * GIB
    _limit(tmp_path / "cgroup", 64 * GIB, current=GIB)
    assert _available(tmp_path) == 8 * GIB


def test_the_least_of_all_groups_above_counts(tmp_path: Path) -> None:
    _limit(tmp_path / "cgroup/outer", 2 * GIB, current=GIB)
    _limit(tmp_path / "cgroup/outer/inner", "max")
    assert _available(tmp_path, "1:name=x:/\n0::/outer/inner\n") == GIB


def test_nothing_is_left_beyond_a_limit(tmp_path: Path) -> None:
    _limit(tmp_path / "cgroup", GIB, current=GIB + 4096)
    assert _available(tmp_path) == 0


def test_without_meminfo_it_is_half_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.__getitem__)
    assert available_memory(tmp_path / "proc", tmp_path / "cgroup") == 20480


def test_this_machine_has_some() -> None:
    assert available_memory() > 0
