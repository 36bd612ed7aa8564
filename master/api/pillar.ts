import type { FactMap, WireMap, WireValue } from '#minion-protocol';

/** Difference between two versions of a pillar. */
export interface PillarDifference {
  /** Keys separated by `:`. */
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
  /** Path of the file below its root. */
  readonly file: string;
  /** Line number, starting at 1. Present only if the key occurs in exactly one line of the file. */
  readonly line?: number;
  readonly value: WireValue;
}

/** Inputs of a pillar. Only `id` is verified; the other values are claims of the minion. */
export interface PillarRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
}

/**
 * Function that returns the pillar of a minion. If the promise is rejected, the minion cannot run
 * states.
 */
export type PillarProvider = (request: PillarRequest) => Promise<WireMap>;

/**
 * Minion whose pillar is requested. The id is verified. Grains are excluded, so that no claim of a
 * minion decides what it receives [THREATS M-09].
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
   * Returns the minion's pillar of this source, or `undefined`. If it fails, the minion's pillar has
   * `_errors` with the source's name, and the log has the reason.
   */
  provide(request: ExtPillarRequest): Promise<FactMap | undefined>;
}
