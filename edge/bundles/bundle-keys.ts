/**
 * Applies the minion keys of a bundle to the key store of a site: accepts some keys and deletes
 * others. Reports to the centre the minion keys that the site itself has accepted.
 */

import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { type ExtensionHost, masterServices } from '#master';
import { ifPresent, readTextIfPresent } from '#runtime';
import type { SiteLog } from '../log/log.ts';

/** Minion keys that a bundle contains. */
interface KeysOfBundle {
  /** Public keys that the site must accept, by minion id. */
  readonly accepted: ReadonlyMap<string, string>;
  readonly revoked: ReadonlySet<string>;
}

/**
 * Accepts and deletes minion keys of a site according to its bundle. If an operator of the site
 * accepts a key, reports this key to the centre.
 */
export class BundleKeys {
  readonly #host: ExtensionHost;
  #keys: KeysOfBundle = { accepted: new Map(), revoked: new Set() };

  constructor(host: ExtensionHost) {
    this.#host = host;
  }

  /** Accepts the keys in `keys/accepted` of a bundle, and deletes the keys in `keys/revoked`. */
  async apply(bundle: string): Promise<void> {
    this.#keys = await readKeys(bundle);
    for (const id of this.#keys.revoked) await this.#revoke(id);
    for (const [id, publicKey] of this.#keys.accepted) await this.#accept(id, publicKey);
  }

  /**
   * Begins to report minion keys to the centre. Whenever the site accepts a key that its bundle
   * lacks, appends an entry `key-claim` to the log. Returns a function that stops the reports.
   */
  reportClaims(log: SiteLog): () => void {
    const { keys } = this.#host.use(masterServices.auth);
    return keys.onChange(({ id }) => {
      this.#report(id, log).catch((err: unknown) =>
        this.#host.logger.error(
          { minion: id, err },
          'cannot report an accepted minion key to the centre',
        ),
      );
    });
  }

  /** Appends an entry `key-claim` to the log for each accepted minion key that the bundle lacks. */
  async announce(log: SiteLog): Promise<void> {
    for (const { id } of await this.#host.master().keys.list({ state: 'accepted' })) {
      await this.#report(id, log);
    }
  }

  async #report(id: string, log: SiteLog): Promise<void> {
    if (this.#keys.revoked.has(id)) return this.#revoke(id);
    const held = this.#host.admission.keyOf(id);
    if (held?.state !== 'accepted') return;
    const known = this.#keys.accepted.get(id);
    if (known !== undefined && isSameKey(known, held.publicKey)) return;
    const value = { id, publicKey: held.publicKey };
    await log.append({ class: 'signal', kind: 'key-claim', value });
  }

  async #revoke(id: string): Promise<void> {
    const { admission, logger } = this.#host;
    await admission.exclusive(id, async () => {
      if (admission.keyOf(id) === undefined) return;
      await admission.retire(id);
      logger.warn(
        { minion: id },
        'deleted the key of a minion, because the release of the centre revokes this key',
      );
    });
  }

  async #accept(id: string, publicKey: string): Promise<void> {
    const { admission, logger } = this.#host;
    if (this.#keys.revoked.has(id)) return;
    try {
      await admission.exclusive(id, async () => {
        const held = admission.keyOf(id);
        if (held?.state === 'accepted' && isSameKey(held.publicKey, publicKey)) return;
        if (held !== undefined) await admission.retire(id);
        await admission.admit({ id, publicKey, protocol: 0 });
      });
    } catch (err) {
      logger.error(
        { minion: id, err },
        'cannot accept a minion key from the release of the centre',
      );
    }
  }
}

async function readKeys(bundle: string): Promise<KeysOfBundle> {
  const directory = path.join(bundle, 'keys', 'accepted');
  const accepted = new Map<string, string>();
  for (const id of (await ifPresent(readdir(directory))) ?? []) {
    accepted.set(id, await readFile(path.join(directory, id), 'utf8'));
  }
  const text = (await readTextIfPresent(path.join(bundle, 'keys', 'revoked'))) ?? '';
  const lines = text.split('\n').map((line) => line.trim());
  return {
    accepted,
    revoked: new Set(lines.filter((line) => line !== '' && !line.startsWith('#'))),
  };
}

function isSameKey(one: string, other: string): boolean {
  return one.replace(/\s+/g, '') === other.replace(/\s+/g, '');
}
