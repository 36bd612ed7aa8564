/**
 * Data spaces over HTTP. A caller needs a rule for the minions of a data space to register it, and
 * sees only own data spaces.
 */

import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { type ApiAnswer, json, type RunningApi, startApi } from '../../helpers/salt-api.ts';
import { acl } from '../stage.ts';

const path = '/bridge/v1/data';
const space = {
  name: 'demo',
  roles: {
    db: { minions: ['web1'], writes: { address: {} } },
    app: { minions: ['web2'], reads: { host: 'db/address' } },
  },
};

async function start(t: ExecutionContext): Promise<RunningApi> {
  const bridge = createBridge();
  const resource = { fun: 'bridge.data.add', within: 'web*' };
  const rules = ['limited', 'scoped'].map((user) =>
    allow(user, { subject: { user }, action: 'command', resource }),
  );
  return startApi(t, {
    config: { acl: acl(rules), bridge: { guests: {} } },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    silent: ['web2'],
  });
}

async function ask(
  { ask: send, login }: RunningApi,
  user: string,
  method: string,
  place: string,
  body?: object,
): Promise<ApiAnswer> {
  const request = { method, path: place, headers: json(await login(user)) };
  return send(body === undefined ? request : { ...request, body });
}

test('a data space belongs to the user who registers it, and other users cannot see it', async (t) => {
  const api = await start(t);
  const added = await ask(api, 'limited', 'POST', path, space);
  t.is(added.status, 200, added.text);
  t.like(added.json, { name: 'demo', roles: { db: ['web1'], app: ['web2'] }, keys: 1 });
  t.is((await ask(api, 'limited', 'POST', path, space)).status, 409);
  t.is((await ask(api, 'limited', 'PUT', `${path}/demo`, space)).status, 200);
  const shown = await ask(api, 'limited', 'GET', `${path}/demo`);
  t.like(shown.json, {
    values: [{ key: 'db/address', writer: 'db', readers: ['app'], secret: false }],
  });
  for (const method of ['GET', 'DELETE']) {
    t.is((await ask(api, 'scoped', method, `${path}/demo`)).status, 404);
  }
  t.deepEqual((await ask(api, 'scoped', 'GET', path)).json, []);
  t.is((await ask(api, 'scoped', 'POST', path, space)).status, 409);
  t.is((await ask(api, 'limited', 'DELETE', `${path}/demo`)).status, 200);
  t.deepEqual((await ask(api, 'limited', 'GET', path)).json, []);
});

test('a data space with minions that no rule names is not registered', async (t) => {
  const api = await start(t);
  const roles = { ...space.roles, db: { minions: ['db1'], writes: { address: {} } } };
  t.is((await ask(api, 'limited', 'POST', path, { ...space, roles })).status, 403);
  t.is((await ask(api, 'noperms', 'POST', path, space)).status, 403);
});

test('an invalid registration is refused with its field', async (t) => {
  const api = await start(t);
  const unusable: readonly (readonly [object, RegExp])[] = [
    [{ ...space, nothing: 1 }, /unknown field/],
    [{ ...space, name: '../x' }, /name/],
    [{ name: 'demo', roles: { 'a b': { minions: [] } } }, /roles/],
    [{ name: 'demo', roles: { a: { minions: [], writes: { 'x/y': {} } } } }, /writes/],
    [
      { name: 'demo', roles: { a: { minions: [], reads: { x: 'b/y' } } } },
      /there is no role \\"b\\"/,
    ],
  ];
  for (const [given, message] of unusable) {
    const answer = await ask(api, 'limited', 'POST', path, given);
    t.is(answer.status, 400, answer.text);
    t.regex(answer.text, message);
  }
});
