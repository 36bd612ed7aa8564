"""Runs of commands and plans for resources of Heat. Imports nothing of Heat.

What must outlive heat-engine is in the resource's own data: which idempotency key a run has, until
its outcome is known. So an action that Heat repeats continues the run instead of starting another.
"""

import hashlib
import json
import time
import uuid

try:
    from . import saltbridge_bridge
except ImportError:
    import saltbridge_bridge

BridgeError = saltbridge_bridge.BridgeError

# After the deadline, which the bridge enforces, the outcome may still be on its way.
GRACE_SECONDS = 15
# resource_data.value is TEXT of MariaDB: 64 KiB, a third of it for the encryption.
MAX_STORED = 40000
MAX_FAILURE_TEXT = 2000
# Key of the resource's data: the bridge may have accepted a run of this resource.
MAY_HAVE_RUN = 'may_have_run'
TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


class RunError(Exception):
    """A run failed or was refused. The message is for the owner of the stack."""


def is_transient(error):
    """Whether the same request may succeed later: the master or Keystone is away, or busy."""
    if error.status is None:
        return error.code == 'ERR_BRIDGE_ANSWER'
    return error.status in TRANSIENT_STATUS


class Call:
    """What is to be run: a command on a target, or a plan on groups."""

    def __init__(self, kind, name, target, params, target_type=None):
        self.kind = kind
        self.name = name
        self.target = target
        self.target_type = target_type
        self.params = params

    @property
    def digest(self):
        fields = [self.kind, self.name, self.target, self.target_type, self.params]
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def start(self, bridge, key, deadline):
        """The id of the run."""
        more = {'idempotency_key': key, 'deadline': int(deadline * 1000)}
        if self.kind == 'plan':
            return bridge.start_plan(self.name, self.target, self.params, **more)
        return bridge.start(self.name, self.target, self.params, target_type=self.target_type,
                            **more)


class Run:
    """A run from its key to its outcome.

    ``resource`` has ``data()``, ``data_set(key, value, redact)`` and ``data_delete(key)``, as
    resources of Heat do. ``slot`` is the name of the record in that data.
    """

    def __init__(self, resource, slot, call, record):
        self._resource = resource
        self._slot = slot
        self._call = call
        self._record = record
        self._last_error = None

    @classmethod
    def begin(cls, resource, slot, call, seconds, key=None):
        """Continues the run of the record if it is for the same call, else writes a new record."""
        record = read_record(resource, slot)
        if record is None or record['digest'] != call.digest or key not in (None, record['key']):
            record = {'key': key or 'heat-' + uuid.uuid4().hex, 'digest': call.digest,
                      'kind': call.kind, 'id': None, 'sent': False}
        record['deadline'] = time.time() + seconds
        run = cls(resource, slot, call, record)
        run._save()
        return run

    def poll(self, bridge):
        """The outcome, or None: ask again later. Raises RunError."""
        outcome = None
        try:
            if self._record['id'] is None:
                self._start(bridge)
            outcome = outcome_of(bridge, self._record)
        except BridgeError as error:
            self._last_error = error
            if error.code == 'ERR_RUN_UNKNOWN':
                # The master was restarted; the key finds the run, or starts what never started.
                self._update(id=None)
            elif not is_transient(error):
                self._resource.data_delete(self._slot)
                raise RunError('%s (%s)' % (error, error.code)) from error
        if outcome is not None and outcome['status'] == 'interrupted' and not self.is_late():
            self._update(id=None)
            return None
        if outcome is not None:
            self._resource.data_delete(self._slot)
            return outcome
        if self.is_late(GRACE_SECONDS):
            raise RunError('%s: no outcome in time; the last answer was: %s'
                           % (self._call.name, self._last_error or 'the run is active'))
        return None

    def _start(self, bridge):
        # Written before it is sent: whoever finds the record must assume that the run exists.
        if not self._record['sent']:
            self._update(sent=True)
        try:
            run_id = self._call.start(bridge, self._record['key'], self._record['deadline'])
        except BridgeError as error:
            # No status: the answer may have been lost, and not the request.
            if error.status is None:
                self._mark()
            raise
        self._update(id=run_id)
        self._mark()

    def _mark(self):
        if MAY_HAVE_RUN not in self._resource.data():
            self._resource.data_set(MAY_HAVE_RUN, 'yes')

    def is_late(self, grace=0):
        return time.time() > self._record['deadline'] + grace

    def _update(self, **fields):
        self._record.update(fields)
        self._save()

    def _save(self):
        self._resource.data_set(self._slot, json.dumps(self._record), redact=True)


def read_record(resource, slot):
    """The record of an unfinished run; None: there is none."""
    text = resource.data().get(slot)
    return None if text is None else json.loads(text)


def may_have_run(resource, slot):
    """Whether anything may have been done on a minion that a deletion must undo."""
    record = read_record(resource, slot)
    return MAY_HAVE_RUN in resource.data() or (record is not None and record['sent'])


def outcome_of(bridge, record):
    poll = bridge.plan_outcome if record['kind'] == 'plan' else bridge.outcome
    return poll(record['id'])


def cancel(bridge, record):
    """Whether the run has ended; False: ask again later. Steps of a plan are undone."""
    end = bridge.cancel_plan if record['kind'] == 'plan' else bridge.cancel
    try:
        end(record['id'])
    except BridgeError as error:
        if error.code == 'ERR_RUN_UNKNOWN':
            return True
        if not is_transient(error):
            raise RunError('cancel: %s (%s)' % (error, error.code)) from error
        # Also where the undoing takes longer than the client waits: the bridge goes on.
        return False
    return True


def succeeded(outcome):
    """``partial``: only steps failed whose failure the plan permits."""
    return outcome['status'] in ('succeeded', 'partial')


# What a stack is told of an outcome.

def failure_text(call, outcome):
    """Why a run failed: what its minions wrote to stderr, or the nearest to it."""
    if call.kind == 'plan':
        step = next((it for it in outcome['steps'] if it['step'] == outcome.get('failedStep')), {})
        lines = _result_lines(step.get('results', []))
        place = '%s: step %s' % (call.name, outcome.get('failedStep'))
        reason = step.get('reason')
        left = ['%s was not undone' % it['step'] for it in outcome['undone']
                if it['status'] == 'failed']
        lines = ([reason] if reason and not lines else lines) + left
    else:
        place = call.name
        lines = _result_lines(outcome['results'])
    text = '%s %s: %s' % (place, outcome['status'], '; '.join(lines) or 'no minion answered')
    return text if len(text) <= MAX_FAILURE_TEXT else text[:MAX_FAILURE_TEXT] + ' (cut)'


def _result_lines(results):
    failed = [it for it in results if it['state'] != 'succeeded']
    lines = ['%s: %s' % (it['minion'], _result_text(it)) for it in failed[:5]]
    return lines + (['and %d more' % (len(failed) - 5)] if len(failed) > 5 else [])


def _result_text(result):
    retcode = result.get('retcode')
    code = ' (retcode %s)' % retcode if retcode not in (None, 0) else ''
    text = _error_output(result.get('return')) or result.get('reason') or result['state']
    return '%s%s' % (text, code)


def _error_output(value):
    """stderr of a program, the comments of failed states, or text as it is."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return '; '.join(str(it) for it in value)
    if not isinstance(value, dict):
        return None
    if isinstance(value.get('stderr'), str):
        return value['stderr'].strip() or str(value.get('stdout', '')).strip()
    comments = [_state_text(it) for it in value.values()
                if isinstance(it, dict) and it.get('result') is False]
    return '; '.join(comments) if comments else json.dumps(value)


def _state_text(state):
    changes = state.get('changes')
    stderr = changes.get('stderr') if isinstance(changes, dict) else None
    comment = str(state.get('comment', '')).strip()
    return '%s: %s' % (comment, str(stderr).strip()) if stderr else comment


def stored_text(outcome):
    """An outcome as JSON that fits into a row of Heat's; large returns are replaced by a note."""
    for limit in (MAX_STORED, 2000, 100):
        text = json.dumps(_with_returns_up_to(outcome, limit))
        if len(text) <= MAX_STORED:
            return text
    return json.dumps({'id': outcome['id'], 'status': outcome['status'], 'results': [],
                       'steps': [], 'undone': []})


def _with_returns_up_to(outcome, limit):
    def short(results):
        return [_short_result(it, limit) for it in results]

    def short_steps(steps):
        return [dict(it, results=short(it['results'])) for it in steps]

    fields = {'results': short, 'steps': short_steps, 'undone': short_steps}
    return dict(outcome, **{name: change(outcome[name]) for name, change in fields.items()
                            if name in outcome})


def _short_result(result, limit):
    if 'return' not in result:
        return result
    size = len(json.dumps(result['return']))
    if size <= limit:
        return result
    return dict(result, **{'return': '(%d characters of JSON are too large for Heat)' % size})


def returns_of(results):
    """By minion."""
    return {it['minion']: it.get('return') for it in results}


def poll_delay(elapsed):
    """Seconds until the next poll: short runs end soon, long ones need not be asked each second."""
    return max(1, min(10, int(elapsed / 10)))
