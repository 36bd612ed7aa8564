/** Notifications of sites that have left, while the store of the centre fails. */

import test from 'ava';
import { generateKey, publicBytesOf } from '#edge/identity/ed25519.ts';
import { SiteRegistry } from '#edge/identity/site-registry.ts';
import { sitesPrefix } from '#edge/identity/site-rows.ts';
import { CentreRehoming, type CentreRehomingContext } from '#edge/rehoming/centre-rehoming.ts';
import { signLeave } from '#edge/rehoming/leave-message.ts';
import type { StateOperation } from '#master';
import { createRepository, memoryRows } from '../bundles/tuf-stage.ts';
import { statementOf } from './rehoming-stage.ts';

test('a site that left while the store failed is released when it repeats its notification', async (t) => {
  const memory = memoryRows({ now: 0 });
  let isFull = false;
  const changesSite = (operation: StateOperation): boolean =>
    operation.op === 'put' && operation.key.slice(0, -1).join() === sitesPrefix.join();
  const shared = {
    ...memory,
    follow: async () => {},
    write: async (operations: readonly StateOperation[]) => {
      if (isFull && operations.some(changesSite)) throw new Error('the disk is full');
      return memory.write(operations);
    },
  };
  const host = { now: Date.now, shared, audit: { append: () => {} }, fire: () => {} };
  const sites = await SiteRegistry.open(host as never, generateKey());
  const { repository, root } = await createRepository('centre-1');
  const links = { onConnected: () => {}, handle: () => {}, callerOf: () => undefined };
  // Only these members are used.
  const context = { host, sites, links, publicKey: Buffer.alloc(32, 1) };
  const rehoming = await CentreRehoming.open({
    ...context,
    trustRoot: () => repository.root(),
  } as unknown as CentreRehomingContext);
  const key = generateKey();
  const exported = { name: 'north', key: publicBytesOf(key).toString('base64url') };
  await sites.import('other', exported, false);
  await sites.authenticate('north', () => true);
  const next = await rehoming.describe({ addresses: ['http://127.0.0.1:9'], behindProxy: false });
  const { issuedAt } = await rehoming.publish(statementOf(next, root));
  const signature = signLeave(key, 'north', 'centre-1', issuedAt);
  const leave = () => rehoming.leave({ name: 'north', issuedAt, signature });
  isFull = true;
  await t.throwsAsync(leave, { message: 'the disk is full' });
  t.is((await sites.show('north')).state, 'joined');
  isFull = false;
  await leave();
  t.is((await sites.show('north')).state, 'rehomed');
  // A repetition is ignored, because the site may have returned.
  await leave();
});
