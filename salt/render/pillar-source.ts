/** Sources of pillar and their answers. */

import type { PillarRequest } from '#master';
import type { FactMap } from '#minion-protocol';
import type { PillarMap } from './pillar-data.ts';
import type { SourceFile } from './source-file.ts';

/** A minion's pillar, and the part of it that does not depend on the minion's own claims. */
export interface PillarAnswer {
  readonly pillar: FactMap;
  /** Pillar compiled without grains. Access rights may depend only on this [THREATS M-09]. */
  readonly proven: FactMap;
}

/** A source of pillar for minions. */
export interface PillarSource {
  /**
   * Returns the pillar of a minion.
   * @param lower value of `pillar` in templates; default: empty
   */
  provide(request: PillarRequest, lower?: PillarMap): Promise<PillarAnswer>;
  /** Compiles a pillar file by file for inspection. Absent if a program provides the pillar. */
  compile?(request: PillarRequest, lower?: PillarMap): Promise<CompiledPillar>;
}

/** Result of compiling a pillar. */
export interface CompiledPillar {
  /** Pillar without `_errors`. */
  readonly pillar: PillarMap;
  /** Errors for `_errors` of the minion's pillar. Empty if compilation succeeded. */
  readonly errors: readonly string[];
  /** Original errors, for the log. */
  readonly failures: readonly unknown[];
  /** SLS that the top files assign to this minion. */
  readonly matches: Matches;
  /** Files that provided data, from the lowest layer to the topmost. */
  readonly layers: readonly PillarLayer[];
}

/** Data of one file, nested under the keys of its include. */
export interface PillarLayer {
  readonly saltenv: string;
  readonly sls: string;
  readonly file: SourceFile;
  readonly data: PillarMap;
}

/** SLS of a minion by environment, in order. */
export type Matches = ReadonlyMap<string, readonly string[]>;
