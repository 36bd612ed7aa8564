"""What the resources of saltbridge share: the bridge, asked with the rights of the stack's project."""

import time
import urllib.parse

from heat.common import exception
from heat.engine import constraints
from heat.engine import function
from heat.engine import properties
from heat.engine import resource
from keystoneauth1 import exceptions as keystone_errors
from oslo_config import cfg
from oslo_log import log as logging

try:
    from . import saltbridge_bridge
    from . import saltbridge_run
except ImportError:
    import saltbridge_bridge
    import saltbridge_run

LOG = logging.getLogger(__name__)
GROUP = 'clients_saltbridge'
cfg.CONF.register_opts([
    cfg.StrOpt('url', help='HTTP API of the master, https://HOST:PORT.'),
    cfg.StrOpt('ca_file', help='Certificates that the API is verified with. Default: the system.'),
    cfg.IntOpt('timeout', default=10, min=1, max=60, help='Seconds without an answer.'),
], group=GROUP)

VALIDATION_TIMEOUT = 5
# A template of many resources does not wait for the same absent master once for each of them.
UNREACHABLE_SECONDS = 10
_unreachable_until = 0.0


class SaltbridgeResource(resource.Resource):
    """A resource that the bridge of a Salt master provides."""

    # Heat makes a trust of the owner, whose tokens the bridge is asked with.
    requires_deferred_auth = True

    def bridge(self):
        """With the project's rights, for all that happens after the stack was accepted."""
        stored = self.stack.stored_context() if self.stack.user_creds_id else self.context
        return _connect(stored, cfg.CONF[GROUP].timeout)

    def ask_catalog(self, ask, path):
        """What ``ask(bridge)`` returns, with the rights of who sent the template.

        None if the master cannot be reached now: what it would reject fails the resource later.
        """
        global _unreachable_until
        try:
            bridge = _connect(self.context, VALIDATION_TIMEOUT)
        except exception.Error as error:
            raise exception.StackValidationFailed(path=path, message=str(error)) from error
        if time.monotonic() < _unreachable_until:
            return None
        try:
            return ask(bridge)
        except saltbridge_bridge.BridgeError as error:
            if not saltbridge_run.is_transient(error):
                message = '%s (%s)' % (error, error.code)
                raise exception.StackValidationFailed(path=path, message=message) from error
            LOG.warning('not validated against the bridge: %s', error)
            _unreachable_until = time.monotonic() + UNREACHABLE_SECONDS
            return None


def _connect(context, timeout):
    options = cfg.CONF[GROUP]
    if not options.url:
        raise exception.Error('heat.conf: [%s] url is not set' % GROUP)
    url = urllib.parse.urlsplit(options.url)
    if url.scheme != 'https' and url.hostname not in ('127.0.0.1', '::1', 'localhost'):
        raise exception.Error('heat.conf: [%s] url: expected https, because tokens of projects '
                              'are sent there' % GROUP)
    return saltbridge_bridge.Bridge(options.url, token=lambda: _token(context),
                                    ca_file=options.ca_file, timeout=timeout)


def _token(context):
    try:
        return context.keystone_session.get_token()
    except (keystone_errors.ConnectFailure, keystone_errors.RetriableConnectionFailure,
            keystone_errors.HttpServerError) as error:
        raise saltbridge_bridge.BridgeError(
            'ERR_BRIDGE_ANSWER', 'Keystone gives no token: %s' % error) from error
    except keystone_errors.ClientException as error:
        raise saltbridge_bridge.BridgeError(
            'ERR_EAUTH', 'Keystone gives no token for this project: %s' % error, 401) from error


def split_resolved(value):
    """A map of a template as what is known of it, and the names that wait for other resources."""
    if isinstance(value, function.Function):
        if _waits(value):
            return None, ()
        value = function.resolve(value)
    value = value or {}
    waiting = [name for name, item in value.items() if _waits(item)]
    known = {name: function.resolve(item) for name, item in value.items() if name not in waiting}
    return known, waiting


def _waits(snippet):
    return any(True for _ in function.dependencies(snippet))


def seconds_property(description, default):
    return properties.Schema(
        properties.Schema.INTEGER, description, default=default, update_allowed=True,
        constraints=[constraints.Range(min=1, max=7 * 86400)])
