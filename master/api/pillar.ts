import type { WireMap, WireValue } from '#minion-protocol';

// Differences between two pillars.

/** A value that is another one. */
export interface PillarDifference {
  /** Keys with `:` between them. */
  readonly path: string;
  /** Absent: it was not there. */
  readonly before?: WireValue;
  /** Absent: it is not there any more. */
  readonly after?: WireValue;
}

// Origins of values.

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

/** How pillar from elsewhere is written. */
export type PillarTextFormat = 'json' | 'yaml';
