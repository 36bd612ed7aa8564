/** Sources of pillar and their answers. */

import type { PillarRequest } from '#master';
import type { FactMap } from '#minion-protocol';
import type { PillarMap } from './pillar-data.ts';
import type { SourceFile } from './source-file.ts';

/** A minion's pillar, with what of it the minion's own word has no part in. */
export interface PillarAnswer {
  readonly pillar: FactMap;
  /** The pillar that it would have without its grains: all that rights may go by [THREATS M-09]. */
  readonly proven: FactMap;
}

/** Gives minions their pillar. */
export interface PillarSource {
  /** @param lower what templates see as `pillar`. Default: nothing */
  provide(request: PillarRequest, lower?: PillarMap): Promise<PillarAnswer>;
  /** A pillar file by file, made for whoever wants to know; a program's has no files. */
  compile?(request: PillarRequest, lower?: PillarMap): Promise<CompiledPillar>;
}

/** A pillar as it was made. */
export interface CompiledPillar {
  /** Without `_errors`. */
  readonly pillar: PillarMap;
  /** What minions are told in `_errors`; none: all went well. */
  readonly errors: readonly string[];
  /** What went wrong, in full, for the log. */
  readonly failures: readonly unknown[];
  /** What the top files give this minion. */
  readonly matches: Matches;
  /** Each file that gave data, in the order in which they lie over each other. */
  readonly layers: readonly PillarLayer[];
}

/** The data that one file gave by itself, under the keys that it was included under. */
export interface PillarLayer {
  readonly saltenv: string;
  readonly sls: string;
  readonly file: SourceFile;
  readonly data: PillarMap;
}

/** The SLS that a minion gets, by environment, in order. */
export type Matches = ReadonlyMap<string, readonly string[]>;
