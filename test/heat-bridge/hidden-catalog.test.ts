/** Knowledge of callers without rights about the catalog. */

import test from 'ava';
import { json } from '../helpers/salt-api.ts';
import { startBridgeApi } from './api-stage.ts';
import { startBridge, twice } from './stage.ts';

const caller = { kind: 'service', name: 'nobody' } as const;

test('a caller without rights does not learn which commands and parameters exist', async (t) => {
  const { bridge } = await startBridge(t, { ids: ['web1'] });
  const messages = ['demo.echo', 'demo.other'].map(async (name) => {
    const run = bridge.run(name, { target: 'web1', params: { wrong: 1 }, caller });
    const error = await t.throwsAsync(run, { code: 'ERR_COMMAND_DENIED' });
    return error?.message.replace(name, '');
  });
  const [known, unknown] = await Promise.all(messages);
  t.is(known, unknown);
});

test('a caller without rights does not learn which plans and parameters exist', async (t) => {
  const { bridge } = await startBridge(t, { ids: ['web1'], plans: [twice] });
  const messages = ['demo.twice', 'demo.other'].map(async (name) => {
    const run = bridge.plan(name, { groups: {}, params: { wrong: 1 }, caller });
    return (await t.throwsAsync(run, { code: 'ERR_PLAN_UNKNOWN' }))?.message;
  });
  const [known, unknown] = await Promise.all(messages);
  t.is(known, unknown);
});

test('a user over /rpc sees the commands without their minions and reviews, as over HTTP', async (t) => {
  const { ask, login, bridge } = await startBridgeApi(t);
  const headers = json(await login('limited'));
  const list = { method: 'POST', path: '/rpc/bridge.commands', headers, body: {} };
  const { json: told } = await ask(list);
  const { json: shown } = await ask({ path: '/bridge/v1/commands', headers });
  t.deepEqual(Object(told).result, Object(shown).commands);
  t.true(Object(told).result.length > 0);
  t.true(bridge.commands.list().some(({ within }) => within !== undefined));
});

test('a call over HTTP with an invalid token does not reach the bridge', async (t) => {
  const { ask } = await startBridgeApi(t);
  const call = async (method: string, body: object): Promise<unknown> => {
    const token = 'gAAAAABo-a-token-in-the-form-of-keystone';
    const asked = { method: 'POST', path: `/rpc/bridge.${method}`, body: { ...body, token } };
    const { status, json } = await ask(asked);
    return [status, json];
  };
  const known = await call('run', { command: 'demo.echo', tgt: '*', params: { wrong: 1 } });
  const unknown = await call('run', { command: 'demo.none', tgt: '*', params: { wrong: 1 } });
  t.deepEqual(known, unknown);
  t.like(known, [401, { error: { code: 'ERR_EAUTH_TOKEN' } }]);
  t.deepEqual(await call('commands', {}), known);
});
