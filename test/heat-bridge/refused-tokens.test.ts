/** A flood of tokens that are none costs only the address that it comes from. */
import test from 'ava';
import fastify, { type LightMyRequestResponse } from 'fastify';
import { sendBridgeError } from '../../heat-bridge/errors.ts';
import { limitRefusedTokens } from '../../heat-bridge/http/bridge-plugin.ts';
import { AuthenticationError } from '../../master/index.ts';

test('who shows too many tokens that are refused waits, and nobody else does', async (t) => {
  const clock = { now: 0 };
  let asked = 0;
  const app = fastify();
  t.teardown(() => app.close());
  limitRefusedTokens(app, () => clock.now);
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

test('tokens that are good are never too many', async (t) => {
  const app = fastify();
  t.teardown(() => app.close());
  limitRefusedTokens(app, () => 0);
  app.get('/', async () => ({}));
  for (let count = 0; count < 150; count += 1) t.is((await app.inject('/')).statusCode, 200);
});
