"""
The instances of this minion's own project: what was started together finds each other by them.

One of them that answers is enough to begin with; nothing of their state is told.
"""

from salt.exceptions import CommandExecutionError

__func_alias__ = {"list_": "list"}


def _ask(**kwargs):
    answer = __salt__["publish.runner"]("saltbridge_peers.list", arg=[dict(kwargs, __kwarg__=True)])
    if not isinstance(answer, dict):
        raise CommandExecutionError("the master does not answer")
    if not answer:
        raise CommandExecutionError(
            "the master refuses the runner saltbridge_peers.list: a rule must permit it to this minion"
        )
    if "error" in answer:
        raise CommandExecutionError(answer["error"].get("message"))
    return answer


def list_(together=False):
    """
    Returns the peers of this minion: project_id, self, and peers with id, name, minion,
    availability_zone, reservation_id, security_groups and networks.

    together
        only those that were started by the same request

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_peers.list together=True
    """
    return _ask(together=bool(together))


def addresses(network=None, version=4, together=False):
    """
    Returns addresses of the peers, one by one.

    network
        id or name of a network; default: all
    version
        4 or 6

    CLI Example:

    .. code-block:: bash

        salt-call saltbridge_peers.addresses private
    """
    found = []
    for peer in _ask(together=bool(together))["peers"]:
        for port in peer.get("networks", []):
            if network in (None, port.get("id"), port.get("label")):
                found.extend(
                    one["address"] for one in port["addresses"] if one["version"] == version
                )
    return found
