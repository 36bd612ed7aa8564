"""Against a real bridge, where SALTBRIDGE_URL names one with the users of the tests."""

import inspect
import io
import json
import os
import threading
import time
import typing
import unittest

from saltbridge_bridge import Bridge, BridgeError

URL = os.environ.get('SALTBRIDGE_URL')
PASSWORD = os.environ.get('SALTBRIDGE_PASSWORD')
KEYSTONE_TOKEN = os.environ.get('KEYSTONE_TOKEN')


@unittest.skipIf(URL is None, 'SALTBRIDGE_URL names no bridge')
class CommandsTest(unittest.TestCase):
    def setUp(self):
        self.bridge = Bridge(URL, 'limited', PASSWORD, eauth='sharedsecret')

    def refused(self, code, status, call, *args, **more):
        with self.assertRaises(BridgeError) as caught:
            call(*args, **more)
        self.assertEqual((caught.exception.code, caught.exception.status), (code, status))

    def test_lists_and_shows(self):
        self.assertEqual([it['name'] for it in self.bridge.commands()], ['demo.echo'])
        self.assertEqual(self.bridge.command('demo.echo')['version'], 1)

    def test_runs(self):
        outcome = self.bridge.run('demo.echo', 'web*', {'text': 'gr\u00fc\u00df'})
        self.assertEqual(outcome['status'], 'succeeded')
        self.assertEqual(outcome['results'][0]['return'], 'gr\u00fc\u00df')

    def test_a_key_is_the_same_run(self):
        ids = [self.bridge.start('demo.echo', ['web1'], {'text': 'x'}, idempotency_key='python')
               for _ in range(2)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(self.bridge.wait(ids[0])['id'], ids[0])
        self.refused('ERR_COMMAND_KEY', 409, self.bridge.run, 'demo.echo', ['web1'],
                     {'text': 'y'}, idempotency_key='python')

    def test_an_outcome_is_polled(self):
        def ended(poll, run_id):
            for _ in range(200):
                outcome = poll(run_id)
                if outcome is not None:
                    return outcome
                time.sleep(0.05)
            raise AssertionError('the run has not ended in 10 s')

        run_id = self.bridge.start('demo.echo', ['web1'], {'text': 'x'})
        self.assertEqual(ended(self.bridge.outcome, run_id)['status'], 'succeeded')
        run_id = self.bridge.start_plan('demo.twice', {'all': ['web1']}, {'text': 'x'})
        self.assertEqual(ended(self.bridge.plan_outcome, run_id)['status'], 'succeeded')
        self.refused('ERR_RUN_UNKNOWN', 404, self.bridge.outcome, '1')

    def test_cancels(self):
        run_id = self.bridge.start('demo.echo', 'web*', {'text': 'x'})
        self.assertEqual(self.bridge.cancel(run_id)['id'], run_id)

    def test_plans(self):
        self.assertEqual([it['name'] for it in self.bridge.plans()], ['demo.twice'])
        self.assertEqual([it['name'] for it in self.bridge.plan('demo.twice')['steps']],
                         ['one', 'two'])
        groups = {'all': ['web1']}
        outcome = self.bridge.run_plan('demo.twice', groups, {'text': 'x'})
        self.assertEqual(outcome['status'], 'succeeded')
        self.assertEqual([it['results'][0]['return'] for it in outcome['steps']], ['x', 'x'])
        ids = [self.bridge.start_plan('demo.twice', groups, {'text': 'x'}, idempotency_key='py')
               for _ in range(2)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(self.bridge.wait_plan(ids[0])['id'], ids[0])
        self.assertEqual(self.bridge.cancel_plan(ids[0], undo=False)['id'], ids[0])
        run = self.bridge.run_plan
        self.refused('ERR_PLAN_UNKNOWN', 404, run, 'demo.thrice', groups)
        self.refused('ERR_PLAN_GROUPS', 400, run, 'demo.twice', {}, {'text': 'x'})
        self.refused('ERR_COMMAND_DENIED', 403, run, 'demo.twice', {'all': 'db*'}, {'text': 'x'})
        self.refused('ERR_COMMAND_KEY', 409, run, 'demo.twice', groups, {'text': 'y'},
                     idempotency_key='py')

    def test_machines_are_enrolled_and_retired(self):
        made = self.bridge.enrol('web-new', project='shop', format='none')
        number = made['enrolment']['number']
        self.assertEqual(self.bridge.enrolment(number)['state'], 'open')
        self.bridge.retire(number)
        self.assertEqual(self.bridge.enrolment(number)['state'], 'retired')
        self.refused('ERR_DENIED', 403, self.bridge.enrol, 'db-new', project='shop')
        self.refused('ERR_ENROLL_UNKNOWN', 404, self.bridge.enrolment, 'none')

    def test_refusals_have_their_code(self):
        run = self.bridge.run
        self.refused('ERR_COMMAND_DENIED', 403, run, 'cmd.run', 'web*', {'cmd': 'id'})
        self.refused('ERR_COMMAND_UNKNOWN', 404, run, 'demo.none', 'web*', {'text': 'a'})
        self.refused('ERR_COMMAND_DENIED', 403, run, '../commands', 'web*')
        self.refused('ERR_COMMAND_DENIED', 403, run, 'demo.echo', 'db*', {'text': 'x'})
        self.refused('ERR_COMMAND_PARAMETERS', 400, run, 'demo.echo', 'web*', {'text': '-x'})

    def test_a_token_that_has_ended_is_renewed(self):
        stale = Bridge(URL, 'limited', PASSWORD, eauth='sharedsecret', token='0' * 64)
        self.assertEqual(len(stale.commands()), 1)
        without = Bridge(URL, token='0' * 64)
        self.refused('ERR_EAUTH_TOKEN', 401, without.commands)

    def test_a_token_of_keystone(self):
        bridge = Bridge(URL, token=KEYSTONE_TOKEN)
        outcome = bridge.run('demo.echo', ['web1'], {'text': 'x'})
        self.assertEqual(outcome['status'], 'succeeded')

    def test_a_function_gives_tokens_as_often_as_they_are_refused(self):
        tokens = [KEYSTONE_TOKEN[::-1], KEYSTONE_TOKEN]
        bridge = Bridge(URL, token=lambda: tokens.pop(0))
        self.assertEqual(len(bridge.commands()), 1)
        self.assertEqual(len(bridge.commands()), 1)
        self.assertEqual(tokens, [])
        ended = Bridge(URL, token=lambda: KEYSTONE_TOKEN[::-1])
        self.refused('ERR_EAUTH_TOKEN', 401, ended.commands)

    def test_a_wrong_password_is_told(self):
        wrong = Bridge(URL, 'limited', 'wrong', eauth='sharedsecret')
        with self.assertRaises(BridgeError) as caught:
            wrong.commands()
        self.assertEqual((caught.exception.code, caught.exception.status), ('ERR_EAUTH', 401))
        self.assertIn('the log-in of limited (eauth sharedsecret) was refused',
                      str(caught.exception))

    def test_a_lost_answer_is_the_same_run(self):
        sent = []

        class Losing(Bridge):
            def _send(self, method, path, body=None, more=None, with_token=True):
                answer = super()._send(method, path, body, more, with_token)
                if path.endswith('/run'):
                    sent.append((body['idempotencyKey'], json.load(answer)['id']))
                    if len(sent) == 1:
                        raise BridgeError('ERR_BRIDGE_ANSWER', 'lost')
                    return io.BytesIO(json.dumps({'id': sent[-1][1]}).encode())
                return answer

        bridge = Losing(URL, 'limited', PASSWORD, eauth='sharedsecret', retries=2)
        bridge.start('demo.echo', ['web1'], {'text': 'x'})
        self.assertEqual(len(sent), 2)
        self.assertEqual(sent[0], sent[1])

    def test_events_are_read_and_read_on(self):
        heard = []

        def listen():
            events = self.bridge.events('salt/job/*/ret/*')
            heard.append(next(events))
            events.close()

        self.bridge.commands()
        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        end = time.monotonic() + 20
        # It listens from some moment on.
        while not heard and time.monotonic() < end:
            self.bridge.run('demo.echo', ['web1'], {'text': 'before'})
        listener.join(20)
        [first] = heard
        self.assertEqual(first['tag'].rpartition('/')[2], 'web1')
        self.assertEqual(first['data']['return'], 'before')
        self.bridge.run('demo.echo', ['web1'], {'text': 'meanwhile'})
        # What was fired while nobody listened.
        later = self.bridge.events('salt/job/*/ret/*', after=first['id'])
        self.assertIn('meanwhile', (event['data']['return'] for event in later))
        later.close()

    def test_events_need_a_log_in_that_works(self):
        wrong = Bridge(URL, 'limited', 'wrong', eauth='sharedsecret')
        self.refused('ERR_EAUTH', 401, lambda: next(wrong.events()))

    def test_handles_and_stacks_of_nobody_else(self):
        self.assertEqual(self.bridge.handles(), [])
        self.assertEqual(self.bridge.stacks(), [])
        self.refused('ERR_HANDLE_UNKNOWN', 404, self.bridge.handle, 'none')
        self.refused('ERR_HANDLE_UNKNOWN', 404, self.bridge.outbox, 'none')
        self.refused('ERR_STACK_UNKNOWN', 404, self.bridge.stack, 'none')


class FormTest(unittest.TestCase):
    def test_only_http(self):
        with self.assertRaises(ValueError):
            Bridge('file:///etc/passwd')

    def test_nobody_there(self):
        bridge = Bridge('http://127.0.0.1:1', token='x')
        with self.assertRaises(BridgeError):
            bridge.commands()

    def test_retries_are_counted(self):
        tries = []

        class Away(Bridge):
            def _send(self, *args, **more):
                tries.append(args)
                raise BridgeError('ERR_BRIDGE_ANSWER', 'busy', 503)

        bridge = Away('http://127.0.0.1:1', token='x', retries=2)
        with self.assertRaises(BridgeError):
            bridge.commands()
        self.assertEqual(len(tries), 3)
        # A retirement has no key: nobody knows whether it was done.
        with self.assertRaises(BridgeError):
            bridge.retire('number')
        self.assertEqual(len(tries), 4)

    def test_no_credentials(self):
        with self.assertRaises(BridgeError):
            Bridge('http://127.0.0.1:1').commands()


class TypingTest(unittest.TestCase):
    def test_each_public_method_is_typed_and_described(self):
        for name, member in inspect.getmembers(Bridge, inspect.isfunction):
            if name.startswith('_') and name != '__init__':
                continue
            with self.subTest(name):
                hints = typing.get_type_hints(member)
                parameters = set(inspect.signature(member).parameters) - {'self'}
                self.assertEqual(parameters - set(hints), set())
                self.assertIn('return', hints)
                self.assertTrue(member.__doc__ or name == '__init__')


if __name__ == '__main__':
    unittest.main()
