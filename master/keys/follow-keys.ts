import type { Logger } from 'pino';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { AcceptedKeys } from './accepted-keys.ts';
import type { KeyStore } from './key-store.ts';
import type { Revocation } from './revocation.ts';

/** Who is concerned when a key changes. */
export interface KeyFollowers {
  readonly keys: KeyStore;
  readonly bus: EventBus;
  readonly revocation: Revocation;
  readonly accepted: AcceptedKeys;
  /** Ends what hangs on the accepted key of an id, outside of this room. */
  readonly onKeyLost: (id: string) => Promise<void>;
  readonly log: Logger;
}

/** What `salt/key` tells of keys that were there; new and denied ones are `salt/auth`'s [WIRE 14.2]. */
const operatorActs: ReadonlySet<string> = new Set(['accept', 'reject', 'delete']);

/** Tells every change of a key, and ends what a key could do that is no longer accepted. */
export function followKeys(followers: KeyFollowers): void {
  const { keys, bus, revocation, accepted, onKeyLost, log } = followers;
  keys.onChange(({ id, from, to, act }) => {
    log.info({ minion: id, from, to }, 'key changed');
    if (operatorActs.has(act) && from !== null && from !== to) {
      bus.fire(tags.key, { result: true, act, id });
    }
    // Also when another key takes its place, such as a denied one: what the old one could do ends.
    const endsKey = from === 'accepted' || (from === 'denied' && to !== null);
    if (!endsKey && to !== 'accepted') return;
    const ended = endsKey ? [revocation.revoke([id]), onKeyLost(id)] : [];
    Promise.all(ended)
      // Noted only then, so that a start after a crash in between makes up for it.
      .then(() => accepted.note(id, keys.acceptedPem(id)))
      .catch((error: unknown) => {
        log.error({ minion: id, err: error }, 'revocation failed');
      });
  });
}
