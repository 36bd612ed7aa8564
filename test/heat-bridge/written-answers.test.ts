/** Large responses of the bridge over HTTP. */

import test from 'ava';
import fastify from 'fastify';
import { jsonInSteps, writeAnswersInSteps } from '#heat-bridge/http/written-answers.ts';
import { bridgeLimits } from '#heat-bridge/limits.ts';
import { Budget, readingSteps } from '#runtime';

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
