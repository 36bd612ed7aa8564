/** Commands over HTTP, with tokens of Salt's HTTP API. */

import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import test from 'ava';
import fastify, { type FastifyRequest, type LightMyRequestResponse } from 'fastify';
import { limitRefusedTokens, refuseIfStale } from '#heat-bridge/http/bridge-plugin.ts';
import { sendBridgeError } from '#heat-bridge/http-problems.ts';
import { AuthenticationError } from '#master';
import { within } from '../helpers/deadline.ts';
import { json } from '../helpers/salt-api.ts';
import { lines, startBridgeApi } from './api-stage.ts';

const body = { target: 'web*', params: { text: 'hello' } };
const path = '/bridge/v1/commands/demo.echo/run';

test('a user with a rule calls a command and reads its result', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const list = await ask({ path: '/bridge/v1/commands', headers });
  t.like(list.json, { commands: [{ name: 'demo.echo' }] });
  t.like((await ask({ path: '/bridge/v1/commands/demo.echo', headers })).json, { version: 1 });
  const told = lines(await ask({ method: 'POST', path, headers, body }));
  t.deepEqual(
    told.map(({ type }) => type),
    ['begun', 'published', 'result', 'outcome'],
  );
  t.like(told[3], { outcome: { status: 'succeeded', results: [{ return: 'hello' }] } });
  const again = await ask({ path: `/bridge/v1/runs/${String(told[0]?.id)}`, headers });
  t.deepEqual(lines(again).slice(1), told.slice(1));
});

test('a run can be started now and read later, only by its caller', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const prefer = { ...headers, prefer: 'respond-async' };
  const begun = await ask({ method: 'POST', path, headers: prefer, body });
  t.is(begun.status, 202);
  const { id } = begun.json as { id: string };
  const other = json(await login('admin'));
  t.is((await ask({ path: `/bridge/v1/runs/${id}`, headers: other })).status, 404);
  const ended = await ask({ method: 'DELETE', path: `/bridge/v1/runs/${id}`, headers });
  t.like(ended.json, { id, command: 'demo.echo' });
});

test('the outcome of a run can be polled, only by its caller', async (t) => {
  const gate = new AbortController();
  const { ask, login } = await startBridgeApi(t, {
    functions: {
      'test.echo': async () => {
        if (!gate.signal.aborted) await once(gate.signal, 'abort');
        return 'hello';
      },
    },
  });
  const headers = json(await login('limited'));
  const prefer = { ...headers, prefer: 'respond-async' };
  const plan = { groups: { all: ['web1'] }, params: { text: 'hello' } };
  const runs = [
    [path, body, 'runs'],
    ['/bridge/v1/plans/demo.twice/run', plan, 'plan-runs'],
  ] as const;
  const begun = await Promise.all(
    runs.map(async ([to, asked, kind]) => {
      const { json: first } = await ask({ method: 'POST', path: to, headers: prefer, body: asked });
      return `/bridge/v1/${kind}/${(first as { id: string }).id}`;
    }),
  );
  for (const run of begun) {
    t.deepEqual((await ask({ path: `${run}/outcome`, headers })).json, { state: 'running' });
    const other = json(await login('admin'));
    t.is((await ask({ path: `${run}/outcome`, headers: other })).status, 404);
  }
  gate.abort();
  for (const run of begun) {
    const told = lines(await ask({ path: run, headers }));
    const { json: ended } = await ask({ path: `${run}/outcome`, headers });
    t.deepEqual(ended, { state: 'ended', outcome: told.at(-1)?.outcome });
    t.like(ended, { outcome: { status: 'succeeded' } });
  }
});

test('refusals have a status, a code and a remedy', async (t) => {
  const { ask, login, master } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const admin = json(await login('admin'));
  const post = (given: unknown, to = path, by = headers) =>
    ask({ method: 'POST', path: to, headers: by, body: given });
  const cases = [
    [post(body, path, json()), 401, 'ERR_EAUTH_TOKEN'],
    [post(body, path, json('0'.repeat(64))), 401, 'ERR_EAUTH_TOKEN'],
    [ask({ path: '/bridge/v1/commands' }), 401, 'ERR_EAUTH_TOKEN'],
    [post(body, path, admin), 403, 'ERR_COMMAND_DENIED'],
    [post({ ...body, target: 'db*' }), 403, 'ERR_COMMAND_DENIED'],
    [post({ ...body, target: 'none' }), 403, 'ERR_COMMAND_DENIED'],
    [post(body, '/bridge/v1/commands/demo.none/run'), 404, 'ERR_COMMAND_UNKNOWN'],
    [post(body, '/bridge/v1/commands/cmd.run/run'), 403, 'ERR_COMMAND_DENIED'],
    [post(body, '/bridge/v1/commands/other.echo/run'), 403, 'ERR_COMMAND_DENIED'],
    [post({ ...body, params: { text: '-x' } }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...body, fun: 'cmd.run' }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ params: {} }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post('no JSON'), 400, 'ERR_ARGS'],
    [post({ ...body, caller: 'local' }), 400, 'ERR_COMMAND_PARAMETERS'],
  ] as const;
  for (const [answer, status, code] of cases) {
    const { status: found, json: told } = await answer;
    t.deepEqual([found, (told as { error: { code: string } }).error.code], [status, code]);
  }
  t.deepEqual(await master.jobs.list(), []);
});

test('refusals over HTTP name the allowed requests and the nearest field', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const messageOf = async (given: unknown, to = path): Promise<string> => {
    const { json: told } = await ask({ method: 'POST', path: to, headers, body: given });
    return (told as { error: { message: string } }).error.message;
  };
  const list = 'GET /bridge/v1/commands lists what you may call';
  t.is(
    await messageOf(body, '/bridge/v1/commands/demo.none/run'),
    `the catalog has no command with this name; ${list}`,
  );
  t.is(
    await messageOf(body, '/bridge/v1/commands/other.echo/run'),
    `no rule permits a command with this name; ${list}`,
  );
  const described = 'GET /bridge/v1/commands/demo.echo describes it';
  t.is(
    await messageOf({ ...body, parms: {} }),
    `a field: unknown field; did you mean params?; ${described}`,
  );
  t.regex(await messageOf({ ...body, params: { txt: 'x' } }), /did you mean text\?.*describes it$/);
});

test('the same key over HTTP returns the same run, and a different request with it is a conflict', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const keyed = { ...body, idempotencyKey: 'k' };
  const first = lines(await ask({ method: 'POST', path, headers, body: keyed }));
  const again = lines(await ask({ method: 'POST', path, headers, body: keyed }));
  t.deepEqual([first[0]?.isRepeated, again[0]?.isRepeated], [false, true]);
  t.is(first[0]?.id, again[0]?.id);
  const other = { ...keyed, params: { text: 'other' } };
  t.is((await ask({ method: 'POST', path, headers, body: other })).status, 409);
});

test('a caller beyond the limit of followed runs is refused before anything is published', async (t) => {
  const { ask, login, master, port } = await startBridgeApi(t, {
    options: { streamsPerToken: 1 },
    functions: {
      'test.echo': async (_call, { signal }) => {
        await once(signal, 'abort');
        return null;
      },
    },
  });
  const [first, second] = [json(await login('limited')), json(await login('limited'))];
  const following = httpRequest({ port, host: '127.0.0.1', method: 'POST', path, headers: first });
  t.teardown(() => following.destroy());
  following.on('error', () => {});
  const published = new Promise<void>((resolve) => {
    following.once('response', (response) => {
      response.on('error', () => {});
      response.on('data', (chunk) => {
        if (String(chunk).includes('"published"')) resolve();
      });
    });
  });
  following.end(JSON.stringify(body));
  await within('the first job', published);
  const busy = await ask({ method: 'POST', path, headers: first, body });
  t.is(busy.status, 429);
  t.like(busy.json, { error: { code: 'ERR_COMMAND_BUSY' } });
  const planned = { groups: { all: ['web1'] }, params: { text: 'x' } };
  const plan = '/bridge/v1/plans/demo.twice/run';
  t.is((await ask({ method: 'POST', path: plan, headers: first, body: planned })).status, 429);
  t.is((await master.jobs.list()).length, 1);
  // Other callers have their own limits. A caller that only begins a request uses no slot.
  const prefer = { ...first, prefer: 'respond-async' };
  t.is((await ask({ method: 'POST', path, headers: prefer, body })).status, 202);
  const other = await ask({ method: 'POST', path, headers: { ...second, ...prefer }, body });
  t.is(other.status, 202);
});

test('the catalog shows a caller only permitted commands, without minions or rules', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const namesFor = async (user: string): Promise<unknown> => {
    const { json: list } = await ask({
      path: '/bridge/v1/commands',
      headers: json(await login(user)),
    });
    return (list as { commands: { name: string }[] }).commands.map(({ name }) => name);
  };
  t.deepEqual(await namesFor('limited'), ['demo.echo', 'demo.later']);
  t.deepEqual(await namesFor('admin'), []);
  const headers = json(await login('limited'));
  const shown = await ask({ path: '/bridge/v1/commands/demo.later', headers });
  t.like(shown.json, { name: 'demo.later' });
  t.false(shown.text.includes('within'));
  const told = ['other.echo', 'no.such'].map((name) =>
    ask({ path: `/bridge/v1/commands/${name}`, headers }),
  );
  const [hidden, none] = await Promise.all(told);
  t.is(hidden?.status, 403);
  t.deepEqual(hidden?.json, none?.json);
});

const tokenOf = ({ headers }: FastifyRequest): string | undefined =>
  headers['x-auth-token']?.toString();

test('a flood of bad tokens ends neither known tokens of the address nor its guests', async (t) => {
  const app = fastify();
  t.teardown(() => app.close());
  limitRefusedTokens(app, { tokenOf, now: () => 0 });
  app.setErrorHandler((error, _request, reply) => sendBridgeError(error, reply));
  const check = async ({ headers }: FastifyRequest): Promise<object> => {
    if (headers['x-auth-token'] === 'good') return {};
    throw new AuthenticationError('ERR_EAUTH_TOKEN', 'none');
  };
  app.get('/commands', check);
  app.get('/guest/data', check);
  const ask = async (url: string, token: string): Promise<number> =>
    (await app.inject({ url, headers: { 'x-auth-token': token } })).statusCode;
  // Bad requests of one guest are not counted for the agent that forwards those of all guests.
  for (let count = 0; count < 150; count += 1) t.is(await ask('/guest/data', 'bad'), 401);
  t.is(await ask('/commands', 'good'), 200);
  for (let count = 0; count < 101; count += 1) await ask('/commands', 'bad');
  t.is(await ask('/commands', 'bad'), 429);
  t.is(await ask('/commands?of=/guest/data', 'bad'), 429);
  t.is(await ask('/commands', 'good'), 200);
  t.is(await ask('/guest/data', 'good'), 200);
});

// A flood of invalid tokens affects only the address that sends it.

test('a client that sends too many bad tokens waits, and no other client does', async (t) => {
  const clock = { now: 0 };
  let asked = 0;
  const app = fastify();
  t.teardown(() => app.close());
  limitRefusedTokens(app, { tokenOf, now: () => clock.now });
  app.setErrorHandler((error, _request, reply) => sendBridgeError(error, reply));
  app.get('/', async ({ headers }) => {
    asked += 1;
    if (headers['x-auth-token'] === 'good') return {};
    throw new AuthenticationError('ERR_EAUTH_TOKEN', 'none');
  });
  const show = (token: string, remoteAddress: string): Promise<LightMyRequestResponse> =>
    app.inject({ url: '/', remoteAddress, headers: { 'x-auth-token': token } });
  for (let count = 0; count < 101; count += 1)
    t.is((await show('bad', '10.0.0.1')).statusCode, 401);
  const { statusCode, body } = await show('bad', '10.0.0.1');
  t.is(statusCode, 429);
  t.is(JSON.parse(body).error.code, 'ERR_EAUTH_LIMIT');
  t.is(asked, 101);
  t.is((await show('good', '10.0.0.2')).statusCode, 200);
  clock.now = 50;
  t.is((await show('bad', '10.0.0.1')).statusCode, 401);
  t.is((await show('bad', '10.0.0.1')).statusCode, 429);
});

test('any number of valid tokens is accepted', async (t) => {
  const app = fastify();
  t.teardown(() => app.close());
  limitRefusedTokens(app, { tokenOf, now: () => 0 });
  app.get('/', async () => ({}));
  for (let count = 0; count < 150; count += 1) t.is((await app.inject('/')).statusCode, 200);
});

test('a stale member of a cluster rejects every request to the bridge', async (t) => {
  const member = { isStale: false };
  const requireCurrent = (): void => {
    if (member.isStale) throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'stale');
  };
  const app = fastify();
  t.teardown(() => app.close());
  refuseIfStale(app, requireCurrent);
  app.setErrorHandler((error, _request, reply) => sendBridgeError(error, reply));
  app.get('/guest/any', async () => ({}));
  t.is((await app.inject('/guest/any')).statusCode, 200);
  member.isStale = true;
  t.is((await app.inject('/guest/any')).statusCode, 503);
});

// Plans over HTTP, by the tokens of Salt's HTTP API.

const planBody = { groups: { all: 'web*' }, params: { text: 'hello' } };
const planPath = '/bridge/v1/plans/demo.twice/run';

test('a user with rules for its commands runs a plan and reads its result', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const list = await ask({ path: '/bridge/v1/plans', headers });
  t.like(list.json, { plans: [{ name: 'demo.twice', steps: [{ name: 'one' }, { name: 'two' }] }] });
  t.like((await ask({ path: '/bridge/v1/plans/demo.twice', headers })).json, { version: 1 });
  const told = lines(await ask({ method: 'POST', path: planPath, headers, body: planBody }));
  t.deepEqual(
    told.map(({ type }) => type),
    ['begun', 'step', 'result', 'step', 'step', 'result', 'step', 'outcome'],
  );
  t.like(told[7], { outcome: { status: 'succeeded', steps: [{ step: 'one' }, { step: 'two' }] } });
  const again = await ask({ path: `/bridge/v1/plan-runs/${String(told[0]?.id)}`, headers });
  t.deepEqual(lines(again).slice(1), told.slice(1));
});

test('a plan can be started now and read or cancelled later, only by its caller', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const prefer = { ...headers, prefer: 'respond-async' };
  const keyed = { ...planBody, idempotencyKey: 'k' };
  const begun = await ask({ method: 'POST', path: planPath, headers: prefer, body: keyed });
  t.is(begun.status, 202);
  const { id } = begun.json as { id: string };
  const run = `/bridge/v1/plan-runs/${id}`;
  const other = json(await login('admin'));
  t.is((await ask({ path: run, headers: other })).status, 404);
  t.is((await ask({ method: 'DELETE', path: run, headers: other })).status, 404);
  const ended = await ask({ method: 'DELETE', path: `${run}?undo=false`, headers });
  t.like(ended.json, { id, plan: 'demo.twice' });
  const again = await ask({ method: 'POST', path: planPath, headers: prefer, body: keyed });
  t.like(again.json, { id, isRepeated: true });
});

test('refused plans have a status, a code and a remedy', async (t) => {
  const { ask, login, master } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const admin = json(await login('admin'));
  const post = (given: unknown, to = planPath, by = headers) =>
    ask({ method: 'POST', path: to, headers: by, body: given });
  const cases = [
    [post(planBody, planPath, json()), 401, 'ERR_EAUTH_TOKEN'],
    [ask({ path: '/bridge/v1/plans' }), 401, 'ERR_EAUTH_TOKEN'],
    [ask({ path: '/bridge/v1/plans/demo.twice' }), 401, 'ERR_EAUTH_TOKEN'],
    [post(planBody, planPath, admin), 404, 'ERR_PLAN_UNKNOWN'],
    [post({ ...planBody, groups: { all: 'db*' } }), 403, 'ERR_COMMAND_DENIED'],
    [post({ ...planBody, groups: {} }), 400, 'ERR_PLAN_GROUPS'],
    [
      post({ ...planBody, groups: { all: { target: 'E@web(', targetType: 'compound' } } }),
      400,
      'ERR_BAD_TGT',
    ],
    [post(planBody, '/bridge/v1/plans/demo.echo/run'), 404, 'ERR_PLAN_UNKNOWN'],
    [post({ ...planBody, params: { text: '-x' } }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...planBody, steps: {} }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...planBody, caller: 'local' }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...planBody, groups: { all: 1 } }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ params: {} }), 400, 'ERR_COMMAND_PARAMETERS'],
  ] as const;
  for (const [answer, status, code] of cases) {
    const { status: found, json: told } = await answer;
    t.deepEqual([found, (told as { error: { code: string } }).error.code], [status, code]);
  }
  t.deepEqual(await master.jobs.list(), []);
});

test('a caller sees a plan only if a rule permits each of its commands', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const { json: list } = await ask({ path: '/bridge/v1/plans', headers });
  t.deepEqual(
    (list as { plans: { name: string }[] }).plans.map(({ name }) => name),
    ['demo.twice'],
  );
  const told = ['demo.undone', 'no.such'].flatMap((name) => [
    ask({ path: `/bridge/v1/plans/${name}`, headers }),
    ask({ method: 'POST', path: `/bridge/v1/plans/${name}/run`, headers, body: planBody }),
  ]);
  for (const { status, json: refused } of await Promise.all(told)) {
    t.is(status, 404);
    t.like(refused, {
      error: {
        code: 'ERR_PLAN_UNKNOWN',
        message: 'the plan does not exist, or no rule permits it',
      },
    });
  }
});
