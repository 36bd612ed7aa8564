import type { Logger } from 'pino';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { Foundations } from '../foundations.ts';
import { AcceptedKeys } from './accepted-keys.ts';
import { followKeys } from './follow-keys.ts';
import type { Revocation } from './revocation.ts';

/** What the watch over lost keys needs. */
export interface LostKeysOptions {
  readonly foundations: Pick<Foundations, 'keys' | 'store' | 'storeKeeper'>;
  readonly bus: EventBus;
  readonly revocation: Revocation;
  /** Ends what hangs on the accepted key of an id, outside of this room. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly log: Logger;
}

/** Revokes what went while no master ran, now, and from now on what goes. */
export async function revokeLostKeys(options: LostKeysOptions): Promise<void> {
  const { bus, revocation, onKeyLost, log } = options;
  const { keys, store, storeKeeper } = options.foundations;
  const accepted = new AcceptedKeys(store);
  const revokeLost = async (): Promise<void> => {
    const lost = await accepted.lost(keys.list().accepted);
    await revocation.revokeLost(lost);
    for (const id of lost) await onKeyLost(id);
    await accepted.replace(keys.list().accepted);
  };
  await revokeLost();
  storeKeeper.onChange((isFull) => {
    bus.fire(isFull ? tags.storeFull : tags.storeRoom, {});
    if (isFull) return;
    // Keys that went while nothing could be written are as those that went before the start.
    revokeLost().catch((error: unknown) => log.error({ err: error }, 'revocation failed'));
  });
  followKeys({ keys, bus, revocation, accepted, onKeyLost, log });
}
