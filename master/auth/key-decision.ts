/**
 * Decision about a key that a minion offers at sign-in [WIRE 6; salt/channel/server.py]. The
 * decision does no I/O.
 */

import { cleanKeyText } from '#minion-protocol';

/** Input of {@link decideKey}. Keys are in PEM format and are normalised before comparison. */
export interface KeyDecisionInput {
  /** Accepted key of the id, or `undefined` if the id has none. */
  readonly accepted?: string | undefined;
  /** Pending key of the id, or `undefined` if the id has none. */
  readonly pending?: string | undefined;
  /** Whether the id has a rejected key. */
  readonly rejected?: boolean;
  /** Key that the minion sent with its request. */
  readonly offered: string;
  readonly autosign: boolean;
  readonly autoreject: boolean;
  readonly openMode: boolean;
}

/** Change of the stored keys of an id. */
export type KeyTransition =
  | 'none'
  | 'store-accepted'
  | 'store-pending'
  | 'store-rejected'
  | 'store-denied'
  | 'pending-to-accepted'
  | 'pending-to-rejected';

/** Decision about an offered key. */
export interface KeyDecision {
  readonly outcome: 'accept' | 'pend' | 'reject' | 'denied' | 'refuse';
  /** Value of the field `ret` in the reply. Not used if the outcome is `accept`. */
  readonly ret: boolean;
  readonly transition: KeyTransition;
  /** Fields of the event `salt/auth` besides `id` and `pub`. */
  readonly event: {
    readonly result: boolean;
    readonly act?: 'accept' | 'pend' | 'reject' | 'denied';
  };
}

/**
 * Decides about an offered key, exactly as Salt does [WIRE 6.2, steps 4 to 8].
 *
 * The id has a rejected key: refuse.
 *
 * The id has an accepted key: accept an equal key, deny any other key.
 *
 * The id has no key: `autoreject` rejects the key, `autosign` accepts it. Otherwise the key is
 * pending.
 *
 * The id has a pending key: `autoreject` rejects it. Otherwise an equal key stays pending, or is
 * accepted with `autosign`. Any other key is denied.
 *
 * In open mode, every key is accepted.
 */
export function decideKey(input: KeyDecisionInput): KeyDecision {
  const offered = cleanKeyText(input.offered);
  if (offered === '') return refusal('refuse', 'none');
  if (input.openMode) return accept(isSame(input.accepted, offered) ? 'none' : 'store-accepted');
  if (input.rejected) return refusal('refuse', 'none');
  if (input.accepted !== undefined) {
    return isSame(input.accepted, offered) ? accept('none') : denied;
  }
  return input.pending === undefined ? decideNewKey(input) : decidePendingKey(input, input.pending);
}

function decideNewKey(input: KeyDecisionInput): KeyDecision {
  if (input.autoreject) return rejected('store-rejected');
  return input.autosign ? accept('store-accepted') : pend('store-pending');
}

function decidePendingKey(input: KeyDecisionInput, pending: string): KeyDecision {
  if (input.autoreject) return rejected('pending-to-rejected');
  const same = isSame(pending, cleanKeyText(input.offered));
  if (input.autosign) {
    return same ? accept('pending-to-accepted') : refusal('denied', 'store-denied');
  }
  return same ? pend('none') : denied;
}

function isSame(stored: string | undefined, cleanOffered: string): boolean {
  return stored !== undefined && cleanKeyText(stored) === cleanOffered;
}

function accept(transition: KeyTransition): KeyDecision {
  return { outcome: 'accept', ret: true, transition, event: { result: true, act: 'accept' } };
}

function pend(transition: KeyTransition): KeyDecision {
  return { outcome: 'pend', ret: true, transition, event: { result: true, act: 'pend' } };
}

function rejected(transition: KeyTransition): KeyDecision {
  return { outcome: 'reject', ret: false, transition, event: { result: false, act: 'reject' } };
}

const denied: KeyDecision = {
  outcome: 'denied',
  ret: false,
  transition: 'store-denied',
  event: { result: false, act: 'denied' },
};

/** Returns a refusal. As in Salt, its event has no field `act`. */
function refusal(outcome: 'denied' | 'refuse', transition: KeyTransition): KeyDecision {
  return { outcome, ret: false, transition, event: { result: false } };
}
