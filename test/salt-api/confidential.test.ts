/** Functions whose arguments or values are secrets: they are told to the caller, and nobody else. */
import { createPublicKey } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import type { WireMap } from '../../minion-protocol/index.ts';
import { json, password, type RunningApi, startApi } from '../helpers/salt-api.ts';

const credentials = { username: 'limited', password, eauth: 'sharedsecret' };

/** Beside the command's own fields they would say whose command it is. */
function mkToken(more: WireMap = {}): object {
  return { client: 'runner', fun: 'auth.mk_token', kwarg: { ...credentials, ...more } };
}

/** The one element of an answer. */
function returned({ json: body }: { readonly json: unknown }): WireMap {
  return (body as { return: [WireMap] }).return[0];
}

/** What a wheel function returned. */
function wheelReturned(answer: { readonly json: unknown }): WireMap {
  return (returned(answer).data as { return: WireMap }).return;
}

/** Everything that others may come to see: events while something is done, and kept jobs. */
async function seenDuring(
  { eventsDuring, run }: RunningApi,
  token: string,
  work: () => Promise<void>,
): Promise<string> {
  const events = await eventsDuring(work);
  const { text } = await run(token, { client: 'runner', fun: 'jobs.list_jobs' });
  return JSON.stringify(events) + text;
}

async function start(
  t: ExecutionContext,
  setup?: Parameters<typeof startApi>[1],
): Promise<readonly [RunningApi, string]> {
  const api = await startApi(t, { minions: [], ...setup });
  return [api, await api.login()];
}

test('auth.mk_token makes a token for the credentials, auth.del_token ends one', async (t) => {
  const [api, token] = await start(t, { minions: ['web1'] });
  let made: WireMap = {};
  const seen = await seenDuring(api, token, async () => {
    made = returned(await api.run(token, mkToken()));
    await api.run(token, { ...mkToken(), client: 'runner_async' });
  });
  t.like(made, { name: 'limited', eauth: 'sharedsecret' });
  t.is(typeof made.start, 'number');
  t.false(seen.includes(password));
  t.false(seen.includes(String(made.token)));
  t.regex(seen, /runner\.auth\.mk_token/);
  const ping = { client: 'local', tgt: 'web1', fun: 'test.ping', token: made.token };
  const byToken = { method: 'POST', path: '/run', headers: json(), body: ping };
  t.is((await api.ask(byToken)).status, 200);
  const ended = { client: 'runner', fun: 'auth.del_token', arg: [made.token] };
  t.deepEqual((await api.run(token, ended)).json, { return: [true] });
  t.deepEqual((await api.run(token, ended)).json, { return: [false] });
  t.is((await api.ask(byToken)).status, 401);
});

test('auth.mk_token gives nothing to wrong credentials, nor where api_acl forbids it', async (t) => {
  const users = { admin: ['*'], limited: ['127.0.0.1'] };
  const [api, token] = await start(t, { config: { restCherrypy: { apiAcl: { users } } } });
  t.deepEqual(returned(await api.run(token, mkToken({ password: 'wrong' }))), {});
  t.deepEqual(returned(await api.run(token, mkToken())), {});
  t.like(returned(await api.run(token, mkToken({ username: 'admin' }))), { name: 'admin' });
  t.is((await api.run(await api.login('limited'), mkToken())).status, 401);
});

test('key.gen makes a pair that nobody keeps, key.gen_accept one that is accepted', async (t) => {
  const [api, token] = await start(t);
  let made: WireMap = {};
  const seen = await seenDuring(api, token, async () => {
    made = wheelReturned(await api.run(token, { client: 'wheel', fun: 'key.gen', id_: 'x' }));
    await api.run(token, { client: 'wheel_async', fun: 'key.gen' });
  });
  const ofPrivate = createPublicKey(String(made.priv)).export({ type: 'spki', format: 'pem' });
  t.is(String(ofPrivate), String(made.pub));
  t.notRegex(seen, /PRIVATE KEY/);
  t.deepEqual(await api.master.keys.list(), []);
  const accepting = { client: 'wheel', fun: 'key.gen_accept', id_: 'box' };
  const { pub, priv } = wheelReturned(await api.run(token, accepting));
  t.like(await api.master.keys.list(), [{ id: 'box', state: 'accepted' }]);
  t.is((await api.master.keys.list())[0]?.publicKey.trim(), String(pub).trim());
  t.regex(String(priv), /PRIVATE KEY/);
  t.deepEqual({ ...wheelReturned(await api.run(token, accepting)) }, {});
});

test('doc.execution has what minions say of their functions', async (t) => {
  const docs = { 'test.ping': 'Is it there?', 'test.arg': 'Gives back.' };
  const [api, token] = await start(t, {
    minions: ['web1', 'db1'],
    functions: { 'sys.doc': () => docs },
  });
  t.deepEqual(returned(await api.run(token, { client: 'runner', fun: 'doc.execution' })), docs);
});
