/** The bridge over HTTP for services that authenticate with a Keystone token. */

import { once } from 'node:events';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { allow, type PolicyRule } from '#acl';
import { createBridge } from '#guests';
import { parseKeystoneOptions } from '#heat-bridge';
import { KeystoneTokens, looksLikeKeystoneToken } from '#heat-bridge/openstack/keystone-tokens.ts';
import { TokenValidator } from '#heat-bridge/openstack/token-validator.ts';
import { AuthenticationError, readAuditLog } from '#master';
import { createHttpClient, type IdentityToken, readToken } from '#runtime';
import { within } from '../../helpers/deadline.ts';
import { type ApiAnswer, json, type RunningApi, startApi } from '../../helpers/salt-api.ts';
import { directories } from '../../helpers/vector-master.ts';
import { acl, echo } from '../stage.ts';
import {
  exchangeOf,
  keystoneSection,
  type RecordedKeystone,
  servicePassword,
  startKeystone,
  tokenOf,
} from './recorded-keystone.ts';

const [trove, sahara, tenant] = [tokenOf('trove'), tokenOf('sahara'), tokenOf('tenant')];
const projects = { trove: projectOf('trove'), sahara: projectOf('sahara') };

const databases = { project: 'databases', role: 'trove-admin' };
const rules: readonly PolicyRule[] = [
  allow('databases', {
    subject: databases,
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
  }),
  allow('handles and enrolment', {
    subject: { project: ['databases', 'clusters'] },
    action: 'command',
    resource: { fun: 'bridge.*' },
  }),
  // `web1` is a guest of no project.
  allow('handles of web servers', {
    subject: { project: ['databases', 'clusters'] },
    action: 'command',
    resource: { fun: 'bridge.handle.add', within: 'web*' },
  }),
  allow('limited', {
    subject: { user: 'limited' },
    action: 'command',
    resource: { fun: 'demo.*' },
  }),
];

interface Stage extends RunningApi {
  readonly keystone: RecordedKeystone;
  /** Sends a request such as `GET runs/1` below /bridge/v1. */
  as(token: string, request: string, body?: object): Promise<ApiAnswer>;
}

async function open(
  t: ExecutionContext,
  { section, more = [] }: { section?: object | null; more?: readonly PolicyRule[] } = {},
): Promise<Stage> {
  const keystone = await startKeystone(t);
  const bridge = createBridge({ commands: [echo] });
  const own = section === undefined ? keystoneSection(keystone.url) : section;
  const api = await startApi(t, {
    config: {
      acl: acl([...rules, ...more]),
      bridge: { enroll: {}, guests: {}, ...(own === null ? {} : { keystone: own }) },
    },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
  });
  const as: Stage['as'] = (token, request, body) => {
    const [method = '', path = ''] = request.split(' ');
    const headers = body === undefined ? { 'x-auth-token': token } : json(token);
    return api.ask({ method, path: `/bridge/v1/${path}`, headers, body });
  };
  return { ...api, keystone, as };
}

function projectOf(name: 'sahara' | 'trove'): string {
  return JSON.parse(exchangeOf(name).body).token.project.id;
}

function codeOf({ status, json: answer }: ApiAnswer): unknown {
  return [status, Object(Object(answer).error).code];
}

function begun({ text }: ApiAnswer): { readonly id: string; readonly isRepeated: boolean } {
  return JSON.parse(text.split('\n')[0] ?? '');
}

const run = 'POST commands/demo.echo/run';
const call = { target: ['web1'], params: { text: 'hello' } };

test('a service with a token of its project may call what its role permits', async (t) => {
  const { as, master, directory, keystone } = await open(t);
  t.like((await as(trove, 'GET commands')).json, { commands: [{ name: 'demo.echo' }] });
  const told = await as(trove, run, call);
  t.is(told.status, 200);
  t.like(JSON.parse(told.text.trim().split('\n').at(-1) ?? ''), {
    outcome: { status: 'succeeded', results: [{ return: 'hello' }] },
  });
  t.deepEqual(codeOf(await as(trove, run, { ...call, target: 'db*' })), [
    403,
    'ERR_COMMAND_DENIED',
  ]);
  t.is(keystone.counts().questions, 1);
  await master.audit.flush();
  const asked: string[] = [];
  for await (const { who, action, rule } of readAuditLog(directories(directory))) {
    if (action === 'job.publish') asked.push(`${who.kind} ${who.name} ${rule}`);
  }
  const { id } = JSON.parse(exchangeOf('trove').body).token.user;
  const name = `${projects.trove}/${id} (Default/databases, Default/trove)`;
  t.deepEqual(asked, [`project ${name} databases`]);
});

test('a rule does not match another project, or the same name in another domain', async (t) => {
  const { as } = await open(t);
  for (const token of [sahara, tenant]) {
    t.deepEqual(codeOf(await as(token, run, call)), [403, 'ERR_COMMAND_DENIED']);
  }
});

test('a project without a rule learns nothing about the catalog', async (t) => {
  const { as } = await open(t);
  for (const request of [
    'GET commands',
    'GET commands/demo.echo',
    'GET commands/none',
    'GET runs/1',
    'GET plans',
    'GET plan-runs/1',
  ]) {
    t.deepEqual(codeOf(await as(tenant, request)), [403, 'ERR_COMMAND_DENIED'], request);
  }
  for (const name of ['demo.echo', 'none']) {
    const answer = await as(tenant, `POST commands/${name}/run`, { target: '*', params: { a: 1 } });
    t.deepEqual(codeOf(answer), [403, 'ERR_COMMAND_DENIED']);
  }
});

test('a token that Keystone rejects is rejected by each interface', async (t) => {
  const { as, keystone } = await open(t);
  keystone.change('sahara', 'revoked');
  for (const token of [tokenOf('unknown'), tokenOf('unscoped'), sahara]) {
    for (const request of ['GET commands', 'GET runs/1', 'GET handles', 'GET enrolments/1']) {
      t.deepEqual(codeOf(await as(token, request)), [401, 'ERR_EAUTH_TOKEN'], request);
    }
    t.deepEqual(codeOf(await as(token, run, call)), [401, 'ERR_EAUTH_TOKEN']);
  }
});

test('expired and invalid tokens of the master are never sent to Keystone', async (t) => {
  const { as, login, master, keystone } = await open(t);
  const session = await login('limited');
  t.is((await as(session, run, call)).status, 200);
  await master.logins.revoke({ user: 'limited' });
  for (const token of [session, '0'.repeat(64), session.slice(1), session.toUpperCase(), '']) {
    t.deepEqual(codeOf(await as(token, run, call)), [401, 'ERR_EAUTH_TOKEN']);
  }
  t.deepEqual(keystone.counts(), { logIns: 0, questions: 0 });
});

test('without a configured Keystone its tokens are refused', async (t) => {
  const { as, keystone } = await open(t, { section: null });
  t.deepEqual(codeOf(await as(trove, run, call)), [401, 'ERR_EAUTH_TOKEN']);
  t.is(keystone.requests.length, 0);
});

test('if Keystone does not respond, nothing is permitted, and the caller may retry', async (t) => {
  const { as, keystone, master } = await open(t);
  for (const answerer of [
    (_: unknown, response: { destroy(): unknown }) => response.destroy(),
    () => {},
  ]) {
    keystone.answerAll(answerer);
    t.deepEqual(codeOf(await as(trove, run, call)), [503, 'ERR_EAUTH_UNAVAILABLE']);
  }
  t.deepEqual(await master.jobs.list(), []);
});

test('the address of Keystone is requested only if its section lists it', async (t) => {
  const listed = await startKeystone(t);
  const url = listed.url.replace('127.0.0.1', 'localhost');
  const section = keystoneSection(url);
  const closed = await open(t, { section });
  t.deepEqual(codeOf(await closed.as(trove, run, call)), [503, 'ERR_EAUTH_UNAVAILABLE']);
  t.is(listed.requests.length, 0);
  const addresses = ['127.0.0.1', '::1'];
  const opened = await open(t, { section: { ...section, addresses } });
  t.is((await opened.as(trove, run, call)).status, 200);
});

test('an idempotency key belongs to the project of the token', async (t) => {
  const everybody = allow('everybody', {
    subject: { domain: '*' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
  });
  const { as } = await open(t, { more: [everybody] });
  const keyed = { ...call, idempotencyKey: 'k' };
  const first = begun(await as(trove, run, keyed));
  const again = begun(await as(trove, run, { ...keyed, project: projects.trove }));
  t.deepEqual([again.id, again.isRepeated], [first.id, true]);
  for (const token of [sahara, tenant]) {
    const other = begun(await as(token, run, keyed));
    t.false(other.isRepeated);
    t.not(other.id, first.id);
    t.deepEqual(codeOf(await as(token, `GET runs/${first.id}`)), [404, 'ERR_RUN_UNKNOWN']);
    const foreign = { ...keyed, project: projects.trove };
    t.deepEqual(codeOf(await as(token, run, foreign)), [403, 'ERR_PROJECT']);
  }
});

test('a handle belongs to the project of the token, and other projects cannot see it', async (t) => {
  const { as } = await open(t);
  const signal = { endpoint: 'http://127.0.0.1:1/signal', token: 'x' };
  const registration = { alias: 'ready', minions: ['web1'], signal };
  const added = await as(trove, 'POST handles', registration);
  t.like(added.json, { owner: `project:${projects.trove}` });
  const claimed = { ...registration, alias: 'mine', owner: `project:${projects.trove}` };
  t.like((await as(sahara, 'POST handles', claimed)).json, {
    owner: `project:${projects.sahara}`,
  });
  for (const request of [
    'GET handles/ready',
    'DELETE handles/ready',
    'GET handles/ready/outbox',
    'DELETE handles/ready/outbox',
  ]) {
    t.deepEqual(codeOf(await as(sahara, request)), [404, 'ERR_HANDLE_UNKNOWN'], request);
  }
  const replaced = await as(sahara, 'PUT handles/ready', registration);
  t.deepEqual(codeOf(replaced), [409, 'ERR_HANDLE_EXISTS']);
  t.deepEqual((await as(trove, 'GET handles')).json, [added.json]);
  t.deepEqual(codeOf(await as(tenant, 'POST handles', registration)), [403, 'ERR_DENIED']);
});

test("no reference of a project reaches another project's guest", async (t) => {
  const tenants = allow('tenants', {
    subject: { project: ['databases', 'clusters'] },
    action: 'command',
    resource: { fun: ['bridge.*', 'demo.*'] },
  });
  const { as } = await open(t, { more: [tenants] });
  const ofTrove = { id: 'guest-1', format: 'none' };
  t.is((await as(trove, 'POST enrolments', ofTrove)).status, 200);
  const signal = { endpoint: 'http://127.0.0.1:1/signal', token: 'x' };
  const collect = { request: { metadata_url: 'http://127.0.0.1:1/m' } };
  const roles = (minion: string) => ({
    db: { writes: { password: {} }, minions: [minion] },
    web: { reads: { password: 'db/password' }, minions: [] },
  });
  const references = (id: string): readonly [string, object][] => [
    ['POST handles', { alias: 'ready', minions: [id], signal }],
    ['POST data', { name: 'shop', roles: roles(id) }],
    ['POST stacks', { name: 'shop', minions: [id], servers: [{ server: 's', collect }] }],
    ['POST stacks', { name: 'shop', servers: [{ server: 's', minion: id, collect }] }],
  ];
  const denied = [403, 'ERR_DENIED'];
  for (const [request, body] of references('guest-1')) {
    t.deepEqual(codeOf(await as(sahara, request, body)), denied, `${request} of another`);
  }
  // A machine without an enrolment belongs to no project, and another project may enrol it later.
  for (const [request, body] of references('guest-2')) {
    t.deepEqual(codeOf(await as(sahara, request, body)), denied, `${request} of nobody`);
  }
  const elsewhere = { ...call, target: ['guest-1'] };
  t.deepEqual(codeOf(await as(sahara, run, elsewhere)), [403, 'ERR_COMMAND_DENIED']);
  for (const [request, body] of references('guest-1').slice(0, 3)) {
    t.is((await as(trove, request, body)).status, 200, request);
  }
});

test('registrations of a project for a machine end with the unused ticket', async (t) => {
  const { as } = await open(t);
  const signal = { endpoint: 'http://127.0.0.1:1/signal', token: 'x' };
  const machine = { id: 'guest-1', format: 'none' };
  const made = await as(trove, 'POST enrolments', machine);
  const { ticket } = made.json as { ticket: string };
  const minions = ['guest-1'];
  t.is((await as(trove, 'POST handles', { alias: 'ready', minions, signal })).status, 200);
  // A newer ticket of the same project changes nothing.
  const again = (await as(trove, 'POST enrolments', machine)).json as { ticket: string };
  t.not(again.ticket, ticket);
  t.like((await as(trove, 'GET handles/ready')).json, { minions });
  const failure = { id: 'guest-1', ticket: again.ticket, reason: 'no disk' };
  t.is((await as('', 'POST enroll/failure', failure)).status, 200);
  t.like((await as(trove, 'GET handles/ready')).json, { minions: [] });
});

test('an enrolment belongs to the project of the token, and other projects cannot see it', async (t) => {
  const { as, login } = await open(t);
  const machine = { id: 'db-1', format: 'none' };
  const made = await as(trove, 'POST enrolments', machine);
  t.like(made.json, { enrolment: { project: projects.trove } });
  const { number } = (made.json as { enrolment: { number: string } }).enrolment;
  const foreign = { ...machine, id: 'db-2', project: projects.trove };
  t.deepEqual(codeOf(await as(sahara, 'POST enrolments', foreign)), [403, 'ERR_PROJECT']);
  for (const [request, body] of [
    [`GET enrolments/${number}`, undefined],
    [`POST enrolments/${number}/retire`, {}],
  ] as const) {
    t.deepEqual(codeOf(await as(sahara, request, body)), [404, 'ERR_ENROLL_UNKNOWN']);
  }
  t.is((await as(trove, `POST enrolments/${number}/retire`, {})).status, 200);
  const user = await login('limited');
  t.deepEqual(codeOf(await as(user, 'POST enrolments', machine)), [400, 'ERR_ENROLL_ARGS']);
});

// Validation of tokens by Keystone, with recorded responses.

interface ClientStage {
  readonly keystone: RecordedKeystone;
  readonly client: TokenValidator;
  readonly clock: { now: number };
  /** Messages of the log. */
  readonly told: unknown[];
}

async function openClient(t: ExecutionContext, password?: string): Promise<ClientStage> {
  const keystone = await startKeystone(t);
  const { endpoints, timeoutMs, ...who } = parseKeystoneOptions(
    keystoneSection(keystone.url, password),
  );
  const clock = { now: 0 };
  const told: unknown[] = [];
  const client = new TokenValidator({
    ...who,
    ask: createHttpClient({ endpoints, timeoutMs, resolve: async () => [] }),
    monotonic: () => clock.now,
    closing: new AbortController().signal,
    log: { warn: (fields: object) => told.push(fields) },
  });
  return { keystone, client, clock, told };
}

const unavailable = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_UNAVAILABLE' } as const;

test("a token is validated with the service's own token, and yields project, roles and user", async (t) => {
  const { client, keystone } = await openClient(t);
  const token = await client.validate(tokenOf('trove'));
  t.like(token, {
    user: { name: 'trove', domain: { id: 'default', name: 'Default' } },
    project: { name: 'databases', domain: { id: 'default', name: 'Default' } },
  });
  // In Keystone, a member also has the role reader.
  t.deepEqual([...(token?.roles ?? [])].sort(), ['member', 'reader', 'trove-admin']);
  const [logIn, question] = keystone.requests;
  t.is(logIn?.path, '/v3/auth/tokens');
  t.deepEqual(JSON.parse(logIn?.body ?? '').auth, {
    identity: {
      methods: ['password'],
      password: {
        user: { name: 'admin', domain: { name: 'Default' }, password: servicePassword },
      },
    },
    scope: { project: { name: 'admin', domain: { name: 'Default' } } },
  });
  t.is(question?.path, '/v3/auth/tokens?nocatalog');
  t.is(question?.headers['x-auth-token'], exchangeOf('log-in').answer['X-Subject-Token']);
  t.is(question?.headers['x-subject-token'], tokenOf('trove'));
});

test('an unknown or expired token is rejected', async (t) => {
  const { client, keystone } = await openClient(t);
  t.is(await client.validate(tokenOf('unknown')), undefined);
  t.not(await client.validate(tokenOf('trove')), undefined);
  keystone.change('trove', 'revoked');
  t.is(await client.validate(tokenOf('trove')), undefined);
});

test('the service logs in once, and again when its own token has expired', async (t) => {
  const { client, keystone } = await openClient(t);
  const both = [client.validate(tokenOf('trove')), client.validate(tokenOf('sahara'))];
  t.false((await Promise.all(both)).includes(undefined));
  t.is(keystone.counts().logIns, 1);
  keystone.endOwnToken();
  const again = [client.validate(tokenOf('trove')), client.validate(tokenOf('sahara'))];
  t.false((await Promise.all(again)).includes(undefined));
  t.is(keystone.counts().logIns, 2);
});

test('a refused log-in is not repeated for half a minute', async (t) => {
  const { client, clock, keystone, told } = await openClient(t, 'wrong');
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  clock.now = 29_999;
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(keystone.counts().logIns, 1);
  clock.now = 30_000;
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(keystone.counts().logIns, 2);
  t.regex(JSON.stringify(told[0]), /rejected the credentials/);
});

test('without the right to validate tokens, or with an unreadable response, nothing is permitted', async (t) => {
  const { client, keystone } = await openClient(t);
  keystone.change('sahara', 'not-permitted');
  await t.throwsAsync(client.validate(tokenOf('sahara')), unavailable);
  const answers: readonly (readonly [number, string])[] = [
    [200, '{}'],
    [200, '{"token": {"user": {"name": "trove"}}}'],
    [200, exchangeOf('trove').body.slice(0, -10)],
    [200, exchangeOf('trove').body.replace(/"expires_at": ?"[^"]*"/, '"expires_at": "never"')],
    [500, exchangeOf('trove').body],
    [301, ''],
  ];
  for (const [status, body] of answers) {
    keystone.answerAll((_, response) => {
      response.writeHead(status, { location: `${keystone.url}/auth/tokens` }).end(body);
    });
    await t.throwsAsync(client.validate(tokenOf('trove')), unavailable, `${status} ${body}`);
  }
});

test('a Keystone that closes connections counts as unreachable, and is logged at limited intervals', async (t) => {
  const { client, clock, keystone, told } = await openClient(t);
  t.not(await client.validate(tokenOf('trove')), undefined);
  keystone.answerAll((_, response) => response.destroy());
  await t.throwsAsync(client.validate(tokenOf('trove')), {
    ...unavailable,
    message: 'Keystone is unavailable; retry later',
  });
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(told.length, 1);
  clock.now = 10_000;
  await t.throwsAsync(client.validate(tokenOf('trove')), unavailable);
  t.is(told.length, 2);
});

// Lifetime of cached responses of Keystone.

const token = tokenOf('trove');
const none = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_TOKEN' } as const;

/** Creates a cache of Keystone's responses, with a clock that the test changes. */
function stage(answer: () => IdentityToken | undefined) {
  const clock = { now: 0 };
  let asked = 0;
  const tokens = new KeystoneTokens({
    validate: async () => {
      asked += 1;
      return answer();
    },
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  return { tokens, clock, asked: () => asked };
}

function recorded(name: 'trove' | 'unscoped' = 'trove'): IdentityToken {
  const found = readToken(JSON.parse(exchangeOf(name).body));
  if (found === undefined) throw new TypeError('no token');
  return { ...found, expiresAt: 3_600_000 };
}

test('the same token is validated once in half a minute', async (t) => {
  const { tokens, clock, asked } = stage(recorded);
  t.teardown(() => tokens.close());
  const held = await Promise.all([tokens.hold(token), tokens.hold(token)]);
  for (const { subject, stop } of held) {
    t.like(subject, { kind: 'project', project: { name: 'databases' }, user: { name: 'trove' } });
    stop();
  }
  clock.now = 29_999;
  (await tokens.hold(token)).stop();
  t.is(asked(), 1);
  clock.now = 30_000;
  (await tokens.hold(token)).stop();
  t.is(asked(), 2);
});

test('a token ends at its expiry, whatever was cached before', async (t) => {
  const { tokens, clock } = stage(() => ({ ...recorded(), expiresAt: 10_000 }));
  t.teardown(() => tokens.close());
  clock.now = 9_999;
  (await tokens.hold(token)).stop();
  clock.now = 10_000;
  await t.throwsAsync(tokens.hold(token), none);
});

test('a token without a project is refused', async (t) => {
  const { tokens } = stage(() => recorded('unscoped'));
  t.teardown(() => tokens.close());
  await t.throwsAsync(tokens.hold(token), none);
});

test('a run ends when Keystone revokes its token', async (t) => {
  let isRevoked = false;
  const { tokens, clock } = stage(() => (isRevoked ? undefined : recorded()));
  t.teardown(() => tokens.close());
  const { ended } = await tokens.hold(token);
  isRevoked = true;
  t.false(ended.aborted);
  clock.now = 30_000;
  await within('the end of the token', once(ended, 'abort'));
  await t.throwsAsync(tokens.hold(token), none);
});

test('a held token ends when Keystone is unreachable for longer than an answer is valid', async (t) => {
  let isAway = false;
  const { tokens, clock } = stage(() => {
    if (isAway) throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'away');
    return recorded();
  });
  t.teardown(() => tokens.close());
  const { ended } = await tokens.hold(token);
  isAway = true;
  (await tokens.hold(token)).stop();
  clock.now = 30_000;
  await t.throwsAsync(tokens.hold(token), { code: 'ERR_EAUTH_UNAVAILABLE' });
  await within('the end of the token', once(ended, 'abort'));
});

test('a call over /rpc with a Keystone token is refused, and Keystone is not asked', async (t) => {
  const { ask, keystone } = await open(t);
  const request = { method: 'POST', path: '/rpc/bridge.commands', body: { token: trove } };
  t.deepEqual(codeOf(await ask(request)), [401, 'ERR_EAUTH_TOKEN']);
  t.is(keystone.counts().questions, 0);
});

test('tokens from one address leave turns at Keystone to other addresses and to accepted tokens', async (t) => {
  const clock = { now: 0 };
  const asked: string[] = [];
  const waiting: ((found: IdentityToken | undefined) => void)[] = [];
  const tokens = new KeystoneTokens({
    validate: (text) => {
      asked.push(text);
      return new Promise((resolve) => waiting.push(resolve));
    },
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  t.teardown(() => tokens.close());
  const accepted = tokens.hold(`${token}known`, '10.0.0.1');
  waiting.shift()?.(recorded());
  (await accepted).stop();
  clock.now = 30_001;
  const held = Array.from({ length: 262 }, (_, at) => tokens.hold(`${token}${at}`, '10.0.0.1'));
  const codes = Promise.allSettled(held);
  await t.throwsAsync(tokens.hold(`${token}x`, '10.0.0.1'), { code: 'ERR_EAUTH_LIMIT' });
  t.is(waiting.length, 6);
  const others = [
    tokens.hold(`${token}known`, '10.0.0.1'),
    tokens.hold(`${token}other`, '10.0.0.2'),
  ];
  t.deepEqual(asked.slice(-2), [`${token}known`, `${token}other`]);
  for (const resolve of waiting.splice(6)) resolve(recorded());
  for (const { stop } of await Promise.all(others)) stop();
  while ((await Promise.race([codes, Promise.resolve(undefined)])) === undefined) {
    for (const resolve of waiting.splice(0)) resolve(undefined);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await t.throwsAsync(Promise.all(held), none);
});

test('results for invalid tokens do not evict those for accepted ones', async (t) => {
  let count = 0;
  const tokens = new KeystoneTokens({
    validate: async (text) => {
      count += 1;
      return text.endsWith('known') ? recorded() : undefined;
    },
    now: () => 0,
    monotonic: () => 0,
  });
  t.teardown(() => tokens.close());
  (await tokens.hold(`${token}known`)).stop();
  for (let at = 0; at < 10_001; at += 1) await t.throwsAsync(tokens.hold(`${token}${at}`), none);
  (await tokens.hold(`${token}known`)).stop();
  t.is(count, 10_002);
});

test("no form of the master's tokens, truncated or in upper case, looks like a Keystone token", (t) => {
  const hex = fc.stringMatching(/^[0-9a-f]{1,64}$|^[0-9A-F]{64}$/);
  fc.assert(fc.property(hex, (text) => !looksLikeKeystoneToken(text)));
  for (const name of ['trove', 'unknown'] as const) t.true(looksLikeKeystoneToken(tokenOf(name)));
  t.true(looksLikeKeystoneToken(`eyJhbGciOiJFUzI1NiJ9.${'e'.repeat(80)}.${'s'.repeat(86)}`));
  for (const text of [`${token}\r\nx: y`, `${token} `, 'short', 'g'.repeat(2049), '']) {
    t.false(looksLikeKeystoneToken(text));
  }
});
