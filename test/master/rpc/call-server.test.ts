/** Limits on the results and streams of calls whose clients do not read. */

import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import Type from 'typebox';
import {
  CallServer,
  createSilentLogger,
  extensionMethod,
  extensionStream,
  type RpcMethod,
} from '#master';
import type { CallInput } from '#master/rpc/call-server.ts';
import { SendPool, StepScheduler } from '#runtime';
import { within } from '../../helpers/deadline.ts';
import { testLimit } from '../../helpers/limits.ts';

/** More bytes than the buffers of a connection. */
const large = Array.from({ length: 2000 }, () => 'x'.repeat(10_000));

/** Serves one call, and returns its response. The client does not read the body. */
async function call(t: ExecutionContext, name: string, given: Partial<CallInput> = {}) {
  const parameters = Type.Object({});
  const stream = async function* (): AsyncGenerator<string, void, void> {
    for (const item of large) yield item;
  };
  const methods = new Map<string, RpcMethod>([
    ['value', extensionMethod({ parameters, call: async () => large })],
    ['stream', extensionStream({ parameters, call: stream })],
  ]);
  const calls = new CallServer({
    ...{ methods, api: Object.create(null), log: createSilentLogger() },
    ...{ steps: new StepScheduler(), stallMs: 1 },
    sendPool: new SendPool(testLimit({}), { messageBytes: 1_048_576, stallMs: 1 }),
  });
  let served = (): void => {};
  const ended = new Promise<void>((resolve) => {
    served = resolve;
  });
  const server = createServer(async (_request, response) => {
    const { signal } = new AbortController();
    await calls.serve({ name, response, signal }, async () => ({ parameters: {}, ...given }));
    served();
  });
  t.teardown(() => server.closeAllConnections());
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = Object(server.address());
  const asked = httpRequest({ port, host: '127.0.0.1', method: 'POST', agent: false });
  t.teardown(() => asked.destroy());
  asked.end();
  const [response]: IncomingMessage[] = await once(asked, 'response');
  response?.on('error', () => {});
  return { ended, response };
}

for (const name of ['value', 'stream']) {
  test(`a client that does not read a ${name} is disconnected`, async (t) => {
    const { ended, response } = await call(t, name);
    t.is(response?.statusCode, 200);
    await within('the end of the call', ended);
    const read = async (): Promise<void> => {
      for await (const _ of response ?? []);
    };
    await t.throwsAsync(within('the end of the response', read()), { code: 'ECONNRESET' });
  });
}

test('the bytes of a large result are counted, and a result beyond the limit is refused', async (t) => {
  let bytes = 0;
  const hold = async () => (count: number) => {
    bytes += count;
    if (bytes > 1_000_000) throw Object.assign(new Error('too many'), { code: 'ERR_LIMIT' });
  };
  let ends = 0;
  const leave = (): void => {
    ends += 1;
  };
  const { ended, response } = await call(t, 'value', { hold, leave });
  t.is(response?.statusCode, 400);
  let text = '';
  for await (const chunk of response ?? []) text += chunk;
  t.deepEqual(JSON.parse(text), { error: { code: 'ERR_LIMIT', message: 'too many' } });
  await ended;
  t.true(bytes < 2_000_000);
  t.is(ends, 1);
});
