/**
 * Stacks over HTTP. A caller needs a rule for the minions of a stack to register it, and sees only
 * own stacks.
 */
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { type ApiAnswer, json, type RunningApi, startApi } from '../../helpers/salt-api.ts';
import { acl, echo } from '../stage.ts';

const path = '/bridge/v1/stacks';
const registration = {
  name: 'demo',
  servers: [{ server: 'server-1', minion: 'web1' }],
  login: {
    auth_url: 'https://keystone.example.org:5000/v3',
    application_credential_id: 'id-1',
    application_credential_secret: 'a-secret',
  },
};

async function start(t: ExecutionContext): Promise<RunningApi> {
  const bridge = createBridge({ commands: [echo] });
  const resource = { fun: 'bridge.stack.add', within: 'web*' };
  const rules = ['limited', 'scoped'].map((user) =>
    allow(user, { subject: { user }, action: 'command', resource }),
  );
  return startApi(t, {
    config: { acl: acl(rules) },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
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

test('a stack belongs to the user who registers it; its secrets are hidden, and other users cannot see it', async (t) => {
  const api = await start(t);
  const added = await ask(api, 'limited', 'POST', path, registration);
  t.is(added.status, 200, added.text);
  t.like(added.json, { name: 'demo', servers: [{ server: 'server-1', source: 'login' }] });
  t.notRegex(added.text, /a-secret/);
  t.is((await ask(api, 'limited', 'POST', path, registration)).status, 409);
  t.is((await ask(api, 'limited', 'PUT', `${path}/demo`, registration)).status, 200);
  const shown = await ask(api, 'limited', 'GET', `${path}/demo`);
  t.like(shown.json, { name: 'demo', deployments: [] });
  t.notRegex(shown.text, /a-secret/);
  for (const method of ['GET', 'DELETE']) {
    t.is((await ask(api, 'scoped', method, `${path}/demo`)).status, 404);
  }
  t.deepEqual((await ask(api, 'scoped', 'GET', path)).json, []);
  t.is((await ask(api, 'limited', 'DELETE', `${path}/demo`)).status, 200);
  t.deepEqual((await ask(api, 'limited', 'GET', path)).json, []);
});

test('a stack with minions that no rule names is not registered', async (t) => {
  const api = await start(t);
  const servers = [{ server: 'server-1', minion: 'db1' }];
  for (const given of [
    { ...registration, servers },
    { ...registration, minions: ['db1'] },
  ]) {
    t.is((await ask(api, 'limited', 'POST', path, given)).status, 403);
  }
  t.is((await ask(api, 'noperms', 'POST', path, registration)).status, 403);
  t.is((await ask(api, 'limited', 'POST', path, { ...registration, service: 'x' })).status, 400);
});

const unusable: readonly (readonly [string, object, RegExp])[] = [
  ['no servers', { servers: [] }, /servers/],
  ['a server twice', { servers: [{ server: 'a' }, { server: 'a' }] }, /duplicate server/],
  ['no way to read a server', { login: undefined }, /collect/],
  ['two ways to read a server', { servers: [{ server: 'a', collect: {} }] }, /collect/],
  ['another scheme', { login: { ...registration.login, auth_url: 'file:///etc' } }, /auth_url/],
  ['a field that there is not', { nothing: 1 }, /unknown field/],
];

test('an invalid registration is refused with the field, but without its value', async (t) => {
  const api = await start(t);
  for (const [what, more, message] of unusable) {
    const answer = await ask(api, 'limited', 'POST', path, { ...registration, ...more });
    t.is(answer.status, 400, what);
    t.regex(answer.text, message, what);
    t.notRegex(answer.text, /a-secret/);
  }
});
