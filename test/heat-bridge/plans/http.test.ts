/** Plans over HTTP, by the tokens of Salt's HTTP API. */
import test from 'ava';
import { json } from '../../helpers/salt-api.ts';
import { lines, startBridgeApi } from '../api-stage.ts';

const body = { groups: { all: 'web*' }, params: { text: 'hello' } };
const path = '/bridge/v1/plans/demo.twice/run';

test('a user with rules for its commands runs a plan, and reads what comes of it', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const list = await ask({ path: '/bridge/v1/plans', headers });
  t.like(list.json, { plans: [{ name: 'demo.twice', steps: [{ name: 'one' }, { name: 'two' }] }] });
  t.like((await ask({ path: '/bridge/v1/plans/demo.twice', headers })).json, { version: 1 });
  const told = lines(await ask({ method: 'POST', path, headers, body }));
  t.deepEqual(
    told.map(({ type }) => type),
    ['begun', 'step', 'result', 'step', 'step', 'result', 'step', 'outcome'],
  );
  t.like(told[7], { outcome: { status: 'succeeded', steps: [{ step: 'one' }, { step: 'two' }] } });
  const again = await ask({ path: `/bridge/v1/plan-runs/${String(told[0]?.id)}`, headers });
  t.deepEqual(lines(again).slice(1), told.slice(1));
});

test('a plan may be begun now and read or cancelled later, by whoever began it alone', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const prefer = { ...headers, prefer: 'respond-async' };
  const keyed = { ...body, idempotencyKey: 'k' };
  const begun = await ask({ method: 'POST', path, headers: prefer, body: keyed });
  t.is(begun.status, 202);
  const { id } = begun.json as { id: string };
  const run = `/bridge/v1/plan-runs/${id}`;
  const other = json(await login('admin'));
  t.is((await ask({ path: run, headers: other })).status, 404);
  t.is((await ask({ method: 'DELETE', path: run, headers: other })).status, 404);
  const ended = await ask({ method: 'DELETE', path: `${run}?undo=false`, headers });
  t.like(ended.json, { id, plan: 'demo.twice' });
  const again = await ask({ method: 'POST', path, headers: prefer, body: keyed });
  t.like(again.json, { id, isRepeated: true });
});

test('refusals have a status, a code and what to do', async (t) => {
  const { ask, login, master } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const admin = json(await login('admin'));
  const post = (given: unknown, to = path, by = headers) =>
    ask({ method: 'POST', path: to, headers: by, body: given });
  const cases = [
    [post(body, path, json()), 401, 'ERR_EAUTH_TOKEN'],
    [ask({ path: '/bridge/v1/plans' }), 401, 'ERR_EAUTH_TOKEN'],
    [ask({ path: '/bridge/v1/plans/demo.twice' }), 401, 'ERR_EAUTH_TOKEN'],
    [post(body, path, admin), 404, 'ERR_PLAN_UNKNOWN'],
    [post({ ...body, groups: { all: 'db*' } }), 403, 'ERR_COMMAND_DENIED'],
    [post({ ...body, groups: {} }), 400, 'ERR_PLAN_GROUPS'],
    [
      post({ ...body, groups: { all: { target: 'E@web(', targetType: 'compound' } } }),
      400,
      'ERR_BAD_TGT',
    ],
    [post(body, '/bridge/v1/plans/demo.echo/run'), 404, 'ERR_PLAN_UNKNOWN'],
    [post({ ...body, params: { text: '-x' } }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...body, steps: {} }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...body, caller: 'local' }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ ...body, groups: { all: 1 } }), 400, 'ERR_COMMAND_PARAMETERS'],
    [post({ params: {} }), 400, 'ERR_COMMAND_PARAMETERS'],
  ] as const;
  for (const [answer, status, code] of cases) {
    const { status: found, json: told } = await answer;
    t.deepEqual([found, (told as { error: { code: string } }).error.code], [status, code]);
  }
  t.deepEqual(await master.jobs.list(), []);
});

test('a caller sees the plans of whose commands a rule permits it each', async (t) => {
  const { ask, login } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const { json: list } = await ask({ path: '/bridge/v1/plans', headers });
  t.deepEqual(
    (list as { plans: { name: string }[] }).plans.map(({ name }) => name),
    ['demo.twice'],
  );
  const told = ['demo.undone', 'no.such'].flatMap((name) => [
    ask({ path: `/bridge/v1/plans/${name}`, headers }),
    ask({ method: 'POST', path: `/bridge/v1/plans/${name}/run`, headers, body }),
  ]);
  for (const { status, json: refused } of await Promise.all(told)) {
    t.is(status, 404);
    t.like(refused, { error: { code: 'ERR_PLAN_UNKNOWN', message: 'no such plan of yours' } });
  }
});
