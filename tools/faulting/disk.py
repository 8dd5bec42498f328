"""A disk of a few pages: a file system in memory, in a namespace of mounts that only this process has."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000  # for unshare(2)
NO_SUID, NO_DEVICES, REMOUNT, RECURSIVE, PRIVATE, DETACH = (
    2,
    4,
    32,
    16384,
    1 << 18,
    2,
)  # for mount(2), umount2(2)
PAGE = os.sysconf("SC_PAGE_SIZE")
PLENTY = 1 << 18  # pages, and files

libc = ctypes.CDLL(None, use_errno=True)


def available() -> bool:
    """Whether this process may mount; from here on it has mounts of its own. Before there are threads."""
    pid = os.fork()  # to try it
    if not pid:
        try:
            _own_mounts()
            mount(Path("/tmp"))
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        return False
    _own_mounts()
    return True


def _own_mounts() -> None:
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_MOUNTS):
        _check(libc.unshare(NEW_USER | NEW_MOUNTS))
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text)
    _check(libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None))


def _check(failed: int) -> None:
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(folder: Path, pages: int = PLENTY, files: int = PLENTY, again: bool = False) -> None:
    """Mount a disk with room for so much on a folder; `again`: give the one that is there as much room."""
    flags = NO_SUID | NO_DEVICES | (REMOUNT if again else 0)
    options = f"size={pages * PAGE},nr_inodes={files}".encode()
    _check(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options))


def unmount(folder: Path) -> None:
    libc.umount2(os.fsencode(folder), DETACH)


class Peak:
    """How many pages and files were used at most; call it often."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pages, self.files = folder, 0, 0

    def __call__(self) -> None:
        state = os.statvfs(self.folder)
        self.pages = max(self.pages, state.f_blocks - state.f_bfree)
        self.files = max(self.files, state.f_files - state.f_ffree)
