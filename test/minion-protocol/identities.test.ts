/** REQ sockets with identities, as minions since 2026 have them [WIRE 23.5]. */
import test from 'ava';
import { Request } from 'zeromq';
import { HOST, startMaster } from '../helpers/zeromq-master.ts';

test('sockets of one identity, as long as it may be, are answered each', async (t) => {
  const waiting: Array<() => void> = [];
  const master = await startMaster(t, {}, async (body) => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      // All are being asked at once before the first is answered.
      if (waiting.length === 3) for (const answer of waiting) answer();
    });
    return body;
  });
  const identity = `salt-req/minion/${'m'.repeat(255)}`.slice(0, 255);
  const ask = async (text: string): Promise<string> => {
    const socket = new Request({ routingId: identity, linger: 0, receiveTimeout: 10_000 });
    t.teardown(() => socket.close());
    socket.connect(`tcp://${HOST}:${master.requestPort}`);
    await socket.send(text);
    return String((await socket.receive())[0]);
  };
  t.deepEqual(await Promise.all(['a', 'b', 'c'].map(ask)), ['a', 'b', 'c']);
  t.deepEqual(master.transport.refusals(), {});
});
