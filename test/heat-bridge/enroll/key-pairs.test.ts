import test from 'ava';
import { KeyPairs } from '../../../heat-bridge/enroll/enrolment-service.ts';
import type { KeyPairText } from '../../../minion-protocol/index.ts';

function numbered(): { made: number; make: () => Promise<KeyPairText> } {
  const counter = {
    made: 0,
    make: async () => {
      counter.made += 1;
      return { privatePem: `private ${counter.made}`, publicPem: `public ${counter.made}` };
    },
  };
  return counter;
}

test('no pair is given out twice, prepared or not', async (t) => {
  const { make } = numbered();
  const pairs = new KeyPairs({ bits: 2048, prepared: 3 }, make);
  await pairs.prepare();
  const taken = await Promise.all(Array.from({ length: 10 }, () => pairs.take()));
  t.is(new Set(taken.map(({ publicPem }) => publicPem)).size, 10);
  await pairs.close();
});

test('as many pairs as asked for lie ready, and are made up for', async (t) => {
  const counter = numbered();
  const pairs = new KeyPairs({ bits: 2048, prepared: 3 }, counter.make);
  await pairs.prepare();
  t.is(counter.made, 3);
  await pairs.take();
  await pairs.prepare();
  t.is(counter.made, 4);
  await pairs.close();
});
