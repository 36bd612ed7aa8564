/**
 * Compares the configuration of the members. Each member writes digests of its configuration to the
 * shared store.
 */

import type { Key } from '#store';
import type { LogStore } from './log/log-store.ts';

const prefix: Key = ['cluster', 'versions'];
const retryMs = 2000;

/** Digest of each kind of configuration, by its name, for example `policy` and `catalog`. */
export type Versions = Readonly<Record<string, string>>;

/**
 * Digests of configurations that the members have written to the store of the cluster. They reveal
 * members with different configurations.
 */
export class MemberVersions {
  readonly #store: LogStore;
  readonly #member: string;
  readonly #known = new Map<string, Map<string, string>>();
  readonly #own = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;

  private constructor(store: LogStore, member: string, closing: AbortSignal) {
    this.#store = store;
    this.#member = member;
    store.onChange(
      prefix,
      (change) => {
        if (change.type === 'put') this.#note(change.entry.key, change.entry.value);
      },
      closing,
    );
    this.#timer = setInterval(() => this.#write(), retryMs).unref();
    closing.addEventListener('abort', () => clearInterval(this.#timer), { once: true });
  }

  static async open(
    store: LogStore,
    member: string,
    closing: AbortSignal,
  ): Promise<MemberVersions> {
    const versions = new MemberVersions(store, member, closing);
    for await (const { key } of store.list(prefix)) {
      const entry = await store.get(key);
      if (entry !== undefined) versions.#note(key, entry.value);
    }
    return versions;
  }

  of(member: string): Versions {
    return Object.fromEntries(this.#known.get(member) ?? []);
  }

  /**
   * Writes the digest of one part of this member's configuration to the store. If the store cannot
   * be written, tries again at intervals.
   * @param kind - part of the configuration, for example `policy`
   * @param version - the digest
   */
  announce(kind: string, version: string): void {
    this.#own.set(kind, version);
    this.#write();
  }

  /**
   * Compares the configurations of these members. For each kind of configuration in which they
   * differ, for example `policy`, returns a sentence with the versions of the members.
   */
  differences(members: readonly string[]): readonly string[] {
    const kinds = new Set(members.flatMap((member) => Object.keys(this.of(member))));
    return [...kinds].flatMap((kind) => {
      const known = members.flatMap((member) => {
        const version = this.of(member)[kind];
        return version === undefined ? [] : { member, version };
      });
      if (new Set(known.map(({ version }) => version)).size < 2) return [];
      const texts = known.map(({ member, version }) => `${member} ${version}`);
      return `members have different versions of the ${kind}: ${texts.join(', ')}`;
    });
  }

  #note(key: Key, value: Uint8Array): void {
    const [, , member = '', kind = ''] = key;
    const versions = this.#known.get(member) ?? new Map<string, string>();
    this.#known.set(member, versions.set(kind, Buffer.from(value).toString('utf8')));
  }

  #write(): void {
    const known = this.of(this.#member);
    for (const [kind, version] of this.#own) {
      if (known[kind] === version || this.#store.status.refusesWrites) continue;
      const key = [...prefix, this.#member, kind];
      // The write may have succeeded. The next attempt checks this first.
      this.#store.write([{ op: 'put', key, value: Buffer.from(version) }]).catch(() => {});
    }
  }
}
