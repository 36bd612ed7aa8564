import type { Logger } from 'pino';
import { codeOf } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { SiteConnection } from '../link/site-connection.ts';
import { renewalOf, renewKey } from './renewal.ts';
import {
  adoptNextKey,
  createNextKey,
  type SiteIdentity,
  type SiteIdentityFile,
} from './site-identity.ts';

/** Age at which a site replaces its key, in milliseconds. */
const keyLifeMs = 30 * 86_400_000;

export interface KeyRenewalOptions {
  readonly file: SiteIdentityFile;
  readonly link: Pick<SiteConnection, 'call' | 'onChange' | 'reconnect'>;
  readonly identity: () => SiteIdentity | undefined;
  readonly now: () => number;
  readonly logger: Logger;
}

/**
 * Replaces the key of a site over its connection, every 30 days or when an operator requests it.
 */
export class KeyRenewal {
  readonly #options: KeyRenewalOptions;
  #running: Promise<void> | undefined;

  constructor(options: KeyRenewalOptions) {
    this.#options = options;
    options.link.onChange(({ isConnected }) => {
      const identity = options.identity();
      if (!isConnected || identity === undefined) return;
      const isOld = options.now() - identity.keyCreatedAt > keyLifeMs;
      // Repeat an interrupted renewal, because the centre may have stored the new key.
      if (!isOld && identity.nextKey === undefined) return;
      this.renew().catch((error: unknown) => {
        if (codeOf(error) !== 'ERR_SITE_LINK') {
          options.logger.error(
            { err: error },
            'cannot renew the key of this site; retrying at the next connection to the centre',
          );
        }
      });
    });
  }

  /**
   * Replaces the key, and connects again with the new key.
   * @throws EdgeError ERR_SITE_LINK, ERR_SITE_NOT_JOINED
   */
  renew(): Promise<void> {
    this.#running ??= this.#renew().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #renew(): Promise<void> {
    const { file, link, identity, now } = this.#options;
    const known = identity();
    if (known === undefined) {
      throw new EdgeError('ERR_SITE_NOT_JOINED', 'this site has not joined a centre');
    }
    const key = await createNextKey(file);
    await link.call(renewKey, renewalOf(known.name, key, known.key));
    await adoptNextKey(file, now());
    link.reconnect();
  }
}
