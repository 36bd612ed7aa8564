/** Notifications of sites that have left, while the store of the centre fails. */

import { setImmediate } from 'node:timers/promises';
import test from 'ava';
import { generateKey, publicBytesOf } from '#edge/identity/ed25519.ts';
import { SiteRegistry } from '#edge/identity/site-registry.ts';
import { sitesPrefix } from '#edge/identity/site-rows.ts';
import { CentreRehoming, type CentreRehomingContext } from '#edge/rehoming/centre-rehoming.ts';
import { signLeave } from '#edge/rehoming/leave-message.ts';
import { statementReplyRow } from '#edge/rehoming/statement-rows.ts';
import type { StateChange, StateOperation } from '#master';
import { createRepository, memoryRows } from '../bundles/tuf-stage.ts';
import { statementOf } from './rehoming-stage.ts';

/** A centre that has published a statement for the site north, and whose writes the test controls. */
async function stage() {
  const memory = memoryRows({ now: 0 });
  const writes = { change: async (): Promise<void> => {} };
  const replies: ((change: StateChange) => void)[] = [];
  const changesSite = (operation: StateOperation): boolean =>
    operation.op === 'put' && operation.key.slice(0, -1).join() === sitesPrefix.join();
  const shared = {
    ...memory,
    follow: async (prefix: readonly string[], listener: (change: StateChange) => void) => {
      if (prefix.join() === 'rehoming,site') replies.push(listener);
    },
    write: async (operations: readonly StateOperation[]) => {
      if (operations.some(changesSite)) await writes.change();
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
  return {
    writes,
    replies,
    issuedAt,
    leave,
    stateOf: async () => (await sites.show('north')).state,
  };
}

test('a site that left while the store failed is released when it repeats its notification', async (t) => {
  const { writes, leave, stateOf } = await stage();
  writes.change = async () => {
    throw new Error('the disk is full');
  };
  await t.throwsAsync(leave, { message: 'the disk is full' });
  t.is(await stateOf(), 'joined');
  writes.change = async () => {};
  await leave();
  t.is(await stateOf(), 'rehomed');
  // A repetition is ignored, because the site may have returned.
  await leave();
});

test('a notification that arrives while the first is being stored is not confirmed before it', async (t) => {
  const { writes, leave, stateOf } = await stage();
  const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: failure, reject: fail } = Promise.withResolvers<void>();
  writes.change = () => {
    begin();
    writes.change = async () => {};
    return failure;
  };
  const first = leave();
  await hasBegun;
  const repeated = leave();
  const states = repeated.then(stateOf);
  // The repetition has enough turns to be confirmed too early.
  for (let turn = 0; turn < 100; turn += 1) await setImmediate();
  fail(new Error('the disk is full'));
  await t.throwsAsync(first, { message: 'the disk is full' });
  t.is(await states, 'rehomed');
});

test('a stored reply that arrives before its write fails is kept', async (t) => {
  const { writes, replies, issuedAt, leave } = await stage();
  let failures = 0;
  writes.change = async () => {
    failures += 1;
    const reply = { issuedAt, state: 'left', at: 0, leftBy: issuedAt } as const;
    const key = ['rehoming', 'site', 'north'];
    const entry = { key, value: statementReplyRow.encode(reply), revision: 1 };
    for (const listener of replies) listener({ type: 'put', entry });
    throw new Error('the outcome is unknown');
  };
  await t.throwsAsync(leave, { message: 'the outcome is unknown' });
  // The repetition is ignored, because the site may have returned.
  await leave();
  t.is(failures, 1);
});
