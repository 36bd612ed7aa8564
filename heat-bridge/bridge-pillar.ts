import type { ExtPillar } from '#master';
import { isWireMap } from '#minion-protocol';
import type { BridgeContribution } from './bridge-extension.ts';

/** The pillars of all extensions of the bridge, together below the key `saltbridge`. */
export class BridgePillar implements ExtPillar {
  readonly name = 'bridge';
  readonly #contributions: readonly BridgeContribution[];

  /** @param contributions - may grow until the first minion is served */
  constructor(contributions: readonly BridgeContribution[]) {
    this.#contributions = contributions;
  }

  async provide(request: Parameters<ExtPillar['provide']>[0]): ReturnType<ExtPillar['provide']> {
    const pillars = this.#contributions.flatMap(({ pillar }) => pillar ?? []);
    const given = await Promise.all(pillars.map((pillar) => pillar.provide(request)));
    const maps = given.flatMap((pillar) =>
      isWireMap(pillar) && isWireMap(pillar.saltbridge) ? pillar.saltbridge : [],
    );
    return maps.length === 0 ? undefined : { saltbridge: Object.assign({}, ...maps) };
  }
}
