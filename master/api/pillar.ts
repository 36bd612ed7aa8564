import type { FactMap, WireMap, WireValue } from '#minion-protocol';

/** Difference between two versions of a pillar. */
export interface PillarDifference {
  /** Path of the value: keys separated by `:`. */
  readonly path: string;
  /** Previous value. Absent if the key was added. */
  readonly before?: WireValue;
  /** Current value. Absent if the key was removed. */
  readonly after?: WireValue;
}

/** File that contributes to a value. */
export interface PillarOrigin {
  readonly saltenv: string;
  readonly sls: string;
  /** Path of the file, relative to its root. */
  readonly file: string;
  /** Line number, starting at 1. Present only if the key occurs in exactly one line of the file. */
  readonly line?: number;
  readonly value: WireValue;
}

/** Grain that was read while pillars were compiled. */
interface PillarInputGrain {
  /** Name of the grain. `*`: a template has used all grains. */
  readonly grain: string;
  /** Number of different values of the grain in the compiled pillars. */
  readonly values: number;
  /** Number of compiled pillars that depend on the grain. */
  readonly pillars: number;
  /**
   * Whether every compiled pillar that depends on the grain is shared. A shared pillar serves all
   * minions with equal inputs.
   */
  readonly isShared: boolean;
}

/** Number of compiled pillars of a master, and the grains that they depend on. */
export interface PillarInputs {
  /** Number of shared compiled pillars. A shared pillar serves all minions with equal inputs. */
  readonly shared: number;
  /** Number of compiled pillars that belong to one minion. */
  readonly own: number;
  /** Grains that the pillars depend on. The grain with the most values is first. */
  readonly grains: readonly PillarInputGrain[];
}

/**
 * Request for a minion's pillar. Only `id` is verified; the other values are claims of the minion.
 */
export interface PillarRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
}

/**
 * Function that returns the pillar of a minion. If its promise rejects, the minion cannot run
 * states.
 */
export type PillarProvider = (request: PillarRequest) => Promise<WireMap>;

/**
 * Request for external pillar. The id of the minion is verified. The request has no grains, because
 * a minion could use false grains to obtain other data [THREATS M-09].
 */
type ExtPillarRequest = Pick<PillarRequest, 'id' | 'saltenv' | 'pillarenv'>;

/**
 * External source of pillar data, as `ext_pillar` in Salt. The master calls it for each request of
 * a minion, possibly for several minions concurrently.
 */
export interface ExtPillar {
  /** Name of the source in errors and log lines. */
  readonly name: string;
  /**
   * Returns the part of the minion's pillar that this source provides, or `undefined` if there is
   * none. If the promise rejects, `_errors` in the minion's pillar contains the name of the source,
   * and the log contains the reason.
   */
  provide(request: ExtPillarRequest): Promise<FactMap | undefined>;
}
