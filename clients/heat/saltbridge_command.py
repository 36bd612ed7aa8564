"""OS::Saltbridge::Command and OS::Saltbridge::Plan."""

import hashlib
import json
import time

from heat.common import exception
from heat.engine import attributes
from heat.engine import properties
from heat.engine import resource

try:
    from . import saltbridge_parameters
    from . import saltbridge_resource
    from . import saltbridge_run
except ImportError:
    import saltbridge_parameters
    import saltbridge_resource
    import saltbridge_run

PARAMS, TRIGGERS, ENROLMENTS = 'params', 'triggers', 'enrolments'
ON_UPDATE, ON_DELETE, ON_CHECK = 'on_update', 'on_delete', 'on_check'
TIMEOUT, DELETE_TIMEOUT = 'timeout', 'delete_timeout'

# Keys of the resource's data.
RUN, DELETION, SIGNAL, CHECK, OUTCOME, CREATED = (
    'run', 'deletion', 'signal', 'check', 'outcome', 'created')

ENROLMENT_POLL_SECONDS = 5


def _schemas(kind, target_properties):
    def other(description):
        return properties.Schema(
            properties.Schema.MAP, description, update_allowed=True, schema={
                kind: properties.Schema(properties.Schema.STRING, 'Its name.', required=True),
                PARAMS: properties.Schema(properties.Schema.MAP, 'Its parameters.', default={}),
            })

    return dict(target_properties, **{
        kind: properties.Schema(
            properties.Schema.STRING, 'Name in the catalog of the bridge.', required=True,
            update_allowed=True),
        PARAMS: properties.Schema(
            properties.Schema.MAP, 'Parameters, as the catalog describes them.', default={},
            update_allowed=True),
        TRIGGERS: properties.Schema(
            properties.Schema.MAP, 'Values whose change makes an update run it again.', default={},
            update_allowed=True),
        ENROLMENTS: properties.Schema(
            properties.Schema.LIST,
            'Resources OS::Saltbridge::Minion whose machines must have signed in before it runs.',
            schema=properties.Schema(properties.Schema.STRING), default=[], update_allowed=True),
        ON_UPDATE: other('What an update runs instead. Default: the same again.'),
        ON_DELETE: other('What a deletion runs on the same minions. Default: nothing.'),
        ON_CHECK: other('What "stack check" runs. Default: nothing; the bridge must permit %s.'
                        % kind),
        TIMEOUT: saltbridge_resource.seconds_property(
            'Seconds from the beginning of an action to the end of its run, with all waiting for '
            'enrolments and for the master.', 3600),
        DELETE_TIMEOUT: saltbridge_resource.seconds_property(
            'The same for a deletion.', 3600),
    })


def _attribute(kind, description):
    # From the resource's own data: nothing is asked, and what a signal changed is seen at once.
    return attributes.Schema(description, type=kind, cache_mode=attributes.Schema.CACHE_NONE)


class Attempt:
    """An action in progress."""

    def __init__(self, run, call, bridge, enrolments=()):
        self.run = run
        self.call = call
        self.bridge = bridge
        self.enrolments = list(enrolments)
        self.begun = time.monotonic()
        self.cancelled_record = None
        self.deadline = None


class RunResource(saltbridge_resource.SaltbridgeResource):
    """A run in the life of a stack. Subclasses say of what, and on which minions."""

    always_replace_on_check_failed = False
    signal_needs_metadata_updates = False

    KIND = None
    TARGET_PROPERTIES = ()

    def call_of(self, props, other=None):
        """What the properties describe; ``other``: an ``on_…`` that replaces name and params."""
        raise NotImplementedError

    def validate_target(self):
        """Without the bridge. Raises StackValidationFailed."""

    # Validation.

    def validate(self):
        super().validate()
        self.validate_target()
        raw = self.properties.data
        self._validate_call(self.properties[self.KIND], raw.get(PARAMS), [PARAMS])
        for name in (ON_UPDATE, ON_DELETE, ON_CHECK):
            other = self.properties[name]
            if other:
                given = raw.get(name)
                params = given.get(PARAMS) if hasattr(given, 'get') else other[PARAMS]
                self._validate_call(other[self.KIND], params, [name, PARAMS])

    def _validate_call(self, name, raw_params, path):
        if not name:
            return
        entry = self.ask_catalog(lambda bridge: self.catalog_entry(bridge, name), [self.KIND])
        if entry is None:
            return
        given, waiting = saltbridge_resource.split_resolved(raw_params)
        problems = [] if given is None else saltbridge_parameters.parameter_problems(
            entry['parameters'], given, waiting)
        problems += self.target_problems(entry)
        if problems:
            raise exception.StackValidationFailed(
                path=path, message='%s: %s' % (name, '; '.join(problems)))

    def catalog_entry(self, bridge, name):
        raise NotImplementedError

    def target_problems(self, entry):
        return []

    # Create and update.

    def needs_replace_failed(self):
        # The data of this resource says how far its run came.
        return False

    def _needs_update(self, *args, **kwargs):
        self._was_failed = self.status == self.FAILED
        return super()._needs_update(*args, **kwargs) or self._was_failed

    def handle_create(self):
        return self._begin(RUN, self.properties, self.call_of(self.properties))

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        props = json_snippet.properties(self.properties_schema, self.context)
        repeats = {self.KIND, PARAMS, TRIGGERS, *self.TARGET_PROPERTIES}
        is_unfinished = saltbridge_run.read_record(self, RUN) is not None
        if not (repeats & set(prop_diff) or is_unfinished or getattr(self, '_was_failed', False)):
            return None
        other = props[ON_UPDATE] if CREATED in self.data() else None
        return self._begin(RUN, props, self.call_of(props, other))

    def _begin(self, slot, props, call, key=None):
        if self.resource_id is None:
            # Any text will do, and it must not change with each run.
            self.resource_id_set(self.physical_resource_name())
        run = saltbridge_run.Run.begin(self, slot, call, props[TIMEOUT], key)
        return Attempt(run, call, self.bridge(), props[ENROLMENTS] or ())

    def check_create_complete(self, attempt):
        if attempt is None:
            return True
        self._await_enrolments(attempt)
        outcome = self._poll(attempt)
        self._keep(attempt.call, outcome)
        self.data_set(CREATED, 'yes')
        return True

    check_update_complete = check_create_complete

    def _await_enrolments(self, attempt):
        while attempt.enrolments:
            number = attempt.enrolments[0]
            try:
                enrolment = attempt.bridge.enrolment(number)
            except saltbridge_run.BridgeError as error:
                if not saltbridge_run.is_transient(error):
                    raise exception.Error('enrolment %s: %s' % (number, error)) from error
                enrolment = {'state': 'unknown'}
            if enrolment['state'] in ('failed', 'retired'):
                raise exception.Error('enrolment of %s: %s' % (
                    enrolment['id'], enrolment.get('reason') or enrolment['state']))
            if enrolment['state'] != 'signed-in':
                if attempt.run.is_late():
                    raise exception.Error('enrolment %s: the machine has not signed in in time'
                                          % number)
                raise resource.PollDelay(ENROLMENT_POLL_SECONDS)
            attempt.enrolments.pop(0)

    def _poll(self, attempt):
        """The outcome. Raises PollDelay while there is none."""
        try:
            outcome = attempt.run.poll(attempt.bridge)
        except saltbridge_run.RunError as error:
            raise exception.Error(str(error)) from error
        if outcome is None:
            elapsed = time.monotonic() - attempt.begun
            raise resource.PollDelay(saltbridge_run.poll_delay(elapsed))
        return outcome

    def _keep(self, call, outcome):
        """Stores it for the attributes. Raises Error if the run failed."""
        self.data_set(OUTCOME, saltbridge_run.stored_text(outcome), redact=True)
        if not saltbridge_run.succeeded(outcome):
            raise exception.Error(saltbridge_run.failure_text(call, outcome))

    def handle_create_cancel(self, attempt):
        record = saltbridge_run.read_record(self, RUN)
        if attempt is not None and record is not None and record['id'] is not None:
            saltbridge_run.cancel(attempt.bridge, record)

    handle_update_cancel = handle_create_cancel

    # Delete: the records are the resource's data, which Heat keeps until the deletion is complete.

    def handle_delete(self):
        unfinished = saltbridge_run.read_record(self, RUN)
        may_have_run = saltbridge_run.may_have_run(self, RUN)
        other = self.properties[ON_DELETE] if may_have_run else None
        if unfinished is not None and unfinished['id'] is None:
            # Nobody knows whether it began; the command of the deletion must cope with both.
            unfinished = None
        if other is None and unfinished is None:
            return None
        seconds = self.properties[DELETE_TIMEOUT]
        call = None if other is None else self.call_of(self.properties, other)
        run = None if call is None else saltbridge_run.Run.begin(self, DELETION, call, seconds)
        attempt = Attempt(run, call, self.bridge())
        attempt.cancelled_record = unfinished
        attempt.deadline = attempt.begun + seconds
        return attempt

    def check_delete_complete(self, attempt):
        if attempt is None:
            return True
        if attempt.cancelled_record is not None:
            self._end_unfinished(attempt)
        if attempt.run is None:
            return True
        outcome = self._poll(attempt)
        if not saltbridge_run.succeeded(outcome):
            raise exception.Error(saltbridge_run.failure_text(attempt.call, outcome))
        return True

    def _end_unfinished(self, attempt):
        try:
            is_over = saltbridge_run.cancel(attempt.bridge, attempt.cancelled_record)
        except saltbridge_run.RunError as error:
            raise exception.Error(str(error)) from error
        if not is_over:
            if time.monotonic() > attempt.deadline:
                raise exception.Error('the master was not reached in time to cancel the run')
            raise resource.PollDelay(ENROLMENT_POLL_SECONDS)
        self.data_delete(RUN)
        attempt.cancelled_record = None

    # Signal and check.

    def handle_signal(self, details=None):
        """Runs it again; the same ``id`` again is the same run. Heat calls this in a thread of its
        own, so that it may wait for the outcome.
        """
        key = None
        if isinstance(details, dict) and details.get('id') is not None:
            text = '%s %s' % (self.uuid, details['id'])
            key = 'heat-signal-' + hashlib.sha256(text.encode()).hexdigest()
        call = self.call_of(self.properties)
        attempt = self._begin(SIGNAL, self.properties, call, key)
        while True:
            try:
                outcome = self._poll(attempt)
                self._keep(call, outcome)
            except resource.PollDelay as delay:
                time.sleep(delay.period)
            except exception.Error as error:
                # An exception would be in the log of heat-engine only.
                return 'failed: %s' % error
            else:
                return 'run %s: %s' % (outcome['id'], outcome['status'])

    def handle_check(self):
        other = self.properties[ON_CHECK]
        if other:
            return self._begin(CHECK, self.properties, self.call_of(self.properties, other))
        try:
            self.catalog_entry(self.bridge(), self.properties[self.KIND])
        except saltbridge_run.BridgeError as error:
            raise exception.Error('%s (%s)' % (error, error.code)) from error
        return None

    def check_check_complete(self, attempt):
        if attempt is None:
            return True
        outcome = self._poll(attempt)
        if not saltbridge_run.succeeded(outcome):
            raise exception.Error(saltbridge_run.failure_text(attempt.call, outcome))
        return True

    def _resolve_attribute(self, name):
        text = self.data().get(OUTCOME)
        return None if text is None else self.attribute_of(json.loads(text), name)

    def attribute_of(self, outcome, name):
        raise NotImplementedError


class Command(RunResource):
    """A command of the catalog, run on minions."""

    KIND = 'command'
    TARGET_PROPERTIES = MINIONS, TARGET, TARGET_TYPE = 'minions', 'target', 'target_type'

    properties_schema = _schemas(KIND, {
        MINIONS: properties.Schema(
            properties.Schema.LIST, 'Ids of minions. Either this or target.',
            schema=properties.Schema(properties.Schema.STRING), update_allowed=True),
        TARGET: properties.Schema(
            properties.Schema.STRING, 'A target of Salt.', update_allowed=True),
        TARGET_TYPE: properties.Schema(
            properties.Schema.STRING, 'How target is read, in the words of Salt.', default='glob',
            update_allowed=True),
    })

    attributes_schema = {
        'status': _attribute(attributes.Schema.STRING, 'Status of the last run.'),
        'run_id': _attribute(attributes.Schema.STRING, 'Its id, which is a job id.'),
        'returns': _attribute(attributes.Schema.MAP, 'What each minion returned.'),
        'return': _attribute(None, 'What the only minion returned, of any type.'),
        'retcodes': _attribute(attributes.Schema.MAP, 'The retcode of each minion.'),
    }

    def validate_target(self):
        raw = self.properties.data
        if (raw.get(self.MINIONS) is None) == (raw.get(self.TARGET) is None):
            raise exception.StackValidationFailed(
                message='%s: expected either minions or target' % self.name)
        minions = raw.get(self.MINIONS)
        if isinstance(minions, list) and not minions:
            raise exception.StackValidationFailed(message='minions: expected at least one')

    def catalog_entry(self, bridge, name):
        return bridge.command(name)

    def call_of(self, props, other=None):
        minions = props[self.MINIONS]
        target = props[self.TARGET] if minions is None else list(minions)
        target_type = props[self.TARGET_TYPE] if minions is None else None
        source = other or props
        return saltbridge_run.Call(self.KIND, source[self.KIND], target, source[PARAMS] or {},
                                   target_type)

    def attribute_of(self, outcome, name):
        results = outcome['results']
        if name == 'status':
            return outcome['status']
        if name == 'run_id':
            return outcome['id']
        if name == 'returns':
            return saltbridge_run.returns_of(results)
        if name == 'return':
            return results[0].get('return') if len(results) == 1 else None
        return {it['minion']: it.get('retcode') for it in results}


class Plan(RunResource):
    """A plan of the catalog, run on groups of minions."""

    KIND = 'plan'
    TARGET_PROPERTIES = (GROUPS,) = ('groups',)

    properties_schema = _schemas(KIND, {
        GROUPS: properties.Schema(
            properties.Schema.MAP, 'By name of a group: a list of ids, or a glob.', required=True,
            update_allowed=True),
    })

    attributes_schema = {
        'status': _attribute(attributes.Schema.STRING, 'Status of the last run.'),
        'run_id': _attribute(attributes.Schema.STRING, 'Its id.'),
        'steps': _attribute(attributes.Schema.MAP, 'By step: status, and returns by minion.'),
    }

    def catalog_entry(self, bridge, name):
        return bridge.plan(name)

    def target_problems(self, entry):
        given, waiting = saltbridge_resource.split_resolved(
            self.properties.data.get(self.GROUPS))
        if given is None:
            return []
        return saltbridge_parameters.group_problems(entry['groups'], {*given, *waiting})

    def call_of(self, props, other=None):
        source = other or props
        return saltbridge_run.Call(self.KIND, source[self.KIND], dict(props[self.GROUPS]),
                                   source[PARAMS] or {})

    def attribute_of(self, outcome, name):
        if name == 'status':
            return outcome['status']
        if name == 'run_id':
            return outcome['id']
        return {it['step']: {'status': it['status'],
                             'returns': saltbridge_run.returns_of(it['results'])}
                for it in outcome['steps']}


def resource_mapping():
    return {'OS::Saltbridge::Command': Command, 'OS::Saltbridge::Plan': Plan}
