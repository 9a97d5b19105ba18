"""What `serve` refuses before anything heavy is imported or loaded."""

from __future__ import annotations

import os
import platform
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port

from spare_demo.cli import temporary_files
from spare_demo.cli.main import main
from spare_demo.cli.serve import check_address

ROOT = Path(__file__).parents[2]


def test_an_address_of_no_machine_is_refused_by_its_name(capsys: pytest.CaptureFixture) -> None:
    assert main(["serve", "--host", "999.1.1.1"]) == 1
    assert capsys.readouterr().err.startswith("999.1.1.1 is not an address of this machine.")
    for host in ("a\udcff", "a" * 70):  # a byte that is not UTF-8; a name too long
        with pytest.raises(ValueError, match="is not an address of this machine"):
            check_address(host, 0)
    with pytest.raises(ValueError, match=r"192\.0\.2\.1 is not an address of this machine"):
        check_address("192.0.2.1", 0)  # kept for documents: nobody has it


def test_a_port_in_use_is_refused_by_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"Port {port} is not free"):
            check_address("127.0.0.1", port)
    check_address("localhost", 0)


@pytest.mark.parametrize("words", [["--nonsense"], ["serve", "--port", "x"], ["serve", "--port=0"]])
def test_a_wrong_flag_is_refused_without_the_heavy_libraries(words: list[str]) -> None:
    code = (
        "import sys\nfrom spare_demo.cli.main import main\n"
        f"try: main({words!r})\n"
        "except SystemExit as end: assert end.code == 2, end.code\n"
        "assert not {'torch', 'gradio', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_on_zero_gpu_its_package_is_imported_before_any_other(tmp_path: Path) -> None:
    (tmp_path / "spaces.py").write_text(
        "import os, sys\n"
        "assert os.environ['HF_DEACTIVATE_ASYNC_LOAD'] == '1'\n"
        "assert not {'torch', 'gradio', 'transformers'} & set(sys.modules), 'too late'\n"
        "raise ValueError('spaces was imported first')\n"
    )
    environment = os.environ | {"SPACES_ZERO_GPU": "true", "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "app.py", "--port", str(free_port())],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (1, "spaces was imported first\n")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ALL_PROXY": "socks5://127.0.0.1:9"}, "Run pip install socksio"),
        ({"SSL_CERT_FILE": "/not/there.pem"}, "SSL_CERT_FILE names /not/there.pem"),
        ({"GRADIO_ROOT_PATH": "lab"}, "it must begin with /, such as /lab"),
    ],
)
def test_what_gradio_cannot_do_with_is_refused_in_a_sentence(
    variables: dict[str, str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "socksio.py").write_text("raise ImportError")
    environment = os.environ | variables | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "app.py", "--model", "built-in", "--port", str(free_port())]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_user_whose_number_has_no_name_gets_one() -> None:
    pytest.importorskip("pwd", reason="no such numbers on Windows")
    code = (
        "import os, pwd, sys\nfrom spare_demo.cli.main import main\n"
        "for name in ('LOGNAME', 'USER', 'LNAME', 'USERNAME'): os.environ.pop(name, None)\n"
        "pwd.getpwuid = {}.__getitem__\n"
        "sys.exit(main(['models', '--help']))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_python_without_the_packages_is_refused_in_a_sentence() -> None:
    command = [sys.executable, "-S", "-P", "app.py", "--port", str(free_port())]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.startswith("Python finds no package ")
    assert ended.stderr.count("\n") == 1


def test_a_package_that_cannot_be_loaded_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so: cannot open')")
    command = [sys.executable, "-m", "spare_demo", "methods"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and "cannot be loaded: libtorch_cpu.so" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_an_older_python_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer"):
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")


_COUNT_HEAPS = """
import ctypes, sys, threading
import spare_demo.models
from spare_demo.cli.main import main

def count_heaps(*given, **named):
    together = threading.Barrier(12)
    def allocate():
        held = bytearray(50_000)
        together.wait()
    threads = [threading.Thread(target=allocate) for _ in range(12)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(library.fopen(sys.argv[2].encode(), b"w"))
    library.malloc_info(0, file), library.fclose(file)
    raise ValueError("counted")

spare_demo.models.load_model = count_heaps
main(["serve", "--model", "built-in", "--port", sys.argv[1]])
"""


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_the_threads_of_a_server_share_heaps_whose_memory_can_be_given_back(tmp_path: Path) -> None:
    report = tmp_path / "heaps.xml"
    command = [sys.executable, "-c", _COUNT_HEAPS, str(free_port()), str(report)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.stderr == "counted\n"
    assert report.read_text().count("<heap nr=") <= 3  # those of the start, and two


@pytest.mark.parametrize("without", ["", "fcntl"])
def test_folders_of_killed_processes_go_and_those_of_others_stay(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on Windows, which has no fcntl, and refuses to delete a file that is open."""
    held = tmp_path / "spare-demo-held"
    if without:
        monkeypatch.setitem(sys.modules, without, None)
        unlink = Path.unlink

        def refusing(path: Path, missing_ok: bool = False) -> None:
            if path.parent == held:
                raise PermissionError(13, "It is being used by another process", str(path))
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", refusing)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    for name in ("held", "killed"):
        (tmp_path / f"spare-demo-{name}").mkdir()
        (tmp_path / f"spare-demo-{name}" / "upload.png").write_bytes(b"whole")
    (tmp_path / "spare-demo-killed" / ".lock").touch()
    lock = temporary_files._locked(held)
    with temporary_files.own_temporary_folder() as own:
        assert (own / ".lock").exists()
        assert sorted(tmp_path.iterdir()) == sorted([own, held])
        assert (held / "upload.png").exists()
    lock.close()
    assert list(tmp_path.iterdir()) == [held]


@pytest.mark.parametrize("step", ["_locked", "_set_temporary"])
def test_an_interrupt_while_its_folder_is_made_leaves_none(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = getattr(temporary_files, step)

    def interrupted(*given: object) -> None:
        make(*given)
        monkeypatch.setattr(temporary_files, step, make)
        raise KeyboardInterrupt

    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setattr(temporary_files, step, interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_files.own_temporary_folder():
        pass
    assert os.environ["GRADIO_TEMP_DIR"] == str(tmp_path)
    assert not list(tmp_path.iterdir())
