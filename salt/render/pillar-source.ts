/** Types of the sources of pillar, and of the pillars that they return. */

import type { PillarInputs, PillarRequest } from '#master';
import type { FactMap } from '#minion-protocol';
import type { AskedFunctions } from './asked-functions.ts';
import type { PillarMap } from './pillar-data.ts';
import type { SourceFile } from './source-file.ts';

/**
 * Pillar of a minion in two versions. The minion receives `pillar`. Access decisions use `proven`,
 * which does not depend on grains.
 */
export interface PillarAnswer {
  readonly pillar: FactMap;
  /**
   * Pillar compiled without grains. Access decisions may depend only on this version [THREATS
   * M-09].
   */
  readonly proven: FactMap;
}

/** A source of pillar for minions. */
export interface PillarSource {
  /**
   * Returns the pillar of a minion.
   * @param lower - data that templates see as `pillar`; default: empty
   * @param provenLower - part of `lower` that does not depend on grains; default: the same
   */
  provide(
    request: PillarRequest,
    lower?: PillarMap,
    provenLower?: PillarMap,
  ): Promise<PillarAnswer>;
  /**
   * Compiles a pillar without the cache. The result also contains the data of each file, for
   * inspection by operators. Absent if the embedding program provides the pillar.
   */
  compile?(request: PillarRequest, lower?: PillarMap): Promise<CompiledPillar>;
  /**
   * Template functions that compile the pillar again with additional sources. Absent if the pillar
   * of this source is only a part of the minion's pillar.
   */
  readonly onDemand?: OnDemandPillar;
  /**
   * Returns the numbers of compiled pillars, and the grains on which they depend. Absent if the
   * embedding program provides the pillar.
   */
  inputs?(): Promise<PillarInputs>;
}

/**
 * Creates the template function `pillar.ext`. A template calls `pillar.ext` to compile a pillar
 * together with additional sources that the template itself names.
 */
export type OnDemandPillar = (
  request: Pick<PillarRequest, 'grains' | 'id' | 'saltenv'>,
  place: 'orchestration' | 'pillar',
) => AskedFunctions;

/** Result of compiling a pillar. */
export interface CompiledPillar {
  /** The compiled pillar, without the key `_errors`. */
  readonly pillar: PillarMap;
  /** Messages for the key `_errors` of the minion's pillar. Empty if compilation succeeded. */
  readonly errors: readonly string[];
  /** Errors that caused the messages in `errors`, for the log. */
  readonly failures: readonly unknown[];
  /** SLS that the top files assign to this minion. */
  readonly matches: Matches;
  /** Files that provided data. Each is merged over the previous one. */
  readonly layers: readonly PillarLayer[];
}

/**
 * Data of one pillar file. If an `include` specifies a `key` for the file, the data is nested under
 * this key.
 */
export interface PillarLayer {
  readonly saltenv: string;
  readonly sls: string;
  readonly file: SourceFile;
  readonly data: PillarMap;
}

/** Names of the SLS files that the top file assigns to a minion, in order, by environment. */
export type Matches = ReadonlyMap<string, readonly string[]>;
