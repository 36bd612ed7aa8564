/** Commands over HTTP, by the tokens of Salt's HTTP API. */
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import test from 'ava';
import { within } from '../helpers/deadline.ts';
import { json } from '../helpers/salt-api.ts';
import { lines, startBridgeApi } from './api-stage.ts';

const body = { target: 'web*', params: { text: 'hello' } };
const path = '/bridge/v1/commands/demo.echo/run';

test('a user with a rule calls a command, and reads what comes of it', async (t) => {
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

test('a run may be begun now and read later, by whoever began it alone', async (t) => {
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

test('refusals have a status, a code and what to do', async (t) => {
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

test('a key over HTTP is the same run; another request under it is a conflict', async (t) => {
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

test('who follows as many runs as may be is told before anything is published', async (t) => {
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
  // Others have places of their own; and who only begins one needs none.
  const prefer = { ...first, prefer: 'respond-async' };
  t.is((await ask({ method: 'POST', path, headers: prefer, body })).status, 202);
  const other = await ask({ method: 'POST', path, headers: { ...second, ...prefer }, body });
  t.is(other.status, 202);
});

test('a caller sees of the catalog what a rule permits it, and not for which minions or why', async (t) => {
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
