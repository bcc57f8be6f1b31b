"""The environment in which a job's command runs: a conda or virtual environment, or a container.

The command is wrapped when a run starts, by a few lines of shell that become it; the job's record keeps it as given.
"""

from __future__ import annotations

from collections.abc import Sequence

CONTAINERS = ("apptainer", "podman", "docker")  # the first that is installed is used

_CONDA = """
name=$1; shift
conda=$(command -v "${CONDA_EXE:-conda}") || for folder in ~/miniforge3 ~/miniconda3 ~/anaconda3 /opt/conda; do
    [ -x "$folder/bin/conda" ] && conda=$folder/bin/conda && break
done
if [ -z "$conda" ]; then
    echo "betimes: --conda $name: no conda is on this machine: none in PATH, ~/miniforge3, ~/miniconda3, ~/anaconda3" \\
        "or /opt/conda; name it: --env CONDA_EXE=/PATH/bin/conda" >&2
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
