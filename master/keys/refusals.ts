import { KeyError } from './errors.ts';
import type { KeyPlace } from './pki-dir.ts';

/** The key is not where it would have to be. */
export function wrongState(id: string, state: KeyPlace): KeyError {
  return new KeyError('ERR_KEY_STATE', `the key of ${describeId(id)} is ${state}`);
}

/** The id has no key. */
export function unknownKey(id: string): KeyError {
  return new KeyError('ERR_KEY_UNKNOWN', `there is no key of ${describeId(id)}`);
}

/** An id for people: ids may hold line breaks and terminal codes. */
export function describeId(id: string): string {
  return JSON.stringify(id);
}
