/** Tokens of a real Keystone with the bridge; heat-cloud.ts describes how to provide it. */
import type { ExecutionContext } from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { acl, echo } from '../heat-bridge/stage.ts';
import { type ApiAnswer, json, startApi } from '../helpers/salt-api.ts';
import { eventually } from './eventually.ts';
import { cloud, heatTest, logIn } from './heat-cloud.ts';

type Call = (token: string) => Promise<ApiAnswer>;

/**
 * Opens a bridge that uses the cloud's Keystone.
 * @param password - for its own log-in
 */
async function open(t: ExecutionContext, password = cloud?.users.admin.password): Promise<Call> {
  const bridge = createBridge({ commands: [echo] });
  const rule = allow('members of demo', {
    subject: { project: 'demo', role: 'member' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
  });
  const keystone = { url: cloud?.keystone, username: 'admin', password, project: 'admin' };
  const { ask } = await startApi(t, {
    config: { acl: acl([rule]), bridge: { keystone } },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
  });
  return (token) =>
    ask({
      method: 'POST',
      path: '/bridge/v1/commands/demo.echo/run',
      headers: json(token),
      body: { target: ['web1'], params: { text: 'x' } },
    });
}

async function revoke(token: string): Promise<void> {
  const headers = { 'x-auth-token': token, 'x-subject-token': token };
  const { status } = await fetch(`${cloud?.keystone}/auth/tokens`, { method: 'DELETE', headers });
  if (status !== 204) throw new Error(`the token was not revoked: ${status}`);
}

heatTest('a member of a project calls with a token of Keystone until it is revoked', async (t) => {
  t.timeout(120_000);
  if (cloud === undefined) return;
  const call = await open(t);
  const token = await logIn(cloud);
  const first = await call(token);
  t.is(first.status, 200, first.text);
  t.regex(first.text, /"status":"succeeded"/);
  t.is((await call(`${token.slice(0, -8)}AAAAAAA=`)).status, 401);
  await revoke(token);
  await eventually(
    'the token to end',
    async () => (await call(token)).status === 401,
    60_000,
    1000,
  );
  t.is((await call(await logIn(cloud))).status, 200);
});

heatTest('a bridge that cannot log in at Keystone refuses all tokens', async (t) => {
  if (cloud === undefined) return;
  const call = await open(t, 'wrong');
  t.is((await call(await logIn(cloud))).status, 503);
});
