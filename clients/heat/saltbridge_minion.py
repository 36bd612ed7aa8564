"""OS::Saltbridge::Minion."""

import time

from heat.common import exception
from heat.engine import attributes
from heat.engine import constraints
from heat.engine import properties
from heat.engine import resource

try:
    from . import saltbridge_resource
    from . import saltbridge_run
except ImportError:
    import saltbridge_resource
    import saltbridge_run

# Of the request to the bridge, by property.
FIELDS = {'method': 'by', 'format': 'format', 'address': 'address', 'instance': 'instance',
          'config': 'config', 'grains': 'grains', 'config_dir': 'configDir',
          'merge_user_data': 'beside', 'ticket_lifetime': 'lifetime'}
USER_DATA, TICKET = 'user_data', 'ticket'
TIMEOUT, DELETE_TIMEOUT = 'timeout', 'delete_timeout'
RETRY_SECONDS = 3
OVER = ('failed', 'retired')


def _text(description, allowed=None, default=None):
    limits = [] if allowed is None else [constraints.AllowedValues(allowed)]
    return properties.Schema(properties.Schema.STRING, description, default=default,
                             constraints=limits)


class Minion(saltbridge_resource.SaltbridgeResource):
    """A machine that is expected to become a minion. Its reference is the number of the enrolment.

    It is complete before the machine exists, because the machine is started with its user-data;
    ``enrolments`` of a Command waits for the machine to sign in.
    """

    properties_schema = {
        'id': _text('Id of the minion. Default: the physical name of this resource.'),
        'method': _text('How the machine comes to an accepted key.', ['claim', 'keys', 'grain'],
                        'claim'),
        'format': _text('What reads the user-data.',
                        ['cloud-init', 'shell', 'cloudbase-init', 'none'], 'cloud-init'),
        'address': _text('Address that the ticket must be shown from.'),
        'instance': _text('What the cloud calls the machine, if that is known before it starts.'),
        'config': properties.Schema(properties.Schema.MAP, 'More options of the minion.'),
        'grains': properties.Schema(properties.Schema.MAP, 'Its grains.'),
        'config_dir': _text('Directory of the configuration of the minion.'),
        'merge_user_data': _text('User-data that the machine gets as well.'),
        'ticket_lifetime': properties.Schema(
            properties.Schema.INTEGER, 'Seconds that the machine has to sign in.',
            constraints=[constraints.Range(min=1, max=86400)]),
        TIMEOUT: saltbridge_resource.seconds_property(
            'Seconds that a creation waits for the master.', 600),
        DELETE_TIMEOUT: saltbridge_resource.seconds_property(
            'Seconds that a deletion waits for the master.', 3600),
    }

    attributes_schema = {
        'minion_id': attributes.Schema('Id of the minion.', type=attributes.Schema.STRING),
        # Not cached, because Heat stores cached attributes unencrypted.
        USER_DATA: attributes.Schema(
            'User-data for the machine. A secret until the machine has signed in.',
            type=attributes.Schema.STRING, cache_mode=attributes.Schema.CACHE_NONE),
        TICKET: attributes.Schema(
            'The ticket alone, for machines that get it otherwise (format: none). A secret, too.',
            type=attributes.Schema.STRING, cache_mode=attributes.Schema.CACHE_NONE),
        'state': attributes.Schema(
            'State of the enrolment.', type=attributes.Schema.STRING,
            cache_mode=attributes.Schema.CACHE_NONE),
        'fingerprint': attributes.Schema(
            'Fingerprint of its key, once it is known.', type=attributes.Schema.STRING,
            cache_mode=attributes.Schema.CACHE_NONE),
    }

    always_replace_on_check_failed = False

    def _minion_id(self):
        return self.properties['id'] or self.physical_resource_name()

    def handle_create(self):
        return self.bridge(), time.monotonic() + self.properties[TIMEOUT]

    def check_create_complete(self, begun):
        bridge, deadline = begun
        asked = {field: self.properties[name] for name, field in FIELDS.items()}
        made = self._ask(lambda: bridge.enrol(self._minion_id(), **asked), deadline)
        # First, so that a deletion finds it whatever happens next.
        self.resource_id_set(made['enrolment']['number'])
        if len(made['userData']) > saltbridge_run.MAX_STORED:
            raise exception.Error('the user-data has %d characters, and Heat stores at most %d'
                                  % (len(made['userData']), saltbridge_run.MAX_STORED))
        self.data_set(USER_DATA, made['userData'], redact=True)
        self.data_set(TICKET, made['ticket'], redact=True)
        return True

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        """Times only; all else replaces the resource."""

    def handle_delete(self):
        if self.resource_id is None:
            return None
        return self.bridge(), time.monotonic() + self.properties[DELETE_TIMEOUT]

    def check_delete_complete(self, begun):
        if begun is None:
            return True
        bridge, deadline = begun
        try:
            self._ask(lambda: bridge.retire(self.resource_id), deadline)
        except UnknownEnrolment:
            pass
        return True

    def needs_replace_failed(self):
        """A check that could not be made replaces nothing; an enrolment that is over is replaced."""
        if self.resource_id is None or self.action == self.CREATE:
            return True
        try:
            return self._enrolment()['state'] in OVER
        except UnknownEnrolment:
            return True
        except exception.Error:
            return False

    def handle_check(self):
        enrolment = self._enrolment()
        if enrolment['state'] in OVER:
            raise exception.Error('the enrolment is %s: %s' % (
                enrolment['state'], enrolment.get('reason', '')))

    def _enrolment(self):
        return self._ask(lambda: self.bridge().enrolment(self.resource_id), 0)

    def _ask(self, ask, deadline):
        """The answer. Raises PollDelay until ``deadline`` while the master cannot answer."""
        try:
            return ask()
        except saltbridge_run.BridgeError as error:
            if error.code == 'ERR_ENROLL_UNKNOWN':
                raise UnknownEnrolment(str(error)) from error
            if saltbridge_run.is_transient(error) and time.monotonic() < deadline:
                raise resource.PollDelay(RETRY_SECONDS) from error
            raise exception.Error('%s (%s)' % (error, error.code)) from error

    def _resolve_attribute(self, name):
        if name == 'minion_id':
            return self._minion_id()
        if self.resource_id is None:
            return None
        if name in (USER_DATA, TICKET):
            return self.data().get(name)
        return self._enrolment().get(name)


class UnknownEnrolment(exception.Error):
    """The bridge has no enrolment of this number, for this project."""


def resource_mapping():
    return {'OS::Saltbridge::Minion': Minion}
