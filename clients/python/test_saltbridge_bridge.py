"""Against a real bridge, where SALTBRIDGE_URL names one with the users of the tests."""

import contextlib
import http.server
import inspect
import io
import json
import os
import threading
import time
import typing
import unittest
import urllib.parse

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


@contextlib.contextmanager
def master(answer):
    """A master at an address; ``answer(method, path, body)`` gives its answer, None: it is lost."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
            text = answer(self.command, self.path, json.loads(body or b'null'))
            if text is None:
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode('utf-8'))

        do_POST = do_GET

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield 'http://127.0.0.1:%d' % server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class FailOverTest(unittest.TestCase):
    """Requests of a cluster's masters."""

    def setUp(self):
        self.asked = []

    def lost(self, method, path, body):
        self.asked.append(('lost', path, body))
        return None

    def there(self, method, path, body):
        self.asked.append(('there', path, body))
        return '{"commands": [], "id": "7"}'

    def test_what_was_not_sent_goes_to_the_next(self):
        with master(self.there) as url:
            bridge = Bridge(urls=['http://127.0.0.1:1', url], token='x')
            bridge.retire('1')
            self.assertEqual(bridge.commands(), [])
        self.assertEqual([name for name, *_ in self.asked], ['there', 'there'])

    def test_what_only_reads_is_repeated(self):
        with master(self.lost) as first, master(self.there) as second:
            self.assertEqual(Bridge(urls=[first, second], token='x').commands(), [])
        self.assertEqual([name for name, *_ in self.asked], ['lost', 'there'])

    def test_a_call_goes_on_under_its_key(self):
        with master(self.lost) as first, master(self.there) as second:
            bridge = Bridge(urls=[first, second], token='x')
            self.assertEqual(bridge.start('demo.echo', '*'), '7')
        keys = [body['idempotencyKey'] for _, _, body in self.asked]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))

    def test_what_may_have_been_done_is_not_repeated(self):
        with master(self.lost) as first, master(self.there) as second:
            with self.assertRaises(BridgeError) as caught:
                Bridge(urls=[first, second], token='x', retries=3).retire('1')
        self.assertEqual(caught.exception.code, 'ERR_OUTCOME_UNKNOWN')
        self.assertEqual([name for name, *_ in self.asked], ['lost'])

    def test_events_go_on_after_the_last(self):
        def events(tags):
            def answer(method, path, body):
                self.asked.append(path)
                lines = ['data: {"tag": "%s"}\nid: %s\n\n' % (tag, tag) for tag in tags]
                return ''.join(lines)
            return answer

        with master(events(['a', 'b'])) as first, master(events(['c'])) as second:
            read = Bridge(urls=[first, second], token='x').events('*')
            self.assertEqual([next(read)['tag'] for _ in range(3)], ['a', 'b', 'c'])
            read.close()
        queries = [dict(urllib.parse.parse_qsl(path.partition('?')[2])) for path in self.asked]
        self.assertEqual([query.get('last_event_id') for query in queries], [None, 'b'])

    def test_none_is_there(self):
        with self.assertRaises(BridgeError) as caught:
            Bridge(urls=['http://127.0.0.1:1', 'http://127.0.0.1:2'], token='x').commands()
        self.assertIsNone(caught.exception.status)

    def test_addresses(self):
        for more in [{}, {'urls': []}, {'urls': 'https://a'}, {'url': 'https://a', 'urls': ['https://b']},
                     {'urls': ['https://a', 'http://b']}, {'url': 'http://192.0.2.1'}]:
            with self.subTest(more), self.assertRaises(ValueError):
                Bridge(token='x', **more)
        self.assertTrue(Bridge('http://localhost:8000', token='x'))
        self.assertTrue(Bridge('http://[::1]:8000', token='x'))


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
