"""
Salt's job cache, read from the running saltbridge master over its local socket.

Salt's own clients load this returner through ``master_job_cache: saltbridge`` and ``returner_dirs`` of the
configuration that ``saltbridge localclient enable`` writes. It only reads: the master stores each job and
each return itself.
"""

import base64
import datetime
import http.client
import json
import socket

import salt.exceptions
import salt.utils.jid

__virtualname__ = "saltbridge"

_TIMEOUT = 60


def __virtual__():
    if "saltbridge_socket" not in __opts__:
        return False, "the configuration has no saltbridge_socket"
    return __virtualname__


class _LocalConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT)
        self.sock.connect(__opts__["saltbridge_socket"])


def _unmark(value):
    """JSON of saltbridge has no bytes, dates or other keys than text: they are maps with one marked key."""
    if len(value) != 1:
        return value
    ((name, content),) = value.items()
    if name == "$bytes":
        return base64.b64decode(content)
    if name == "$map":
        return {key: item for key, item in content}
    if name == "$float":
        return float(content)
    if name == "$int":
        return int(content)
    if name == "$datetime":
        return datetime.datetime.strptime(content, "%Y%m%dT%H:%M:%S.%f")
    return value


def _call(method, **parameters):
    """The result of a method of the master's interface; None for a job that is not kept."""
    connection = _LocalConnection("localhost", timeout=_TIMEOUT)
    try:
        body = json.dumps(parameters)
        connection.request("POST", "/rpc/" + method, body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read().decode(), object_hook=_unmark)
    except (OSError, ValueError, http.client.HTTPException) as exc:
        raise salt.exceptions.SaltClientError(
            "the saltbridge master does not answer on {}: {}".format(
                __opts__["saltbridge_socket"], exc
            )
        )
    finally:
        connection.close()
    error = answer.get("error")
    if error is None:
        return answer["result"]
    if error["code"] == "ERR_JOB_UNKNOWN":
        return None
    raise salt.exceptions.SaltClientError(error["message"])


def get_load(jid):
    """What was published under a job id; {} where no such job is kept."""
    job = _call("jobs.show", jid=str(jid))
    if job is None:
        return {}
    return {
        "jid": job["jid"],
        "fun": job["fun"],
        "arg": job["arg"],
        "tgt": job["tgt"],
        "tgt_type": job["tgtType"],
        "user": job["user"],
        "ret": "",
        "Minions": sorted(each["minion"] for each in job["deliveries"]),
    }


def get_jid(jid):
    """What the minions returned for a job, by their ids."""
    job = _call("jobs.show", jid=str(jid))
    returns = [] if job is None else job["returns"]
    return {
        each.get("resource", each["minion"]): {
            name: each[name] for name in ("return", "retcode", "success", "out") if name in each
        }
        for each in returns
    }


def get_jids():
    """All jobs that are kept, by their ids."""
    listing = _call("runners.run", fun="jobs.list_jobs")
    # The listing is a job of the master itself, which nobody asked for.
    listing["return"].pop(listing["jid"], None)
    return listing["return"]


def get_jids_filter(count, filter_find_job=True):
    """The latest jobs, the oldest of them first."""
    jobs = [
        dict(job, JobID=jid)
        for jid, job in sorted(get_jids().items())
        if not (filter_find_job and job.get("Function") == "saltutil.find_job")
    ]
    return jobs[-count:]


def prep_jid(nocache=False, passed_jid=None):
    """A job id for what this process does itself; nothing is stored under it."""
    return passed_jid if passed_jid else salt.utils.jid.gen_jid(__opts__)


def returner(load):
    """The master has taken what minions return; what this process returns is not kept."""


def save_load(jid, clear_load, minions=None):
    """The master has stored what it published."""


def save_minions(jid, minions, syndic_id=None):
    """The master has stored to whom it published."""
