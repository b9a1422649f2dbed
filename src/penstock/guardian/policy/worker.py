"""The process in which a policy runs. It is started as a file, without any of our own packages.

Standard input has one line of JSON: the policy's name and text, the columns of the moves, and the limits. One line of
JSON is the answer: what `allow` and `score` give, as far as the policy has them, or `error`. What the
policy prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from math import ceil
from typing import Any

import numpy as np

FUNCTIONS = ("allow", "score")
LIMITS = {
    resource.RLIMIT_AS: "memory_bytes_max",
    resource.RLIMIT_FSIZE: "output_bytes_max",
    resource.RLIMIT_CPU: "cpu_seconds_max",
}
"""What bounds it even if whoever has started it is gone."""


def main() -> None:
    """Reads, runs, answers."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    question = json.loads(sys.stdin.buffer.readline())
    sys.stdin.close()
    for limit, name in LIMITS.items():
        most = ceil(question[name])
        resource.setrlimit(limit, (most, most))
    try:
        answer = run(question)
    except BaseException as error:  # whatever a policy does, SystemExit too, is for its author to read
        answer = {"error": said(error, question["name"])}
    with os.fdopen(answer_to, "w") as stream:
        json.dump(answer, stream)


def run(question: dict[str, Any]) -> dict[str, Any]:
    """What the policy answers. Raises whatever it raises."""
    namespace: dict[str, Any] = {"__name__": "policy"}
    exec(compile(question["text"], question["name"], "exec"), namespace)
    functions = {name: namespace.get(name) for name in FUNCTIONS}
    if not any(map(callable, functions.values())):
        return {"error": "it has neither a function allow nor a function score"}
    found: dict[str, Any] = {}
    for name, function in functions.items():
        columns = {key: np.array(values) for key, values in question["columns"].items()}
        if callable(function):
            found[name] = plain(function(columns))
    return found


def plain(values: Any) -> Any:
    """An array, or whatever else, as JSON can say it."""
    if isinstance(values, np.ndarray | np.generic):
        return values.tolist()
    return [plain(each) for each in values] if isinstance(values, list | tuple) else values


def said(error: BaseException, name: str) -> str:
    """An error, and the line of the policy where it came up."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    where = f" in line {line}" if line else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}{where}: {text[:500]}"


if __name__ == "__main__":
    main()
