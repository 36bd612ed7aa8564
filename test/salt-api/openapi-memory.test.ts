/** Memory of unread responses with the description of the API. */

import test from 'ava';
import fastify from 'fastify';
import { addOpenapiRoute, collectSchemas } from '#salt-api/routes/openapi.ts';
import { leaveValidationToHandlers } from '#salt-api/routes/route.ts';

test('all responses with the description of the API share its bytes', async (t) => {
  const app = fastify();
  const payloads: unknown[] = [];
  app.addHook('onSend', async (_request, _reply, payload) => {
    payloads.push(payload);
    return payload;
  });
  await collectSchemas(app, { title: 'test', version: '1' });
  await app.register(async (scope) => {
    leaveValidationToHandlers(scope);
    addOpenapiRoute(scope);
  });
  const answers = [1, 2].map(() => app.inject({ url: '/openapi.json' }));
  for (const { headers, body } of await Promise.all(answers)) {
    t.regex(String(headers['content-type']), /^application\/json/);
    t.like(JSON.parse(body), { openapi: '3.1.0' });
  }
  const [first, second] = payloads;
  t.true(Buffer.isBuffer(first));
  t.is(first, second);
});
