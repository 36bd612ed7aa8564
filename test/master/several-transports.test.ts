/** One master that serves several transports at once. */
import test from 'ava';
import { createMaster, resolveMasterConfig } from '../../master/index.ts';
import {
  createTcpListener,
  createWebsocketListener,
  dialZeromq,
  packWire,
  unpackWire,
} from '../../minion-protocol/index.ts';
import { createMemoryStore } from '../../store/index.ts';
import { until } from '../helpers/deadline.ts';
import { clientFrame, OPENING, REQUEST, SUBSCRIPTION } from '../helpers/stream-masters.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories, startVectorMaster } from '../helpers/vector-master.ts';
import { connectRaw, HOST } from '../helpers/zeromq-master.ts';

const ping = packWire({ enc: 'clear', load: { cmd: 'ping' } });
const free = { publishPort: 0, retPort: 0 };

test('all three are served side by side, told in the status, and closed', async (t) => {
  const config = resolveMasterConfig({
    ...directories(temporaryDirectory(t)),
    ...free,
    interface: HOST,
    transportOpts: { tcp: free, ws: free },
  });
  const master = createMaster({ config, store: createMemoryStore() });
  t.teardown(() => master.close());
  await master.start();
  const { transports, requestPort, publishPort } = await master.status();
  t.deepEqual(
    transports.map(({ transport }) => transport),
    ['zeromq', 'tcp', 'ws'],
  );
  t.like(transports[0], { requestPort, publishPort });
  t.is(new Set(transports.flatMap((it) => [it.requestPort, it.publishPort])).size, 6);
  const [zeromq, tcp, ws] = transports;

  const minion = dialZeromq({ host: HOST, requestPort: zeromq?.requestPort ?? 0 });
  t.teardown(() => minion.close());
  t.deepEqual(unpackWire(await minion.request(ping, 10_000)), { cmd: 'ping' });
  const overTcp = await connectRaw(t, tcp?.requestPort ?? 0);
  overTcp.write(Buffer.from('82a46865616481a36d696407a4626f6479', 'hex'), ping);
  const overWs = await connectRaw(t, ws?.requestPort ?? 0);
  overWs.write(OPENING.ws, clientFrame(0x82, ping));
  const pong = packWire({ cmd: 'ping' });
  for (const peer of [overTcp, overWs]) {
    await until('the answer', () => peer.received.subarray(-pong.length).equals(pong));
  }

  const subscribers = await Promise.all([
    connectRaw(t, tcp?.publishPort ?? 0),
    connectRaw(t, ws?.publishPort ?? 0),
  ]);
  subscribers[0].write(SUBSCRIPTION.tcp);
  subscribers[1].write(SUBSCRIPTION.ws);
  await until('the handshake', () => subscribers[1].receivedBytes > 0);
  t.is((await master.status()).subscribers, 2);
  await master.close();
  for (const peer of [...subscribers, overTcp, overWs]) await peer.closed('with the master');
});

test('a sign-in is told the publish port of the transport that it came over', async (t) => {
  const ports = { host: HOST, requestPort: 0, publishPort: 0 };
  const listeners = [createTcpListener(ports), createWebsocketListener(ports)];
  const { master } = await startVectorMaster(t, { transports: listeners });
  const { transports } = await master.status();
  // The same request, byte for byte, at the same time.
  const asking = await Promise.all(transports.map((it) => connectRaw(t, it.requestPort)));
  asking[0]?.write(REQUEST.tcp);
  asking[1]?.write(OPENING.ws, REQUEST.ws);
  const name = 'publish_port';
  for (const [index, peer] of asking.entries()) {
    await until('the answer', () => peer.received.includes(name));
    // A 16-bit integer, behind its head.
    const port = peer.received.readUInt16BE(peer.received.indexOf(name) + name.length + 1);
    t.is(port, transports[index]?.publishPort ?? 0);
  }
});
