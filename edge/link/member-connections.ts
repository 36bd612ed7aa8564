/**
 * Connections of sites to the members of a cluster. Each site has one connection, to any member.
 * The other members learn from the store whether a site is connected.
 */

import Type from 'typebox';
import type { ExtensionHost } from '#master';
import { KeyedMutex } from '#runtime';
import { defineRow, tryToWrite } from '#store';

const connectionRow = defineRow({
  name: 'connection of a site',
  schema: Type.Object({
    /** Name of the member to which the site is connected. */
    member: Type.String(),
  }),
});
const prefix = ['centre', 'connection'] as const;

interface Known {
  readonly member: string;
  readonly revision: number;
}

export class MemberConnections {
  readonly #shared: ExtensionHost['shared'];
  readonly #known = new Map<string, Known>();
  readonly #bySite = new KeyedMutex();
  readonly #listeners: ((site: string) => void)[] = [];

  private constructor(shared: ExtensionHost['shared']) {
    this.#shared = shared;
  }

  /**
   * Reads from the store to which member each site is connected, and follows changes. Outside a
   * cluster, nothing is read or stored.
   */
  static async open(shared: ExtensionHost['shared']): Promise<MemberConnections> {
    const connections = new MemberConnections(shared);
    const { cluster } = shared;
    if (cluster === undefined) return connections;
    await shared.follow([...prefix], (change) => {
      const key = change.type === 'put' ? change.entry.key : change.key;
      const site = key.at(-1) ?? '';
      const former = connections.#known.get(site);
      if (change.type === 'delete') {
        connections.#known.delete(site);
        return;
      }
      const { member } = connectionRow.decode(change.entry);
      connections.#known.set(site, { member, revision: change.entry.revision });
      // If the former row is not of this member, a later row of this member is still being written.
      if (member === cluster.member || former?.member !== cluster.member) return;
      for (const listener of connections.#listeners) listener(site);
    });
    // Rows of an earlier process of this member.
    for (const [site, { member }] of [...connections.#known]) {
      if (member === cluster.member) await connections.noteEnded(site);
    }
    return connections;
  }

  /**
   * Calls the listener when a site that was connected to this member connects to another member.
   */
  onMoved(listener: (site: string) => void): void {
    this.#listeners.push(listener);
  }

  /** Returns the running member to which a site is connected, or `undefined`. */
  memberOf(site: string): string | undefined {
    const member = this.#known.get(site)?.member;
    return member === undefined || this.#shared.cluster?.isGone(member) ? undefined : member;
  }

  /** Records in the store that a site is connected to this member. */
  async noteOpened(site: string): Promise<void> {
    const { cluster } = this.#shared;
    if (cluster === undefined) return;
    const value = connectionRow.encode({ member: cluster.member });
    await this.#bySite.run(site, () =>
      this.#shared.write([{ op: 'put', key: [...prefix, site], value }]),
    );
  }

  /** Records in the store that a site is not connected to this member any more. */
  async noteEnded(site: string): Promise<void> {
    await this.#bySite.run(site, () => this.#forget(site));
  }

  async #forget(site: string): Promise<void> {
    const known = this.#known.get(site);
    if (known === undefined || known.member !== this.#shared.cluster?.member) return;
    const { revision: ifRevision } = known;
    // The write has no effect if the site has connected to another member meanwhile.
    await tryToWrite(this.#shared, [{ op: 'delete', key: [...prefix, site], ifRevision }]);
  }
}
