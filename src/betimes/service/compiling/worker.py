"""The process that compiles a policy into the cache: its name is the argument, a refusal goes out as a line of JSON."""

from __future__ import annotations

import json
import os
import sys
import threading

from betimes.errors import InputError
from betimes.service.engines.named_policies import compile_policy


def main() -> None:
    """Compile one policy."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output is no answer
    threading.Thread(target=_heed, daemon=True).start()
    try:
        compile_policy(sys.argv[1])
    except InputError as error:
        answers.write(json.dumps({"refused": str(error)}))
    answers.close()


def _heed() -> None:
    """The end of the input means that the service has gone."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
