/** Memory of unread status pages. */

import test from 'ava';
import fastify from 'fastify';
import { Budget } from '#runtime';
import type { ApiContext } from '#salt-api/context.ts';
import { apiLimits } from '#salt-api/limits.ts';
import { addStatusRoutes } from '#salt-api/page/routes.ts';
import { password, startApi } from '../helpers/salt-api.ts';

test('a status page counts for its user until it is sent', async (t) => {
  const { master } = await startApi(t, { minions: [] });
  const request = { username: 'admin', password, eauth: 'sharedsecret', source: '127.0.0.1' };
  const { token } = await master.logins.login(request);
  for (const [perOwner, status] of [
    [100, 500],
    [1_000_000, 200],
  ] as const) {
    const answerBudget = new Budget(apiLimits.answerBytes, { perOwner });
    const closing = new AbortController();
    t.teardown(() => closing.abort());
    const app = fastify();
    // Only these members are used.
    addStatusRoutes(app, {
      ...{ master, answerBudget, closing: closing.signal },
      options: { rootPrefix: '', eauths: [] },
      sessions: { find: () => ({ token }) },
    } as unknown as ApiContext);
    let held = 0;
    app.addHook('onSend', async () => {
      held = answerBudget.total;
    });
    const headers = { 'x-auth-token': 'session' };
    const { statusCode, body } = await app.inject({ url: '/status', headers });
    t.is(statusCode, status);
    t.is(/answerBytes/.test(body), status === 500);
    t.is(held > 0, status === 200);
    t.is(answerBudget.total, 0);
  }
});
