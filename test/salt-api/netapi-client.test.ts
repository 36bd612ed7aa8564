/** What salt-netapi-client, SUSE's Java library, sends and how strictly it reads [CONTRACT 10]. */
import test from 'ava';
import { json, password, startApi } from '../helpers/salt-api.ts';
import { clientFrame, framesOf, upgrade } from '../helpers/websocket-reader.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The first element of `return`. */
function first(answer: { readonly json: unknown }): Fields {
  const [element] = (answer.json as { readonly return: readonly Fields[] }).return;
  return element ?? {};
}

test('a log-in has times that are numbers and rights that are a list of texts', async (t) => {
  const { ask } = await startApi(t, {
    minions: [],
    config: { externalAuth: { sharedsecret: { admin: ['.*', '@runner', '@wheel'] } } },
  });
  const body = { username: 'admin', password, eauth: 'sharedsecret' };
  const answer = await ask({ method: 'POST', path: '/login', headers: json(), body });
  t.is(answer.status, 200);
  const { start, expire, perms, token, user, eauth } = first(answer);
  t.deepEqual([typeof start, typeof expire, typeof token], ['number', 'number', 'string']);
  t.deepEqual([user, eauth, perms], ['admin', 'sharedsecret', ['.*', '@runner', '@wheel']]);
});

test('a call has all its keywords, those of SUSE too, with a session or with a password', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const call = {
    client: 'local',
    tgt: ['web1'],
    tgt_type: 'list',
    fun: 'test.arg',
    arg: ['one', 2, true],
    kwarg: { key: 'value' },
    metadata: { origin: 'java' },
    timeout: 10,
    gather_job_timeout: 10,
    module_executors: ['direct_call'],
    executor_opts: {},
    batch_delay: 1,
    batch_presence_ping_timeout: 5,
    batch_presence_ping_gather_job_timeout: 5,
  };
  const headers = json(token);
  const session = await ask({ method: 'POST', path: '/', headers, body: [call] });
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const body = [{ ...call, ...credentials }];
  const alone = await ask({ method: 'POST', path: '/run', headers: json(), body });
  for (const answer of [session, alone]) {
    t.is(answer.status, 200, answer.text);
    const { web1 } = first(answer) as { readonly web1: { args: unknown; kwargs: Fields } };
    t.deepEqual(web1.args, ['one', 2, true], 'numbers and booleans are not made texts');
    t.is(web1.kwargs.key, 'value');
  }
  const batch = { client: 'local', tgt: '*', fun: 'test.ping', batch: '1' };
  t.deepEqual(first(await ask({ method: 'POST', path: '/', headers, body: [batch] })), {
    web1: true,
  });
});

test('runners have their arguments in kwarg, wheel functions at the top', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'], pending: ['new1'] });
  const token = await login();
  const started = await run(token, [{ client: 'local_async', tgt: '*', fun: 'test.ping' }]);
  const { jid, minions } = first(started);
  t.deepEqual(minions, ['web1']);
  t.deepEqual(
    first(await run(token, [{ client: 'local_async', tgt: 'no*', fun: 'test.ping' }])),
    {},
  );
  const job = first(await run(token, [{ client: 'runner', fun: 'jobs.list_job', kwarg: { jid } }]));
  t.regex(String(job.StartTime), /^\d{4}, [A-Z][a-z]{2} \d{2} \d{2}:\d{2}:\d{2}\.\d{6}$/);
  t.deepEqual([job.Target, job['Target-type']], ['*', 'glob']);
  const wheel = first(await run(token, [{ client: 'wheel', fun: 'key.accept', match: 'new1' }]));
  const data = wheel.data as Fields;
  t.regex(String(wheel.tag), /^salt\/wheel\/\d{20}$/);
  t.deepEqual([data.success, data.return], [true, { minions: ['new1'] }]);
});

test('a function that a minion has not is a text by which that is seen', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const low = [{ client: 'local', tgt: 'web1', fun: 'no.such' }];
  t.deepEqual(first(await run(await login(), low)), { web1: "'no.such' is not available." });
});

test('results of jobs and runners that were not waited for come over WebSocket', async (t) => {
  const { port, run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const socket = await upgrade(t, port, `/ws/${token}`);
  const head = await socket.until('\r\n\r\n');
  socket.write(clientFrame('websocket client ready'));
  await socket.until('server received message');
  const job = first(await run(token, [{ client: 'local_async', tgt: '*', fun: 'test.ping' }]));
  await socket.until(`salt/job/${job.jid}/ret/web1`);
  const asked = [{ client: 'runner_async', fun: 'jobs.list_job', kwarg: { jid: job.jid } }];
  const runner = first(await run(token, asked));
  const bytes = await socket.until(`salt/run/${runner.jid}/ret`);
  const events = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4))
    .filter((text) => text.startsWith('data: '))
    .map((text): { tag: string; data: Fields } => JSON.parse(text.slice(6)));
  const returned = events.find(({ tag }) => tag === `salt/job/${job.jid}/ret/web1`)?.data;
  t.deepEqual([returned?.retcode, returned?.success, returned?.return], [0, true, true]);
  const told = events.find(({ tag }) => tag === `salt/run/${runner.jid}/ret`)?.data;
  t.like(told, { success: true, return: { Function: 'test.ping' } });
});

test('a log-out without a body says that the token is cleared', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const headers = { ...json(), cookie: `session_id=${await login()}` };
  const answer = await ask({ method: 'POST', path: '/logout', headers });
  t.deepEqual(answer.json, { return: 'Your token has been cleared' });
});
