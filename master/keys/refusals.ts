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

/** The key is not the one that was meant. */
export function anotherKey(id: string): KeyError {
  return new KeyError('ERR_KEY_FINGERPRINT', `the key of ${describeId(id)} is another one`);
}

/** No new minion may have such an id. */
export function unusualId(id: string): KeyError {
  const expected =
    'expected 1 to 128 letters, digits, ".", "-", "_", ":", "@" or "+", the first a letter or digit, and no ".."';
  const text = `${describeId(id)}: ${expected}; saltbridge: minion_ids: salt takes what Salt takes`;
  return new KeyError('ERR_KEY_ID', text);
}

/** An id for people: ids may hold line breaks and terminal codes. */
function describeId(id: string): string {
  return JSON.stringify(id);
}
