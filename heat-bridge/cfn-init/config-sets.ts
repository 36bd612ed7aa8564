/** Which configs of `AWS::CloudFormation::Init` are applied, in which order. */

import { isPlainMap } from '../commands/command-definition.ts';
import { configError } from './config.ts';

const maxConfigs = 256;

/** The key of metadata, and where errors say that they are. */
export const initKey = 'AWS::CloudFormation::Init';

/**
 * The names of the configs, in their order. One that is named twice is there twice.
 * @param asked - the sets that are to be applied, one after the other; `undefined`: `default`, or
 * the config `config` where there are no sets
 * @throws BridgeError ERR_CFN_INIT
 */
export function selectConfigs(
  init: Readonly<Record<string, unknown>>,
  asked: readonly string[] | undefined,
): readonly string[] {
  const { configSets: sets } = init;
  if (sets === undefined) {
    if (asked !== undefined) throw configError(initKey, 'it has no configSets to choose from');
    return ['config'];
  }
  if (!isPlainMap(sets)) throw configError('configSets', 'expected a map of sets');
  const names: string[] = [];
  for (const set of asked ?? ['default']) {
    const before = names.length;
    collect(sets, set.trim(), [], names);
    if (names.length === before) throw configError('configSets', `the set ${set} is empty`);
  }
  return names;
}

/** @param chain - the sets that led here */
function collect(
  sets: Readonly<Record<string, unknown>>,
  name: string,
  chain: readonly string[],
  names: string[],
): void {
  const path = [...chain, name];
  if (chain.includes(name)) {
    throw configError('configSets', `sets refer to each other in a circle: ${path.join(' -> ')}`);
  }
  if (!Object.hasOwn(sets, name)) throw configError('configSets', `there is no set ${name}`);
  const set = sets[name];
  for (const entry of typeof set === 'string' ? [set] : listOf(set, name)) {
    if (typeof entry === 'string') names.push(entry);
    else if (isPlainMap(entry) && typeof entry.ConfigSet === 'string') {
      collect(sets, entry.ConfigSet, path, names);
    } else {
      throw configError(`configSets: ${name}`, 'expected names of configs, or {"ConfigSet": name}');
    }
    // Sets that refer to others twice each would double at each step.
    if (names.length > maxConfigs) {
      throw configError('configSets', `more than ${maxConfigs} configs are to be applied`);
    }
  }
}

function listOf(set: unknown, name: string): readonly unknown[] {
  if (Array.isArray(set)) return set;
  throw configError(`configSets: ${name}`, 'expected a list');
}
