/** Which configs of `AWS::CloudFormation::Init` are applied, in which order. */

import { isPlainMap, states } from '#heat-bridge';

const { configError } = states;

const maxConfigs = 256;
/** Entries of sets, those that refer to other sets among them. */
const maxEntries = 4 * maxConfigs;

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
  const expansion: Expansion = { sets, names: [], chain: new Set(), entries: 0 };
  for (const set of asked ?? ['default']) {
    const before = expansion.names.length;
    expand(expansion, set.trim());
    if (expansion.names.length === before)
      throw configError('configSets', `the set ${set} is empty`);
  }
  return expansion.names;
}

/** Sets that are being expanded in place. */
interface Expansion {
  readonly sets: Readonly<Record<string, unknown>>;
  readonly names: string[];
  /** The sets that led here, the outermost first. */
  readonly chain: Set<string>;
  /** How many entries of sets were looked at. */
  entries: number;
}

function expand(expansion: Expansion, name: string): void {
  const { sets, names, chain } = expansion;
  if (chain.has(name)) {
    const path = [...chain, name].join(' -> ');
    throw configError('configSets', `sets refer to each other in a circle: ${path}`);
  }
  if (!Object.hasOwn(sets, name)) throw configError('configSets', `there is no set ${name}`);
  chain.add(name);
  const set = sets[name];
  for (const entry of typeof set === 'string' ? [set] : listOf(set, name)) {
    // Sets that refer to others twice each double at each step, also where they end in nothing.
    expansion.entries += 1;
    if (expansion.entries > maxEntries) {
      throw configError('configSets', `more than ${maxEntries} entries of sets are to be followed`);
    }
    if (typeof entry === 'string') names.push(entry);
    else if (isPlainMap(entry) && typeof entry.ConfigSet === 'string') {
      expand(expansion, entry.ConfigSet);
    } else {
      throw configError(`configSets: ${name}`, 'expected names of configs, or {"ConfigSet": name}');
    }
    if (names.length > maxConfigs) {
      throw configError('configSets', `more than ${maxConfigs} configs are to be applied`);
    }
  }
  chain.delete(name);
}

function listOf(set: unknown, name: string): readonly unknown[] {
  if (Array.isArray(set)) return set;
  throw configError(`configSets: ${name}`, 'expected a list');
}
