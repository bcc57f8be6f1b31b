"""The environment in which a job's command runs: a conda or virtual environment, a container, or a terminal.

The command is wrapped by a few lines of shell that become it when a run starts, so that the job's record keeps it as
given; for a terminal, which is one client's, by that client.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

CONTAINERS = ("apptainer", "podman", "docker")  # the first that is installed is used

_CONDA = """
name=$1; shift
conda=$(command -v "${CONDA_EXE:-conda}") || for folder in ~/miniforge3 ~/miniconda3 ~/anaconda3; do
    [ -x "$folder/bin/conda" ] && conda=$folder/bin/conda && break
done
if [ -z "$conda" ]; then
    echo "betimes: --conda $name: no conda is on this machine: none in PATH, ~/miniforge3, ~/miniconda3" \\
        "or ~/anaconda3; name it: --env CONDA_EXE=/PATH/bin/conda" >&2
    exit 127
fi
eval "$("$conda" shell.posix hook)" && conda activate "$name" || exit 127
exec "$@"
"""
_VENV = """
export VIRTUAL_ENV="$1"; shift
if [ ! -x "$VIRTUAL_ENV/bin/python" ]; then
    echo "betimes: --venv $VIRTUAL_ENV: there is none: bin/python is missing; make it: python3 -m venv" >&2
    exit 127
fi
PATH="$VIRTUAL_ENV/bin:$PATH"; unset PYTHONHOME
exec "$@"
"""
_IMAGE = """
image=$1 memory=$2; shift 2
for tool in TOOLS none; do command -v "$tool" >/dev/null && break; done
case $tool in
    none) echo "betimes: --image $image: none of TOOLS is installed on this machine" >&2; exit 127;;
    apptainer) case $image in *://*) ;; *) [ -e "$image" ] || image=docker://$image;; esac;;
    *) image=${image#docker://};;
esac
set -- "$image" "$@"
seen=:/::
for folder in "$HOME" "$PWD" "$BETIMES_RUN_DIR" "$BETIMES_CHECKPOINT_DIR"; do
    case $seen in
        *":$folder:"*) ;;
        *) seen=$seen$folder: ; set -- "$folder:$folder" "$@"
            if [ $tool = apptainer ]; then set -- --bind "$@"; else set -- --volume "$@"; fi;;
    esac
done
if [ $tool = apptainer ]; then
    [ -z "$CUDA_VISIBLE_DEVICES" ] || set -- --nv "$@"
    exec apptainer exec --pwd "$PWD" "$@"
fi
for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z_0-9]*\\)=.*/\\1/p'); do
    case $name in PATH | SHELL | TMPDIR | LD_*) ;; *) set -- --env "$name" "$@";; esac
done
if [ $tool = podman ]; then
    [ -z "$CUDA_VISIBLE_DEVICES" ] || set -- --device nvidia.com/gpu=all "$@"
else
    [ -z "$CUDA_VISIBLE_DEVICES" ] || set -- --gpus all "$@"
    [ -z "$BETIMES_CPUS" ] || set -- --cpuset-cpus "$BETIMES_CPUS" "$@"
    [ "$memory" = 0 ] || set -- --memory "$memory" "$@"
    set -- --user "$(id -u):$(id -g)" "$@"
fi
exec "$tool" run --rm --interactive --init --network host --workdir "$PWD" "$@"
""".replace("TOOLS", " ".join(CONTAINERS))


_TERMINAL = """\
import fcntl, os, pty, select, signal, socket, struct, sys, termios

path, command = sys.argv[1], sys.argv[2:]
link = socket.socket(socket.AF_UNIX)
try:
    link.connect(path)
except OSError as error:
    sys.exit("betimes: its terminal is gone, or on another machine: %s" % error.strerror)
frame, typed = struct.Struct("!cHH"), b""
while len(typed) < frame.size:
    piece = link.recv(frame.size - len(typed))
    if not piece:
        sys.exit("betimes: its terminal is gone")
    typed += piece
size = frame.unpack(typed)[1:]
pid, terminal = pty.fork()
if not pid:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print("betimes: %s: %s" % (command[0], error.strerror))
        os._exit(127)
typed, sources = b"", [terminal, link]
while True:
    ready = select.select(sources, [], [])[0]
    if link in ready:
        piece = link.recv(65536)
        typed += piece
        if not piece:
            os.kill(pid, signal.SIGHUP)
            sources.remove(link)
        while len(typed) >= frame.size:
            kind, number, columns = frame.unpack(typed[: frame.size])
            if kind == b"s":
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", number, columns, 0, 0))
                number = 0
            elif len(typed) < frame.size + number:
                break
            text, typed = typed[frame.size : frame.size + number], typed[frame.size + number :]
            while text:
                text = text[os.write(terminal, text) :]
    if terminal in ready:
        try:
            shown = os.read(terminal, 65536)
        except OSError:  # nothing has it open any more
            shown = b""
        if not shown:
            break
        os.write(1, shown)
        if link in sources:
            try:
                link.sendall(shown)
            except OSError:
                os.kill(pid, signal.SIGHUP)
                sources.remove(link)
status = os.waitpid(pid, 0)[1]
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
"""
_PYTHON = ("-I", "-S", "-c", _TERMINAL)


def wrapped(
    command: Sequence[str], conda: str | None, venv: str | None, image: str | None, memory_gib: float
) -> tuple[str, ...]:
    """The command within its environment; as it is where none is named. memory_gib: of the run, 0: no limit."""
    if conda is not None:
        script, arguments = _CONDA, [conda]
    elif venv is not None:
        script, arguments = _VENV, [venv]
    elif image is not None:
        script, arguments = _IMAGE, [image, str(round(memory_gib * 2**30))]
    else:
        return tuple(command)
    # Other shells lose the functions of a bash, such as `module`.
    shell = "bash" if command[0] == "bash" else "sh"
    return (shell, "-c", script.strip(), "betimes", *arguments, *command)


def with_terminal(command: Sequence[str], socket: str) -> list[str]:
    """The command with a terminal that a client on the same machine shows, who listens at this Unix socket.

    What is printed is also the job's output. From the client come frames: `s`, rows, columns, at
    first and after each change; and `t`, the bytes of typed text that follow, 0.
    """
    return [sys.executable, *_PYTHON, socket, *command]


def in_terminal(command: Sequence[str]) -> Sequence[str] | None:
    """The command of `with_terminal`; null: it has none."""
    return command[len(_PYTHON) + 2 :] if tuple(command[1 : len(_PYTHON) + 1]) == _PYTHON else None
