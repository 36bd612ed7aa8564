"""
Values that the minions of a stack write for each other: the data space of saltbridge.

A value is text under a key ROLE/NAME. Its role's minion writes it; minions whose roles are declared
to read it wait until it is there.
"""

import json
import os
import time

from salt.exceptions import CommandExecutionError

# Seconds that one request waits at the master.
_STEP = 20

# Answers after which the same request may succeed.
_AGAIN = ("ERR_DATA_BUSY", "ERR_DATA_UNAVAILABLE")


def _values_of_heat():
    """Values that Heat has resolved: user-data wrote them."""
    folder = os.path.dirname(__opts__.get("conf_file") or "/etc/salt/minion")
    try:
        with open(os.path.join(folder, "saltbridge", "values.json"), encoding="utf-8") as file:
            values = json.load(file)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _text(value):
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _ask(fun, **kwargs):
    """The answer of the master; None if it did not answer."""
    answer = __salt__["publish.runner"](fun, arg=[dict(kwargs, __kwarg__=True)])
    if not isinstance(answer, dict):
        return None
    if not answer:
        raise CommandExecutionError(
            "the master refuses the runner {}: a rule must permit it to this minion".format(fun)
        )
    return answer


def _declared():
    return __salt__["pillar.get"]("saltbridge:data", {})


def get(key, timeout=300, after=0):
    """
    Returns a value; waits until it is written.

    key
        ROLE/NAME
    timeout
        seconds to wait; 0 does not wait
    after
        a version that is known already: waits for a later one

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_data.get db/password timeout=600
    """
    known = _values_of_heat()
    if key in known:
        return _text(known[key])
    end = time.monotonic() + timeout
    while True:
        left = max(0, end - time.monotonic())
        answer = _ask("saltbridge_data.get", key=key, wait=min(left, _STEP), after=after)
        if answer is not None and "value" in answer:
            return answer["value"]
        error = answer.get("error", {}) if answer else {"message": "the master does not answer"}
        may_come = answer is None or error.get("code") in ("ERR_DATA_TIMEOUT",) + _AGAIN
        if not may_come or time.monotonic() >= end:
            waited = " (waited {} s)".format(timeout) if may_come else ""
            raise CommandExecutionError("{}{}".format(error.get("message"), waited))
        if answer is None or error.get("code") in _AGAIN:
            time.sleep(1)


def put(key, value, timeout=60):
    """
    Writes a value of this minion's role, and returns its version. Other values than text are
    written as JSON. A value that nobody reads is not sent; its version is 0.

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_data.put db/password secret
    """
    if key in _declared().get("unread", []):
        return 0
    end = time.monotonic() + timeout
    while True:
        answer = _ask("saltbridge_data.put", key=key, value=_text(value))
        if answer is not None and "version" in answer:
            return answer["version"]
        error = answer.get("error", {}) if answer else {"message": "the master does not answer"}
        may_succeed = answer is None or error.get("code") in _AGAIN
        if not may_succeed or time.monotonic() >= end:
            raise CommandExecutionError(error.get("message"))
        time.sleep(1)


def attributes(timeout=300):
    """
    Returns all values that this minion's role reads, by the names of its own software; waits until
    they are written.

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_data.attributes
    """
    reads = _declared().get("reads", {})
    end = time.monotonic() + timeout
    return {name: get(key, max(0, end - time.monotonic())) for name, key in reads.items()}


def put_attributes(values):
    """
    Writes values of this minion's role, by the names of its own software, and returns their
    versions. Names that the role does not write are left out.

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_data.put_attributes '{"mysql:port": 3306}'
    """
    writes = _declared().get("writes", {})
    return {name: put(writes[name], value) for name, value in values.items() if name in writes}


def put_file(path):
    """
    Writes values as put_attributes does, from a file with a JSON object: what is in an argument can be
    read by everybody on the machine.

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_data.put_file /root/values.json
    """
    with open(path, encoding="utf-8") as file:
        values = json.load(file)
    if not isinstance(values, dict):
        raise CommandExecutionError("{}: expected a JSON object".format(path))
    return put_attributes(values)
