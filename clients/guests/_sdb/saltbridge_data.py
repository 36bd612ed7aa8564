"""
sdb://saltbridge/ROLE/NAME: values of the data space of saltbridge. Reading one waits until it is
written. The pillar has the profile: saltbridge: {driver: saltbridge_data}.
"""

__func_alias__ = {"set_": "set"}


def get(key, profile=None):
    """Returns a value; waits for it 300 s, or as long as timeout of the profile says."""
    timeout = (profile or {}).get("timeout", 300)
    return __salt__["saltbridge_data.get"](key, timeout=timeout)


def set_(key, value, profile=None):
    """Writes a value of this minion's role."""
    __salt__["saltbridge_data.put"](key, value)
    return value
