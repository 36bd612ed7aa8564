/**
 * Tests that a master has the same interface in its process, over its socket, and over its HTTP
 * API.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import type { JobUpdate, MasterApi, MasterEvent } from '#master';
import { auditRecords } from '../helpers/audit-records.ts';
import { within } from '../helpers/deadline.ts';
import { password, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { directories } from '../helpers/vector-master.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));

/** Returns the interface of a master for a caller with all rights. */
type Reach = (running: RunningApi, token: string) => MasterApi;

const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
const ca = readFileSync(fixture('ca.pem'));
const remote = ({ port }: RunningApi): { readonly url: string; readonly ca: Buffer } => ({
  url: `https://127.0.0.1:${port}`,
  ca,
});

const ways: Readonly<Record<string, Reach>> = {
  'in the process': ({ master }) => master,
  'by the local socket': ({ directory }) =>
    connectMaster({ socketPath: directories(directory).socket }),
  'over HTTPS': (running, token) => connectMaster({ ...remote(running), token }),
};

function start(t: ExecutionContext, minions: readonly string[] = []): Promise<RunningApi> {
  return startApi(t, { minions, options: { tls } });
}

async function tokenOf({ master }: RunningApi, username = 'admin'): Promise<string> {
  return (await master.logins.login({ username, password, eauth: 'sharedsecret' })).token;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function firstOf<T>(items: AsyncIterable<T>): Promise<T | undefined> {
  for await (const item of items) return item;
  return undefined;
}

for (const [way, reach] of Object.entries(ways)) {
  const open = async (
    t: ExecutionContext,
    minions?: readonly string[],
  ): Promise<{ readonly running: RunningApi; readonly api: MasterApi; readonly token: string }> => {
    const running = await start(t, minions);
    const token = await tokenOf(running);
    return { running, token, api: reach(running, token) };
  };

  test(`${way}: a job streams to its end`, async (t) => {
    const { api } = await open(t, ['web1', 'db1']);
    const updates = await collect(api.jobs.run({ tgt: '*', fun: 'test.ping' }));
    t.deepEqual(
      updates.map(({ type }) => type),
      ['published', 'return', 'return', 'finished'],
    );
    const [published] = updates as [Extract<JobUpdate, { type: 'published' }>];
    t.deepEqual([...published.minions].sort(), ['db1', 'web1']);
    t.is((await api.jobs.show(published.jid)).jid, published.jid);
  });

  test(`${way}: a finished job can be read from its publication on`, async (t) => {
    const { api } = await open(t, ['web1', 'db1']);
    const { jid } = await api.jobs.publish({ tgt: '*', fun: 'test.ping' });
    const updates = await within('its end', collect(api.jobs.follow(jid)));
    t.deepEqual(
      updates.map(({ type }) => type),
      ['published', 'return', 'return', 'finished'],
    );
    await t.throwsAsync(() => collect(api.jobs.follow('20200101000000000000')), {
      code: 'ERR_JOB_UNKNOWN',
    });
  });

  test(`${way}: an abort signal ends a job's stream without an error`, async (t) => {
    const { api, running } = await open(t);
    const end = new AbortController();
    const silent = await running.master.keys.list();
    t.deepEqual(silent, []);
    const stream = await api.events.subscribe({}, end.signal);
    const read = collect(stream);
    end.abort();
    t.deepEqual(await within('the end of a stream', read), []);
  });

  test(`${way}: values of every type arrive unchanged`, async (t) => {
    const { api } = await open(t, ['web1']);
    const arg = [1, 2n ** 60n, 'text', null, { $bytes: 'x', list: [true] }];
    const updates = await collect(api.jobs.run({ tgt: 'web1', fun: 'test.arg', arg }));
    const answer = updates.find((it) => it.type === 'return');
    const echoed = (answer?.type === 'return' && (answer.return as { args: unknown }).args) || [];
    t.is(JSON.stringify(echoed, plain), JSON.stringify(arg, plain));
  });

  test(`${way}: runners, wheel functions and other methods work`, async (t) => {
    const { api, running } = await open(t);
    const { return: jobs } = await api.runners.run({ fun: 'jobs.list_jobs' });
    t.deepEqual({ ...(jobs as object) }, {});
    const { success } = await api.wheel.run({ fun: 'key.list_all' });
    t.true(success);
    t.deepEqual(await api.keys.list(), await running.master.keys.list());
    t.is((await api.status()).id, (await running.master.status()).id);
    t.regex((await api.runners.docs('jobs.list_jobs'))['jobs.list_jobs'] ?? '', /jobs/);
  });

  test(`${way}: a user receives all events after the subscription`, async (t) => {
    const { api, running, token } = await open(t);
    const end = new AbortController();
    const events = await api.asUser(token).events.subscribe({ match: 'my/*' }, end.signal);
    await running.master.events.fire('your/tag', {});
    await running.master.events.fire('my/tag', { a: 1 });
    const event = await within('an event', firstOf<MasterEvent>(events));
    t.like(event, { tag: 'my/tag' });
    end.abort();
  });

  test(`${way}: a user has the rights of the policy, and errors have their codes`, async (t) => {
    const { api, running } = await open(t, ['web1']);
    const limited = api.asUser(await tokenOf(running, 'limited'));
    const updates = await collect(limited.jobs.run({ tgt: 'web1', fun: 'test.ping' }));
    t.is(updates.at(-1)?.type, 'finished');
    const refused = limited.jobs.run({ tgt: 'web1', fun: 'cmd.run', arg: ['id'] });
    await t.throwsAsync(collect(refused), { code: 'ERR_DENIED' });
    await t.throwsAsync(limited.requireFullRights('a test'), { code: 'ERR_DENIED' });
    await t.throwsAsync(api.jobs.show('20200101000000000000'), { code: 'ERR_JOB_UNKNOWN' });
    await t.throwsAsync(api.runners.run({ fun: 'nope.nope' }), { code: 'ERR_UNKNOWN_FUN' });
    const nobody = api.asUser('0'.repeat(64)).jobs.publish({ tgt: '*', fun: 'test.ping' });
    await t.throwsAsync(nobody, { code: 'ERR_EAUTH_TOKEN' });
  });

  test(`${way}: a stream ends when its token is revoked`, async (t) => {
    const { api, running } = await open(t);
    const theirs = await tokenOf(running, 'limited');
    const events = await api.asUser(theirs).events.subscribe();
    const read = collect(events);
    await running.master.logins.logout(theirs);
    t.deepEqual(await within('the end of a stream', read), []);
  });
}

test('over HTTPS only unrestricted users can use more than jobs, functions and events', async (t) => {
  const running = await start(t);
  const token = await tokenOf(running, 'limited');
  const limited = connectMaster({ ...remote(running), token });
  for (const call of [
    () => limited.keys.list(),
    () => limited.keys.accept({ match: '*' }),
    () => limited.jobs.list(),
    () => limited.acl.reload(),
    () => limited.logins.list(),
    () => limited.status(),
    () => limited.pillar.show({ minion: 'web1' }),
  ]) {
    await t.throwsAsync(call(), { code: 'ERR_DENIED' });
  }
  const nobody = connectMaster(remote(running));
  await t.throwsAsync(nobody.status(), { code: 'ERR_HTTP_SESSION' });
  await t.throwsAsync(nobody.jobs.publish({ tgt: '*', fun: 'test.ping' }), {
    code: 'ERR_HTTP_SESSION',
  });
  const admin = connectMaster({ ...remote(running), token: await tokenOf(running) });
  await t.throwsAsync(admin.store.backup('/tmp/none'), { code: 'ERR_HTTP_UNKNOWN' });
});

test('over HTTPS actions are audited with the owner of the token', async (t) => {
  const running = await startApi(t, { minions: [], pending: ['new1', 'new2'], options: { tls } });
  const admin = connectMaster({ ...remote(running), token: await tokenOf(running) });
  const socketPath = directories(running.directory).socket;
  await admin.keys.accept({ match: 'new1' });
  await admin.keys.unpin('new1');
  await admin.keys.delete({ match: 'new1' });
  await admin.wheel.run({ fun: 'key.reject', kwarg: { match: 'new2' } });
  await admin.keys.create({ id: 'new3' });
  await admin.events.fire('site/done', {});
  await t.throwsAsync(admin.acl.reload(), { code: 'ERR_NOT_RELOADABLE' });
  const [token] = await admin.logins.list();
  await admin.logins.revoke({ id: token?.id ?? '' });
  await connectMaster({ socketPath }).keys.delete({ match: 'new2' });
  const asked = /^(?:fire|key\.(?:accept|create|delete|reject|unpin)|token\.revoke)$/;
  const told = (await auditRecords(running)).filter(({ action }) => asked.test(action));
  t.deepEqual(
    told.map(({ who, action, what }) => [who.kind, who.name, action, what]),
    [
      ['user', 'admin', 'key.accept', 'new1'],
      ['user', 'admin', 'key.unpin', 'new1'],
      ['user', 'admin', 'key.delete', 'new1'],
      ['user', 'admin', 'key.reject', 'new2'],
      ['user', 'admin', 'key.create', 'new3'],
      ['user', 'admin', 'fire', 'site/done'],
      ['user', 'admin', 'token.revoke', token?.id],
      ['local', '', 'key.delete', 'new2'],
    ],
  );
});

test('over HTTPS the client itself logs in, and failures count by address', async (t) => {
  const client = connectMaster(remote(await start(t)));
  const login = { username: 'admin', password, eauth: 'sharedsecret', source: '192.0.2.1' };
  const { token } = await client.logins.login(login);
  t.is((await client.logins.identify(token)).user, 'admin');
  for (const code of [...Array(5).fill('ERR_EAUTH'), 'ERR_EAUTH_LIMIT']) {
    const source = `192.0.2.${Math.random()}`;
    const wrong = client.logins.login({ ...login, password: 'wrong', source });
    await t.throwsAsync(wrong, { code });
  }
  t.true(await client.logins.logout(token));
  await t.throwsAsync(client.logins.identify(token), { code: 'ERR_EAUTH_TOKEN' });
});

test('a cookie gives no access, and parameters cannot be nested endlessly', async (t) => {
  const { ask, login, port } = await startApi(t, { minions: [] });
  const session = await login();
  const cookie = { cookie: `session_id=${session}`, 'content-type': 'application/json' };
  const call = { method: 'POST', path: '/rpc/status', body: {} };
  t.is((await ask({ ...call, headers: cookie })).status, 401);
  t.is((await ask({ ...call, headers: { 'x-auth-token': session } })).status, 200);
  const body = `{"arg": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const deep = await ask({ ...call, body, headers: { 'x-auth-token': session } });
  t.is(deep.status, 400);
  t.like(deep.json, { error: { code: 'ERR_ARGS' } });
  t.is((await ask({ ...call, path: '/rpc/constructor' })).status, 404);
  const local = connectMaster({ url: `http://127.0.0.1:${port}` });
  await t.throwsAsync(local.status(), { code: 'ERR_HTTP_SESSION' });
});

test('a token is never sent in the clear, nor to a host with a wrong certificate', async (t) => {
  t.throws(() => connectMaster({ url: 'http://master.example:8000', token: 'x' }), {
    instanceOf: TypeError,
  });
  const { port } = await start(t);
  const stranger = connectMaster({ url: `https://127.0.0.1:${port}`, token: 'x' });
  await t.throwsAsync(stranger.status(), { code: 'ERR_SOCKET' });
});

/** Replacer for JSON that converts large numbers to text. */
function plain(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
