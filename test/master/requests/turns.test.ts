/** Which requests others wait for: a transport lets only so many of them be worked on at a time. */
import test, { type ExecutionContext } from 'ava';
import type { MasterOptions, PillarProvider } from '../../../master/index.ts';
import {
  createMemoryTransport,
  type MasterTransport,
  type RequestHandler,
} from '../../../minion-protocol/index.ts';
import { until } from '../../helpers/deadline.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';

const peer = { address: '127.0.0.1', transport: 'memory', publishPort: 4505, identify: () => {} };

/** Asks a master as a transport does, and tells whether the turn was ended before the answer. */
async function startAsker(
  t: ExecutionContext,
  parts: { readonly config?: Partial<MasterOptions>; readonly pillar?: PillarProvider } = {},
) {
  let handler: RequestHandler | undefined;
  const memory = createMemoryTransport().master;
  const transport: MasterTransport = {
    ...pick(memory),
    listen: (given) => {
      handler = given;
      return memory.listen(given);
    },
  };
  await startVectorMaster(t, { ...parts, transport });
  return (request: Uint8Array) => {
    const asked = { hasEnded: false, isAnswered: false };
    const end = (): void => {
      if (!asked.isAnswered) asked.hasEnded = true;
    };
    const answer = Promise.resolve(handler?.(request, peer, { release: end })).then((reply) => {
      asked.isAnswered = true;
      return reply;
    });
    return { asked, answer };
  };
}

function pick(memory: MasterTransport): MasterTransport {
  return {
    name: memory.name,
    listen: (handler) => memory.listen(handler),
    publish: (publication) => memory.publish(publication),
    disconnect: (id) => memory.disconnect(id),
    subscribers: () => memory.subscribers(),
    refusals: () => memory.refusals(),
    close: (graceMs) => memory.close(graceMs),
  };
}

test('others do not wait for a pillar that its provider takes its time for', async (t) => {
  let provide = (): void => {};
  const provided = new Promise<void>((resolve) => {
    provide = resolve;
  });
  const ask = await startAsker(t, { pillar: () => provided.then(() => ({})) });
  const request = recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1');
  const { asked, answer } = ask(altered(request, { load: { nonce: freshNonce() } }));
  await until('the end of its turn', () => asked.hasEnded);
  provide();
  t.true(((await answer)?.length ?? 0) > 0);
});

test('others do not wait for a request over its rate', async (t) => {
  const ask = await startAsker(t, { config: { limits: { requestsPerSecond: 4, burst: 1 } } });
  const fire = () =>
    ask(altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } }));
  const both = [fire(), fire()];
  await Promise.all(both.map(({ answer }) => answer));
  t.deepEqual(both.map(({ asked }) => asked.hasEnded).sort(), [false, true]);
});
