import type { FactMap, WireMap, WireValue } from '#minion-protocol';

/** A value that is another one. */
export interface PillarDifference {
  /** Keys with `:` between them. */
  readonly path: string;
  /** Absent: it was not there. */
  readonly before?: WireValue;
  /** Absent: it is not there any more. */
  readonly after?: WireValue;
}

/** A file that says something of a value. */
export interface PillarOrigin {
  readonly saltenv: string;
  readonly sls: string;
  /** Below its root. */
  readonly file: string;
  /** From 1; where the key stands in one line of the file only. */
  readonly line?: number;
  readonly value: WireValue;
}

/** What a pillar may depend on. `id` is verified, all else is the minion's own word. */
export interface PillarRequest {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
}

/** Gives a minion its pillar. A rejected promise keeps the minion from running states. */
export type PillarProvider = (request: PillarRequest) => Promise<WireMap>;

/**
 * The minion whose pillar is asked for. The id is verified. Grains are left out, so that no claim of
 * a minion decides what it gets [THREATS M-09].
 */
type ExtPillarRequest = Pick<PillarRequest, 'id' | 'saltenv' | 'pillarenv'>;

/**
 * A source of pillar beside the files, as `ext_pillar` is in Salt. It is asked each time that a
 * minion asks, and may be asked for several minions at once.
 */
export interface ExtPillar {
  /** In errors and in the log. */
  readonly name: string;
  /**
   * Returns the minion's pillar of this source, or `undefined`. If it fails, the minion's pillar has
   * `_errors` with the source's name, and the log has the reason.
   */
  provide(request: ExtPillarRequest): Promise<FactMap | undefined>;
}
