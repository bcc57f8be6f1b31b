"""The supervisor of one run, a tiny separate process that outlives the service.

`shim.py` beside this package forks it, without the rest of Betimes and without `site`, so that it is quick
and small: the modules here import only each other and quick parts of the standard library.

A run's folder, and who writes what::

    launch.json  the service, before it starts a shim      shim.json  the shim, before it lets the command begin
    lock         held by the shim for life (flock)          exit.json  the shim, when nothing of the command is left
    log, log.1, ...  the command's output
    curve.json   the shim: the use of the run over its time, of bounded size
    shim.err     the shim's own errors                      log.lost  how many bytes of the output are not kept so far
    exit.reserved  room for exit.json on the disk, taken before the command begins and written in place
    job/         the command's own, BETIMES_RUN_DIR: handlers/ and units.json of `betimes.resizing` are there

Beside the runs' folders, and named by launch.json, is a FIFO a run: "stop GRACE_S", "signal NUMBER", "memory BYTES" for
another limit, and "gpus NAME,NAME" for other GPUs.

A run for which there is launch.json, but neither shim.json nor a locked lock, was never started: the command waits at
a gate that the shim opens when shim.json is there. A run with shim.json is never started again.
"""
