/** Matches the targets of top files [salt/matchers/confirm_top.py]. */

import { badTarget, MasterError, minionOwner, parseTarget, SlowPatterns } from '#master';
import {
  type CompiledTarget,
  compileTarget,
  factsOf,
  type TargetCandidate,
  type TargetExpression,
} from '#minion-protocol';
import { userWork, WorkBudget, WorkLimitExceeded } from '#runtime';
import { type GrainReads, TracedGrains } from '../render/grains.ts';
import { isPillarMap } from '../render/pillar-data.ts';
import type { Matches } from '../render/pillar-source.ts';
import type { PillarSetting } from '../render/pillar-sources.ts';
import { toWirePillar } from '../render/pillar-wire.ts';
import type { TopTarget } from './top-files.ts';

/**
 * Finds the SLS that the top files assign to a minion. An invalid target matches no minion and is
 * reported as an error.
 * @param read - receives the grains that were read to match the targets
 */
export async function matchTop(
  targets: readonly TopTarget[],
  setting: PillarSetting,
  read: GrainReads,
  errors: string[],
): Promise<Matches> {
  const matches = new Map<string, string[]>();
  const { id, grains, pillar, pillarenv } = setting;
  const candidate: TargetCandidate = {
    id,
    facts: {
      grains: new TracedGrains(grains, read),
      pillar: factsOf(toWirePillar(pillar)),
    },
  };
  const meter = new WorkBudget(userWork, minionOwner(id));
  for (const target of targets) {
    if (pillarenv !== undefined && target.saltenv !== pillarenv) continue;
    if (!(await isMeant(target, candidate, setting, { meter, errors }))) continue;
    const names = target.items.filter((item) => typeof item === 'string');
    const known = matches.get(target.saltenv) ?? [];
    matches.set(target.saltenv, [...new Set([...known, ...names])]);
  }
  return matches;
}

async function isMeant(
  { tgt, items, saltenv }: TopTarget,
  candidate: TargetCandidate,
  setting: PillarSetting,
  { meter, errors }: { readonly meter: WorkBudget; readonly errors: string[] },
): Promise<boolean> {
  const kinds = items.filter(isPillarMap).flatMap((option) => option.get('match') ?? []);
  const kind = kinds.at(-1) ?? 'compound';
  try {
    if (typeof kind !== 'string') throw badTarget('match: must be the name of a target type');
    const target = parseTarget({ tgt, tgtType: kind }, setting.nodegroups);
    const compiled = await compile(target, candidate, setting, meter);
    return compiled.test(candidate) === 'yes';
  } catch (error) {
    if (!(error instanceof MasterError || error instanceof WorkLimitExceeded)) throw error;
    errors.push(`Target '${tgt}' of environment '${saltenv}': ${error.message}`);
    return false;
  }
}

/**
 * Compiles a target. Slow patterns are evaluated with a time limit, because minions choose the
 * texts that are matched [THREATS M-12].
 */
async function compile(
  target: TargetExpression,
  candidate: TargetCandidate,
  { slowPatterns }: PillarSetting,
  meter: WorkBudget,
): Promise<CompiledTarget> {
  const slow = new SlowPatterns();
  const compiled = read(() => compileTarget(target, slow.compile, { meter }));
  if (meter.isSliceOver) await meter.giveWay();
  if (!slow.isNeeded) return compiled;
  for (const term of compiled.terms) term.test(candidate);
  await slow.settle(slowPatterns, meter.owner ?? '');
  return compiled;
}

function read(compileIt: () => CompiledTarget): CompiledTarget {
  try {
    return compileIt();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw badTarget(`invalid target: ${error.message}`, { cause: error });
  }
}
