/** Access to the services of a master, in place of minions. */

import { type ExtensionHost, type MasterExtension, masterServices } from '#master';
import type { WireMap } from '#minion-protocol';

/** Extension that holds the host of its master. */
export class HostProbe {
  #host: ExtensionHost | undefined;

  readonly extension: MasterExtension = {
    name: 'host-probe',
    open: async (host) => {
      this.#host = host;
      return {};
    },
  };

  get #opened(): ExtensionHost {
    if (this.#host === undefined) throw new Error('the master is not open');
    return this.#host;
  }

  /** Stores the grains of minions with accepted keys, as their pillar requests do. */
  async keepGrains(minions: readonly { readonly id: string; readonly grains: WireMap }[]) {
    const { facts } = this.#opened.use(masterServices.jobs);
    await facts.keep(minions.map((it) => ({ ...it, pillar: {} })));
  }

  /** Publishes an event as the master does, without an audit record. */
  fire(tag: string, data: WireMap): void {
    this.#opened.use(masterServices.events).bus.fire(tag, data);
  }
}
