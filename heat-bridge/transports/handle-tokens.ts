import { FairTable, type LimitValues } from '#runtime';
import { bridgeLimits } from '../limits.ts';
import type { HandleTokens } from './transport.ts';

/**
 * Cached Keystone tokens of handles. Owners of handles share the places. Owners with the same
 * credentials do not share tokens.
 */
export class HandleTokenCache {
  readonly #tokens: FairTable<string>;

  /** @param values - maximum number of tokens. Default: that of `bridgeLimits.handleTokens` */
  constructor(values?: LimitValues) {
    this.#tokens = new FairTable(bridgeLimits.handleTokens, {}, values);
  }

  /** Returns the tokens of an owner of handles. */
  of(owner: string): HandleTokens {
    const tokens = this.#tokens;
    const keyOf = (key: string): string => `${key} ${owner}`;
    return {
      get: (key) => tokens.get(keyOf(key)),
      set: (key, token) => void tokens.trySet(owner, keyOf(key), token),
      delete: (key) => void tokens.delete(keyOf(key)),
    };
  }
}
