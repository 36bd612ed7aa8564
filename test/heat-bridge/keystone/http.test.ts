/** The bridge over HTTP for services that come with a token of Keystone's. */
import test, { type ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '../../../acl/index.ts';
import { createBridge } from '../../../heat-bridge/index.ts';
import { readAuditLog } from '../../../master/index.ts';
import { type ApiAnswer, json, type RunningApi, startApi } from '../../helpers/salt-api.ts';
import { directories } from '../../helpers/vector-master.ts';
import { acl, echo } from '../stage.ts';
import {
  exchangeOf,
  keystoneSection,
  type RecordedKeystone,
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
  allow('limited', {
    subject: { user: 'limited' },
    action: 'command',
    resource: { fun: 'demo.*' },
  }),
];

interface Stage extends RunningApi {
  readonly keystone: RecordedKeystone;
  /** `GET runs/1` and the like, below /bridge/v1. */
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
      bridge: { enroll: {}, ...(own === null ? {} : { keystone: own }) },
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

test('a service calls by the token of its project what its role there may', async (t) => {
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

test('another project, and a namesake in another domain, are not meant', async (t) => {
  const { as } = await open(t);
  for (const token of [sahara, tenant]) {
    t.deepEqual(codeOf(await as(token, run, call)), [403, 'ERR_COMMAND_DENIED']);
  }
});

test('a project that no rule is about learns nothing of what there is to be called', async (t) => {
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

test('what Keystone does not vouch for is nobody, wherever it is shown', async (t) => {
  const { as, keystone } = await open(t);
  keystone.change('sahara', 'revoked');
  for (const token of [tokenOf('unknown'), tokenOf('unscoped'), sahara]) {
    for (const request of ['GET commands', 'GET runs/1', 'GET handles', 'GET enrolments/1']) {
      t.deepEqual(codeOf(await as(token, request)), [401, 'ERR_EAUTH_TOKEN'], request);
    }
    t.deepEqual(codeOf(await as(token, run, call)), [401, 'ERR_EAUTH_TOKEN']);
  }
});

test("the master's own tokens, ended or made up, are never shown to Keystone", async (t) => {
  const { as, login, master, keystone } = await open(t);
  const session = await login('limited');
  t.is((await as(session, run, call)).status, 200);
  await master.logins.revoke({ user: 'limited' });
  for (const token of [session, '0'.repeat(64), session.slice(1), session.toUpperCase(), '']) {
    t.deepEqual(codeOf(await as(token, run, call)), [401, 'ERR_EAUTH_TOKEN']);
  }
  t.deepEqual(keystone.counts(), { logIns: 0, questions: 0 });
});

test('without a Keystone in the configuration its tokens are none', async (t) => {
  const { as, keystone } = await open(t, { section: null });
  t.deepEqual(codeOf(await as(trove, run, call)), [401, 'ERR_EAUTH_TOKEN']);
  t.is(keystone.requests.length, 0);
});

test('a Keystone that does not answer permits nothing, and the caller may try again', async (t) => {
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

test('the address of Keystone is asked where its section lists it, and nowhere else', async (t) => {
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

test('an idempotency key is of the project that the token is for, and of no other', async (t) => {
  const everybody = allow('everybody', {
    subject: { domain: '*' },
    action: 'command',
    resource: { fun: 'demo.*' },
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

test('a handle is of the project that the token is for; others know nothing of it', async (t) => {
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

test('an enrolment is of the project that the token is for; others know nothing of it', async (t) => {
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
