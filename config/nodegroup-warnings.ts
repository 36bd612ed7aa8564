/**
 * Detection of nodegroups that match no minion. As in Salt, the master starts with them, and jobs
 * that use them fail.
 */

import { compileTarget, expandTargetRequest } from '#minion-protocol';
import { type ConfigWarning, placeOf } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { originOfSetting, type Settings, settingsOf } from './settings.ts';

/** Returns a warning for each nodegroup that contains itself, or that has an invalid expression. */
export function warnOfNodegroups(
  { nodegroups }: Pick<MasterConfig, 'nodegroups'>,
  settings: Settings,
): ConfigWarning[] {
  const setting = settings.get('nodegroups');
  const places = new Map(setting === undefined ? [] : settingsOf(setting));
  return Object.keys(nodegroups).flatMap((name) => {
    const problem = problemOf(name, nodegroups);
    if (problem === undefined) return [];
    const origin = places.get(name)?.origin ?? originOfSetting(settings, 'nodegroups');
    const message = `${placeOf(origin)}: nodegroups:${name}: ${problem}; it matches no minion`;
    return [{ kind: 'unusable' as const, ...origin, message }];
  });
}

function problemOf(name: string, nodegroups: MasterConfig['nodegroups']): string | undefined {
  try {
    const target = expandTargetRequest({ tgt: name, tgtType: 'nodegroup' }, nodegroups);
    return compileTarget(target, anyPattern).problem;
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

/**
 * Accepts every regular expression, even one that the linear-time engine cannot run. Targets can
 * contain such an expression; it then runs in a thread with a time limit.
 */
function anyPattern(): () => boolean {
  return () => false;
}
