"""The plug-in's logic, without Heat and without a master: each answer of the bridge is written here."""

import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(HERE, '..', '..', 'python')]

import saltbridge_parameters  # noqa: E402
import saltbridge_run  # noqa: E402
from saltbridge_bridge import BridgeError  # noqa: E402

AWAY = BridgeError('ERR_BRIDGE_ANSWER', 'cannot be asked: refused')
CALL = saltbridge_run.Call('command', 'demo.write', ['web-1'], {'text': 'x'})


def outcome(status='succeeded', **result):
    results = [dict({'minion': 'web-1', 'state': status}, **result)]
    return {'id': '1', 'status': status, 'results': results}


class Resource:
    """The data of a resource, as Heat keeps it; it outlives heat-engine."""

    def __init__(self):
        self.rows = {}

    def data(self):
        return dict(self.rows)

    def data_set(self, key, value, redact=False):
        self.rows[key] = value

    def data_delete(self, key):
        self.rows.pop(key, None)


class Bridge:
    """Answers in the order given; an exception is raised."""

    def __init__(self, starts=(), outcomes=(), cancels=()):
        self.answers = {'start': list(starts), 'outcome': list(outcomes), 'cancel': list(cancels)}
        self.keys = []

    def start(self, name, target, params, idempotency_key, deadline, target_type):
        self.keys.append(idempotency_key)
        return self._answer('start')

    def outcome(self, run_id):
        return self._answer('outcome')

    def cancel(self, run_id):
        return self._answer('cancel')

    def _answer(self, of):
        answer = self.answers[of].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class RunTest(unittest.TestCase):
    def setUp(self):
        self.resource = Resource()

    def begin(self, call=CALL, seconds=60, key=None):
        return saltbridge_run.Run.begin(self.resource, 'run', call, seconds, key)

    def test_a_run_is_polled_to_its_outcome(self):
        run = self.begin()
        bridge = Bridge(['1'], [None, outcome()])
        self.assertIsNone(run.poll(bridge))
        self.assertEqual(run.poll(bridge), outcome())
        self.assertEqual(len(bridge.keys), 1)
        self.assertIsNone(saltbridge_run.read_record(self.resource, 'run'))

    def test_an_action_that_is_repeated_sends_the_same_key(self):
        bridge = Bridge([AWAY, '1'], [outcome()])
        self.assertIsNone(self.begin().poll(bridge))
        self.assertEqual(self.begin().poll(bridge), outcome())
        self.assertEqual(len(set(bridge.keys)), 1)
        self.assertEqual(len(bridge.keys), 2)

    def test_another_call_and_a_completed_one_have_another_key(self):
        bridge = Bridge([AWAY, '1', '2'], [outcome(), outcome()])
        self.begin().poll(bridge)
        other = saltbridge_run.Call('command', 'demo.write', ['web-1'], {'text': 'y'})
        self.begin(other).poll(bridge)
        self.begin(other).poll(bridge)
        self.assertEqual(len(set(bridge.keys)), 3)

    def test_a_key_of_the_caller_is_used(self):
        bridge = Bridge(['1', '1'], [outcome(), outcome()])
        self.begin(key='k').poll(bridge)
        self.begin(key='k').poll(bridge)
        self.assertEqual(bridge.keys, ['k', 'k'])

    def test_a_restarted_master_is_asked_with_the_key(self):
        unknown = BridgeError('ERR_RUN_UNKNOWN', 'no run', 404)
        bridge = Bridge(['1', '1', '1'], [unknown, outcome('interrupted'), outcome()])
        run = self.begin()
        self.assertIsNone(run.poll(bridge))
        self.assertIsNone(run.poll(bridge))
        self.assertEqual(run.poll(bridge), outcome())
        self.assertEqual(len(set(bridge.keys)), 1)

    def test_a_refusal_is_final_and_nothing_is_left_to_undo(self):
        denied = BridgeError('ERR_COMMAND_DENIED', 'no rule', 403)
        with self.assertRaisesRegex(saltbridge_run.RunError, 'no rule .ERR_COMMAND_DENIED.'):
            self.begin().poll(Bridge([denied]))
        self.assertFalse(saltbridge_run.may_have_run(self.resource, 'run'))

    def test_a_lost_answer_may_have_been_a_run(self):
        run = self.begin()
        self.assertFalse(saltbridge_run.may_have_run(self.resource, 'run'))
        run.poll(Bridge([AWAY]))
        self.assertTrue(saltbridge_run.may_have_run(self.resource, 'run'))
        with self.assertRaises(saltbridge_run.RunError):
            run.poll(Bridge([BridgeError('ERR_COMMAND_DENIED', 'no rule', 403)]))
        self.assertTrue(saltbridge_run.may_have_run(self.resource, 'run'))

    def test_a_master_that_stays_away_is_given_up_and_the_key_stays(self):
        run = self.begin(seconds=-saltbridge_run.GRACE_SECONDS - 1)
        with self.assertRaisesRegex(saltbridge_run.RunError, 'in time.*refused'):
            run.poll(Bridge([AWAY]))
        self.assertIsNotNone(saltbridge_run.read_record(self.resource, 'run'))

    def test_busy_and_absent_services_are_asked_again_and_refusals_are_not(self):
        cases = [(None, 'ERR_BRIDGE_ANSWER', True), (503, 'ERR_EAUTH_UNAVAILABLE', True),
                 (429, 'ERR_COMMAND_BUSY', True), (401, 'ERR_EAUTH_TOKEN', False),
                 (400, 'ERR_COMMAND_PARAMETERS', False), (409, 'ERR_COMMAND_KEY', False)]
        for status, code, expected in cases:
            error = BridgeError(code, 'x', status)
            self.assertEqual(saltbridge_run.is_transient(error), expected, code)

    def test_a_cancelled_run_ends_once_it_is_known_to(self):
        record = {'kind': 'command', 'id': '1'}
        unknown = BridgeError('ERR_RUN_UNKNOWN', 'no run', 404)
        denied = BridgeError('ERR_COMMAND_DENIED', 'no rule', 403)
        bridge = Bridge(cancels=[AWAY, outcome('cancelled'), unknown, denied])
        self.assertFalse(saltbridge_run.cancel(bridge, record))
        self.assertTrue(saltbridge_run.cancel(bridge, record))
        self.assertTrue(saltbridge_run.cancel(bridge, record))
        with self.assertRaises(saltbridge_run.RunError):
            saltbridge_run.cancel(bridge, record)


class TextTest(unittest.TestCase):
    def failure(self, **result):
        return saltbridge_run.failure_text(CALL, outcome('failed', **result))

    def test_stderr_is_what_a_failure_says(self):
        program = {'stdout': 'a', 'stderr': 'disk full\n', 'retcode': 3}
        self.assertEqual(self.failure(**{'return': program, 'retcode': 3}),
                         'demo.write failed: web-1: disk full (retcode 3)')
        self.assertEqual(self.failure(**{'return': 'ERROR: x', 'retcode': 1}),
                         'demo.write failed: web-1: ERROR: x (retcode 1)')
        self.assertEqual(self.failure(reason='no answer'),
                         'demo.write failed: web-1: no answer')

    def test_failed_states_are_named_by_their_comments(self):
        states = {'file_|-a': {'result': True, 'comment': 'fine'},
                  'cmd_|-b': {'result': False, 'comment': 'Command "b" run',
                              'changes': {'stderr': 'no such file'}}}
        self.assertEqual(self.failure(**{'return': states, 'retcode': 2}),
                         'demo.write failed: web-1: Command "b" run: no such file (retcode 2)')

    def test_a_plan_names_its_step_and_what_was_not_undone(self):
        call = saltbridge_run.Call('plan', 'demo.twice', {}, {})
        failed = {'id': '1', 'status': 'failed', 'failedStep': 'two', 'steps': [
            {'step': 'two', 'status': 'failed', 'results': outcome('failed')['results']}],
            'undone': [{'step': 'one', 'status': 'failed', 'results': []}]}
        self.assertEqual(saltbridge_run.failure_text(call, failed),
                         'demo.twice: step two failed: web-1: failed; one was not undone')

    def test_long_texts_are_cut(self):
        text = self.failure(**{'return': 'x' * 10000})
        self.assertLess(len(text), 2100)
        self.assertTrue(text.endswith(' (cut)'))

    def test_an_outcome_fits_into_a_row(self):
        small = outcome(**{'return': 'kept'})
        self.assertEqual(json.loads(saltbridge_run.stored_text(small)), small)
        large = dict(small, results=small['results'] + [
            {'minion': 'web-2', 'state': 'succeeded', 'return': 'x' * 100000}])
        kept = json.loads(saltbridge_run.stored_text(large))['results']
        self.assertEqual(kept[0]['return'], 'kept')
        self.assertEqual(kept[1]['return'], '(100002 characters of JSON are too large for Heat)')
        crowd = dict(small, results=[{'minion': 'web-%d' % n, 'state': 'succeeded'}
                                     for n in range(10000)])
        self.assertLess(len(saltbridge_run.stored_text(crowd)), saltbridge_run.MAX_STORED)


class ParametersTest(unittest.TestCase):
    schema = {'type': 'object', 'required': ['name'],
              'properties': {'name': {'type': 'string', 'pattern': '^[a-z]+$'},
                             'count': {'type': 'integer', 'minimum': 1}}}

    def problems(self, given, unresolved=()):
        return saltbridge_parameters.parameter_problems(self.schema, given, unresolved)

    def test_names_are_checked(self):
        self.assertEqual(self.problems({'name': 'x'}), [])
        self.assertEqual(self.problems({}), ['name: is required'])
        self.assertEqual(self.problems({}, ['name']), [])
        self.assertEqual(self.problems({'name': 'x', 'nome': 1}),
                         ['nome: there is no such parameter'])

    @unittest.skipIf(saltbridge_parameters.jsonschema is None, 'the package jsonschema is missing')
    def test_values_are_checked_and_never_printed(self):
        found = self.problems({'name': 'S3CRET', 'count': 0})
        self.assertEqual(found, ['count: does not fit its schema (minimum)',
                                 'name: does not fit its schema (pattern)'])

    def test_groups_are_checked(self):
        groups = {'master': {}, 'rest': {'from': 'master', 'select': 'rest'}}
        check = saltbridge_parameters.group_problems
        self.assertEqual(check(groups, ['master']), [])
        self.assertEqual(check(groups, ['rest']), [
            'groups: master: is required', 'groups: rest: there is no such group'])


if __name__ == '__main__':
    unittest.main()
