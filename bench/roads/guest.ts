/**
 * The minion of `npm run roads`, in a process of its own, so that its code is not counted. Told what
 * to do by messages, each of which it answers when that is done.
 */
import { createPrivateKey } from 'node:crypto';
import {
  createMinion,
  createMinionHandshake,
  createMinionKeys,
  dialZeromq,
  generateKeyString,
} from '../../minion-protocol/index.ts';

/** The order `start` comes first. */
export type GuestOrder =
  | { readonly do: 'start'; readonly id: string; readonly requestPort: number }
  | { readonly do: 'sign-in' }
  | { readonly do: 'fire'; readonly tag: string };

type Act = (order: GuestOrder) => Promise<void>;

const authTimeoutMs = 10_000;

async function start({ id, requestPort }: Extract<GuestOrder, { do: 'start' }>): Promise<Act> {
  const keys = await createMinionKeys();
  const dial = { host: '127.0.0.1', requestPort };
  const minion = createMinion({ id, keys, transport: dialZeromq(dial), acceptanceWaitMs: 250 });
  await minion.start();
  const transport = dialZeromq(dial);
  const handshake = createMinionHandshake({
    id,
    version: 3,
    privateKey: createPrivateKey(keys.privatePem),
    publicPem: keys.publicPem,
    token: generateKeyString(),
  });
  return async (order) => {
    if (order.do === 'fire') await minion.fire(order.tag, { reason: 'booted' });
    if (order.do !== 'sign-in') return;
    const { state } = handshake.step(await transport.request(handshake.request(), authTimeoutMs));
    if (state !== 'accepted') throw new Error(`the sign-in is ${state}`);
  };
}

let act: Act | undefined;
process.on('message', async (order: GuestOrder) => {
  if (order.do === 'start') act = await start(order);
  else await act?.(order);
  process.send?.('done');
});
// Ends with the process that it belongs to.
process.once('disconnect', () => process.exit(0));
