import type { Nodegroups, WireMap } from '../../minion-protocol/index.ts';
import type { TemplateLimits } from '../../template/index.ts';
import type { KeptData } from '../rendering/kept-data.ts';
import type { Renderer } from '../rendering/renderer.ts';
import type { ForeignWords } from '../rendering/task.ts';
import type { SlowPatternRunner } from '../targeting/slow-patterns.ts';
import type { MergeOptions, PillarMap } from './merge.ts';

/** What the operator decided, the same for all minions. */
export interface PillarRules extends MergeOptions {
  /** `pillar_includes_override_sls`: what is included lies over the file that includes it. */
  readonly includesOverride: boolean;
  /** `pillar_safe_render_error`: minions are not told what is wrong with a file. */
  readonly isErrorSafe: boolean;
  /** `pillar_raise_on_missing`: `pillar.get` without a default fails where there is nothing. */
  readonly raisesOnMissing: boolean;
  /** `state_top`. */
  readonly top: string;
  /** `renderer`. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly nodegroups: Nodegroups;
  readonly limits: Partial<TemplateLimits>;
}

/** One minion's pillar in the making. */
export interface PillarSetting extends PillarRules {
  readonly id: string;
  readonly grains: WireMap;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Environments, `base` first. */
  readonly envs: readonly string[];
  /** Those of them that have directories. */
  readonly rooted: ReadonlySet<string>;
  /** What templates see as `opts`. */
  readonly opts: Readonly<Record<string, unknown>>;
  /** What templates see as `pillar`: as in Salt what external pillar gave before, else nothing. */
  readonly pillar: PillarMap;
  /** Words of somebody who may not do everything: they stay values, whatever they say. */
  readonly foreign?: ForeignWords | undefined;
  readonly rendering: Renderer;
  readonly data: KeptData;
  readonly slowPatterns: SlowPatternRunner;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}
