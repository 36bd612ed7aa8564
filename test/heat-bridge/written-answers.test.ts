/** Large responses of the bridge over HTTP. */

import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import test from 'ava';
import fastify from 'fastify';
import Type from 'typebox';
import { addRunRoutes } from '#heat-bridge/http/run-routes.ts';
import { jsonInSteps, writeAnswersInSteps } from '#heat-bridge/http/written-answers.ts';
import { bridgeLimits } from '#heat-bridge/limits.ts';
import { Budget, readingSteps } from '#runtime';
import { until } from '../helpers/deadline.ts';
import { policyOf } from '../helpers/policies.ts';

const large = {
  name: 'shop',
  left: undefined,
  values: Array.from({ length: 20_000 }, (_, at) => ({ key: `db/${at}`, readers: ['a', 'b'] })),
  note: 'é'.repeat(100_000),
};

test('a large response is written in steps, with the same text', async (t) => {
  const app = fastify();
  t.teardown(() => app.close());
  writeAnswersInSteps(app, { tokenOf: () => 'token' });
  app.get('/large', async () => large);
  app.get('/small', async () => ({ a: [1, undefined] }));
  const sizes: number[] = [];
  const note = (step: unknown): unknown => sizes.push(Object(step).values);
  readingSteps.subscribe(note);
  t.teardown(() => readingSteps.unsubscribe(note));
  t.is((await app.inject('/small')).body, '{"a":[1,null]}');
  t.is(sizes.length, 0);
  t.is((await app.inject('/large')).body, JSON.stringify(large));
  t.true(sizes.length > 50 && sizes.every((values) => values <= 1000), `${sizes.length} steps`);
});

test('a list with large items is sent in small pieces', async (t) => {
  const pieces: string[] = [];
  for await (const piece of jsonInSteps([large, 1])) pieces.push(piece);
  t.is(pieces.join(''), JSON.stringify([large, 1]));
  t.true(pieces.every((piece) => piece.length < 200_000));
});

test('the bytes of large responses are counted until they are sent', async (t) => {
  const size = JSON.stringify(large).length;
  const budget = new Budget(bridgeLimits.answerBytes, { perOwner: size, total: 2 * size });
  const app = fastify();
  t.teardown(() => app.close());
  app.setErrorHandler((error, _request, reply) => reply.code(429).send(String(error)));
  writeAnswersInSteps(app, {
    tokenOf: ({ headers }) => headers['x-auth-token']?.toString(),
    budget,
  });
  app.get('/one', async () => large);
  app.get('/two', async () => [large, large]);
  const address = await app.listen({ host: '127.0.0.1', port: 0 });
  const ask = async (path: string): Promise<number> => {
    const answer = await fetch(`${address}${path}`, { headers: { 'x-auth-token': 'a' } });
    await answer.arrayBuffer();
    return answer.status;
  };
  t.is(await ask('/two'), 429);
  t.is(budget.total, 0);
  t.is(await ask('/one'), 200);
  while (budget.total > 0) await new Promise((resolve) => setImmediate(resolve));
  t.is(await ask('/one'), 200);
});

test('the bytes of an outcome are counted for each response that a client has not read', async (t) => {
  // More bytes than the buffers of a connection.
  const outcome = Promise.resolve({ text: 'x'.repeat(20_000_000) });
  const budget = new Budget(bridgeLimits.answerBytes, { perOwner: 30_000_000, total: 90_000_000 });
  const app = fastify();
  t.teardown(() => app.close());
  app.setErrorHandler((error, _request, reply) => reply.code(429).send(String(error)));
  const tokenOf = (): string => 'a';
  const unused = (): never => {
    throw new Error('not used');
  };
  const streams = { tryEnter: unused };
  const { signal: closing } = new AbortController();
  const holdAnswer = writeAnswersInSteps(app, { tokenOf, budget });
  const server = { tokenOf, closing, streams, sendPool: { open: unused }, readJson: unused };
  const subject = { kind: 'service', name: 'a' } as const;
  const holder = { subject, policy: policyOf([]), ended: closing, stop: () => {} };
  addRunRoutes(
    app,
    { ...server, holdAnswer },
    { holdToken: async () => holder },
    {
      ...{ collection: 'commands', runs: 'runs', noun: 'command', updates: [], begun: {} },
      ...{ info: Type.Object({}), body: Type.Object({}), outcome: Type.Object({}) },
      ...{ list: unused, show: unused, read: unused, first: unused, cancel: async () => {} },
      find: async () => ({ outcome, updates: unused }),
    },
  );
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
  const answerTo = async (method: string, path: string): Promise<IncomingMessage> => {
    const asked = httpRequest({ port, host: '127.0.0.1', method, path, agent: false });
    asked.end();
    t.teardown(() => asked.destroy());
    const [answer]: IncomingMessage[] = await once(asked, 'response');
    if (answer === undefined) throw new Error('no response');
    return answer.on('error', () => {});
  };
  for (const [method, path] of [
    ['GET', '/runs/1/outcome'],
    ['DELETE', '/runs/1'],
  ] as const) {
    const unread = await answerTo(method, path);
    t.is(unread.statusCode, 200);
    t.is((await answerTo(method, path)).statusCode, 429);
    let length = 0;
    for await (const chunk of unread) length += chunk.length;
    t.is(length, Number(unread.headers['content-length']));
    t.true(length > 20_000_000);
    await until('the release of the bytes', () => budget.total === 0);
  }
});
