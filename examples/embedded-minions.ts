/** Runs minions of the library, so that examples need no salt-minion. */
import path from 'node:path';
import {
  createMinion,
  dialZeromq,
  type Minion,
  type MinionFunction,
  openMinionKeys,
} from '#minion-protocol';
import type { Site } from './control-plane.ts';

export interface EmbeddedMinion {
  readonly minion: Minion;
  /** Resolves when the minion can receive jobs. */
  readonly connected: Promise<void>;
}

export class EmbeddedMinions {
  readonly #minions: Minion[] = [];

  /**
   * Starts a minion with its files below the site's directory. Resolves when its key waits for
   * acceptance or is already accepted.
   * @param functions - functions in addition to the built-in ones of an embedded minion
   */
  async start(
    { directory, requestPort }: Pick<Site, 'directory' | 'requestPort'>,
    id: string,
    functions: Readonly<Record<string, MinionFunction>> = {},
  ): Promise<EmbeddedMinion> {
    const keys = await openMinionKeys(path.join(directory, 'minions', id));
    return await new Promise((resolve, reject) => {
      const minion = createMinion({
        id,
        keys,
        transport: dialZeromq({ host: '127.0.0.1', requestPort }),
        acceptanceWaitMs: 200,
        functions,
        onState: ({ state }) => {
          if (state === 'pending' || state === 'connected') resolve({ minion, connected });
        },
      });
      this.#minions.push(minion);
      const connected = minion.start();
      connected.catch(reject);
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.#minions.map((it) => it.stop()));
  }
}
