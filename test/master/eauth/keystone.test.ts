/**
 * Log-ins by a real Keystone. `KEYSTONE_ENV` is the path of a JSON file with `keystone` (its address,
 * ending in /v3) and `users: {admin: {password}}`, the administrator of the domain Default; without
 * it these tests are skipped.
 */

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { AuthenticationError } from '../../../master/users/errors.ts';
import { createKeystoneBackend } from '../../../master/users/keystone.ts';

const file = process.env.KEYSTONE_ENV;
const withKeystone = file === undefined ? test.skip : test;
const signal = (): AbortSignal => AbortSignal.timeout(30_000);

interface Administrator {
  readonly authUrl: string;
  /** Asks Keystone's own interface. */
  ask(method: string, path: string, body?: object): Promise<Record<string, { id: string }>>;
}

/** A user of one group, deleted at the end of the test. */
interface NewUser extends Administrator {
  readonly name: string;
  readonly id: string;
  readonly password: string;
}

async function openAdministrator(): Promise<Administrator> {
  const { keystone, users } = JSON.parse(readFileSync(file ?? '', 'utf8'));
  const domain = { name: 'Default' };
  const user = { name: 'admin', domain, password: users.admin.password };
  const identity = { methods: ['password'], password: { user } };
  const project = { name: users.admin.project ?? 'admin', domain };
  const answer = await fetch(`${keystone}/auth/tokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ auth: { identity, scope: { project } } }),
  });
  const token = answer.headers.get('x-subject-token') ?? '';
  return {
    authUrl: keystone,
    ask: async (method, path, body) => {
      const response = await fetch(keystone + path, {
        method,
        headers: { 'x-auth-token': token, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status}`);
      return response.status === 204 ? {} : JSON.parse(await response.text());
    },
  };
}

async function createUser(t: ExecutionContext): Promise<NewUser> {
  const administrator = await openAdministrator();
  const { ask } = administrator;
  const name = `saltbridge-${randomBytes(6).toString('hex')}`;
  const password = randomBytes(12).toString('hex');
  const { user } = await ask('POST', '/users', { user: { name, password, domain_id: 'default' } });
  const { group } = await ask('POST', '/groups', { group: { name, domain_id: 'default' } });
  if (user === undefined || group === undefined) throw new Error('nothing was made');
  t.teardown(() => ask('DELETE', `/groups/${group.id}`));
  t.teardown(() => ask('DELETE', `/users/${user.id}`));
  await ask('PUT', `/groups/${group.id}/users/${user.id}`);
  return { ...administrator, name, id: user.id, password };
}

withKeystone('a user of Keystone logs in, with groups, until the token there ends', async (t) => {
  const { authUrl, name, password } = await createUser(t);
  const keystone = createKeystoneBackend({ authUrl, domain: 'Default' });
  const found = await keystone.authenticate({ username: name, password }, signal());
  t.is(found?.user, name);
  t.deepEqual(found?.groups, [name]);
  t.true((found?.until ?? 0) > Date.now());
  const refused = [
    { username: name, password: 'wrong' },
    { username: name.toUpperCase(), password },
    { username: 'nobody', password },
  ];
  for (const credentials of refused) {
    t.is(await keystone.authenticate(credentials, signal()), undefined);
  }
  const other = createKeystoneBackend({ authUrl: `${authUrl}/`, domain: 'Other' });
  t.is(await other.authenticate({ username: name, password }, signal()), undefined);
});

withKeystone('a user who is disabled is gone, and so is one whom nobody remembers', async (t) => {
  const { authUrl, name, password, id, ask } = await createUser(t);
  const keystone = createKeystoneBackend({ authUrl, domain: 'Default' });
  const user = { user: name, groups: [] };
  t.deepEqual(await keystone.standingOf?.(user, signal()), { state: 'gone' });
  await keystone.authenticate({ username: name, password }, signal());
  t.deepEqual(await keystone.standingOf?.(user, signal()), { state: 'valid', groups: [name] });
  await ask('PATCH', `/users/${id}`, { user: { enabled: false } });
  t.deepEqual(await keystone.standingOf?.(user, signal()), { state: 'gone' });
  t.is(await keystone.authenticate({ username: name, password }, signal()), undefined);
});

test('a Keystone that is away is no wrong password', async (t) => {
  const keystone = createKeystoneBackend({ authUrl: 'http://127.0.0.1:1/v3', domain: 'Default' });
  const asking = keystone.authenticate({ username: 'fred', password: 'x' }, signal());
  await t.throwsAsync(asking, { instanceOf: AuthenticationError, code: 'ERR_EAUTH_UNAVAILABLE' });
});

test('an address of version 2.0 is told at the start', async (t) => {
  const at = (authUrl: string) => createKeystoneBackend({ authUrl, domain: 'Default' });
  t.regex((await at('http://localhost:35357/v2.0').obstacle?.()) ?? '', /no Keystone has any more/);
  t.is(await at('http://localhost:5000/v3').obstacle?.(), undefined);
});
